"""Novelty ES: maximise the mean rank of the distance to what has been seen before.

Conti et al. 2018 (arXiv:1712.06560); Lehman and Stanley 2011.

    novelty_i = mean distance of b_i to its k nearest neighbours in the archive
    w_i = rank(novelty_i) / N,    ranks symmetric in [-0.5, 0.5]

The archive is part of the state: each generation leaves some of its behaviours in it, and the oldest go when it is
full. In the first generation there is none, and all are equally novel.
"""

from typing import Annotated

import msgspec
import numpy as np

from ees_mpi.contracts import Memory
from ees_mpi.objectives.base import ObjectivePart
from ees_mpi.objectives.fitness import centred_ranks
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks

Count = Annotated[int, msgspec.Meta(ge=1)]
ROWS = 64  # individuals compared with the archive at a time


class Novelty(ObjectivePart, frozen=True):
    """Weights by the rank of an individual's distance to its nearest neighbours in an archive."""

    neighbors: Count = 10
    added: Count = 10  # behaviours that a generation leaves in the archive
    archive_size: Count = 5000

    @property
    def headline(self) -> str:
        """The metric that progress lines show."""
        return "distance_mean"

    @property
    def remembers(self) -> bool:
        """Whether the objective has a memory: the archive."""
        return True

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N] and the memory with the archive grown."""
        behavior = outcomes.behavior[outcomes.valid]
        archive = memory.get("archive", np.zeros((0, behavior.shape[1])))
        novelty = self.novelty(behavior, archive, ranks)
        return outcomes.spread(centred_ranks(novelty) / outcomes.size), self.remember(outcomes, memory)

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory with some of a generation's behaviours added to the archive."""
        behavior = outcomes.behavior[outcomes.valid]
        archive = memory.get("archive", np.zeros((0, behavior.shape[1])))
        # Individuals are random draws, so the first ones are as good a sample as any.
        return {"archive": np.concatenate([archive, behavior[: self.added]])[-self.archive_size :]}

    def value(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> float:
        """Return the mean novelty beside what earlier generations left in the archive; 0 while it is empty."""
        behavior = outcomes.behavior[outcomes.valid]
        archive = memory.get("archive", np.zeros((0, behavior.shape[1])))
        return float(self.novelty(behavior, archive, ranks).mean())

    def novelty(self, behavior: Floats, archive: Floats, ranks: Ranks) -> Floats:
        """Return the mean distance [N] to the nearest neighbours in the archive [A, B]; each rank its rows."""
        if len(archive) == 0:
            return np.zeros(len(behavior))
        shares = ranks.shares(-(-len(behavior) // ROWS))
        mine = [self._rows(behavior[b * ROWS : (b + 1) * ROWS], archive) for b in shares[ranks.rank]]
        counts = [sum(min(ROWS, len(behavior) - b * ROWS) for b in share) for share in shares]
        return ranks.gather(np.concatenate([*mine, np.empty(0)]), counts)

    def _rows(self, rows: Floats, archive: Floats) -> Floats:
        squares = sum(np.square(rows[:, None, j] - archive[None, :, j]) for j in range(rows.shape[1]))
        nearest = min(self.neighbors, len(archive))
        closest: Floats = np.sort(np.partition(squares, nearest - 1, axis=1)[:, :nearest], axis=1)
        return np.asarray(np.sqrt(closest).mean(axis=1))
