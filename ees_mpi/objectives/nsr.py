"""NS-ES, NSR-ES and NSRA-ES: fitness and novelty, with an archive of the behaviours of the means.

Conti et al. 2018 (arXiv:1712.06560); the population `chosen` has the means. The rules are those of the authors'
released program, which has no NSRA-ES: its rule for `share` is that of later programs, and
its default of `patience` was not checked.

    novelty(b) = mean distance of b to its k nearest neighbours in the archive
    w_i = ( share rank(f_i) + (1 - share) rank(novelty_i) ) / N        ranks symmetric in [-0.5, 0.5]
    P(m) = novelty(b of mean m) / sum over all means                   the chance of mean m in the next generation

`share` is 0 for NS-ES and 0.5 for NSR-ES. NSRA-ES begins with 1. If the mean that moved is fitter than all before it,
`share` grows by `change`; after `patience` generations without such a mean it falls by `change`; within 0 and 1.

The archive begins with the first means. Then each generation adds the behaviour of the mean that moved last. One detail
differs: Conti et al. roll that mean out before they choose the next one. Here it is rolled out together with the next
offspring, so that no rank waits; its chance is the one that it had before its last step.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ees_mpi.contracts import Memory, Objective
from ees_mpi.objectives.novelty import ArchiveSize, Count, Neighbors, Novelty
from ees_mpi.outcomes import Floats, Outcomes, centred_ranks
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key

ROUNDING = 1e-12  # of ranks, which are up to 0.5


class NoveltyReward(Objective, frozen=True):
    """Weights each offspring of the chosen mean by the ranks of its fitness and of its novelty."""

    share: Annotated[float, key("The share of the fitness; the rest is novelty's.", ge=0, le=1)] = 0.5
    change: Annotated[float, key("The change of the share in NSRA-ES (there 0.05); 0: it is fixed.", ge=0, le=1)] = 0.0
    patience: Annotated[
        Count, key("Generations without a better mean, after which the share falls.", "generations")
    ] = 50
    neighbors: Neighbors = 10
    archive_size: ArchiveSize = 5000

    headline = "fitness_mean"
    uses_fitness = True
    remembers = True
    needs_means = True

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N], which are 0 for the means, and the memory with archive, share and chances."""
        known, born = self.remember(outcomes, memory), outcomes.valid
        if outcomes.draw is not None:
            born = born & (outcomes.draw.sign != 0)
        offspring, share = outcomes.at(np.flatnonzero(born)), known["share"]
        novelty = Novelty(neighbors=self.neighbors).novelty(offspring.behavior, known["archive"], ranks)
        ranked = share * centred_ranks(offspring.fitness) + (1 - share) * centred_ranks(novelty)
        ranked[np.abs(ranked) < ROUNDING] = 0.0  # fitness and novelty may cancel
        weights = np.zeros(len(outcomes.valid))
        weights[born] = offspring.centred(ranked / max(offspring.size, 1)) if offspring.size else 0.0
        return weights, known

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory after the rollouts of the means in a generation."""
        draw, empty = outcomes.draw, np.zeros((0, outcomes.behavior.shape[1]))
        means = np.flatnonzero(draw.sign == 0) if draw else np.zeros(0, np.int64)
        behavior, fitness, valid = outcomes.behavior[means], outcomes.fitness[means], outcomes.valid[means]
        new = valid if not memory else valid & (np.arange(len(means)) == memory["moved"])
        archive = np.concatenate([memory.get("archive", empty), behavior[new]])[-self.archive_size :]
        return {
            "archive": archive,
            "chances": self._chances(behavior, valid, archive),
            "moved": np.array(draw.parent[-1] if draw else 0),
            **self._share(memory, float(fitness[new].max(initial=-np.inf))),
        }

    def _share(self, memory: Memory, fitness: float) -> Memory:
        """Return share, best fitness and generations without a better one; `fitness`: of the mean that moved."""
        if not memory:
            return {"share": np.array(self.share), "best": np.array(-np.inf), "waited": np.array(0)}
        share, best, waited = float(memory["share"]), float(memory["best"]), int(memory["waited"]) + 1
        if fitness > best:
            share, best, waited = min(1.0, share + self.change), fitness, 0
        elif waited >= self.patience:
            share, waited = max(0.0, share - self.change), 0
        return {"share": np.array(share), "best": np.array(best), "waited": np.array(waited)}

    def _chances(self, behavior: Floats, valid: NDArray[np.bool_], archive: Floats) -> Floats:
        """Return the chance [K] of each mean; equal ones if none is novel. An invalid rollout has no novelty."""
        novelty = np.zeros(len(valid))
        with np.errstate(over="ignore", invalid="ignore"):
            novelty[valid] = Novelty(neighbors=self.neighbors).novelty(behavior[valid], archive, Ranks())
        total = novelty.sum()
        return novelty / total if 0 < total < np.inf else np.full(len(valid), 1 / max(len(valid), 1))

    def chances(self, memory: Memory) -> Floats | None:
        return memory.get("chances")
