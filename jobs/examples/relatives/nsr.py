"""NS-ES, NSR-ES and NSRA-ES: fitness and novelty; several means, of which each generation chooses one.

Conti et al. 2018 (arXiv:1712.06560). The rules are those of the authors' released program, which has no NSRA-ES: its
rule for `share` is that of later programs, and its default of `patience` was not checked.

    novelty(b) = mean distance of b to its k nearest neighbours in the archive
    P(m) = novelty(b of mean m) / sum over all means                   the chance of mean m to have the offspring
    w_i = ( share rank(f_i) + (1 - share) rank(novelty_i) ) / N        ranks symmetric in [-0.5, 0.5]

The archive begins with the first means; then each generation adds the mean that has moved. `share` is 0 for NS-ES and
0.5 for NSR-ES. NSRA-ES begins with 1 and has a `change`: if the mean that has moved is fitter than all before it,
`share` grows by it; after `patience` generations without such a mean it falls by it; within 0 and 1.

Each mean is a Strategy: it has its own moments and its own number of steps. All share one noise table.

    python jobs/examples/relatives/nsr.py --share 0.5                         NSR-ES on the walker
    mpirun -n 4 python jobs/examples/relatives/nsr.py HalfCheetah-v5 --share 1 --change 0.05 --out nsra.npz
"""

from contextlib import ExitStack

import numpy as np
from robots import NOISE, load, options, save, task_of

import ees_mpi
from ees_mpi.generation import centred_ranks

ROUNDING = 1e-12  # of ranks, which are up to 0.5


def novelty(behavior, archive, neighbors):
    """Return the mean distance [n] of behaviours [n, B] to their nearest neighbours in the archive [A, B]."""
    distances = [np.sort(np.linalg.norm(archive - each, axis=1))[:neighbors] for each in behavior]
    return np.array([each.mean() for each in distances])


class Search:
    """Several means; `step` makes one generation. All ranks roll out the means, so that all know the archive."""

    def __init__(self, task, strategies, share=0.5, change=0.0, patience=50, neighbors=10, seed=0):
        self.task, self.es, self.seed, self.neighbors = task, strategies, seed, neighbors
        self.change, self.patience = change, patience
        self.places, _ = task(np.stack([es.mean for es in strategies]))  # of the means [K, B]
        self.archive = self.places[np.isfinite(self.places).all(axis=1)]
        self.share, self.best, self.waited = share, -np.inf, 0

    @property
    def generation(self):
        return sum(es.state.generation for es in self.es)

    def chances(self):
        """Return the chance [K] of each mean; equal ones if none is novel. A failed rollout has no novelty."""
        found = np.nan_to_num(novelty(self.places, self.archive, self.neighbors), nan=0.0, posinf=0.0)
        return found / found.sum() if found.sum() > 0 else np.full(len(found), 1 / len(found))

    def weights_of(self, behavior, fitness):
        """Return the weights [N] of behaviours [N, B] and fitnesses [N]; failed rollouts have 0."""
        valid = np.isfinite(fitness) & np.isfinite(behavior).all(axis=1)
        novel = novelty(behavior[valid], self.archive, self.neighbors)
        both = self.share * centred_ranks(fitness[valid]) + (1 - self.share) * centred_ranks(novel)
        both[np.abs(both) < ROUNDING] = 0.0  # fitness and novelty may cancel
        weights = np.zeros(len(fitness))
        weights[valid] = both / max(valid.sum(), 1)
        return weights

    def step(self):
        """Make one generation of a mean; return its number, and the fitnesses [N] of its offspring."""
        generator = np.random.default_rng([self.seed, self.generation])  # the same on every rank
        chosen = int(generator.choice(len(self.es), p=self.chances()))
        es = self.es[chosen]
        behavior, fitness = map(es.gather, self.task(es.ask()))
        es.tell(weights=self.weights_of(behavior, fitness))
        place, fit = (part[0] for part in self.task(es.mean[None]))
        self.places[chosen] = place
        if np.isfinite(place).all():
            self.archive = np.vstack([self.archive, place])
        self.adapt_share(fit)
        return chosen, fitness

    def adapt_share(self, fitness):
        """Change the share after a mean of this fitness, as NSRA-ES does."""
        self.waited += 1
        if fitness > self.best:
            self.share, self.best, self.waited = min(1.0, self.share + self.change), fitness, 0
        elif self.waited >= self.patience:
            self.share, self.waited = max(0.0, self.share - self.change), 0

    def memory(self):
        """Return what the search remembers beside the states of its Strategies."""
        return {name: getattr(self, name) for name in ("places", "archive", "share", "best", "waited")}


def main():
    """Search, print a line for each generation, and save everything after it."""
    given = options(__doc__, means=5, share=0.5, change=0.0, patience=50, neighbors=10)
    task, rules = task_of(given.task, given.steps), (given.share, given.change, given.patience, given.neighbors)
    shape = {"size": given.size, "std": task.std, "optimizer": {"name": "adam", "lr": given.lr}, "config": NOISE}
    with ExitStack() as stack:
        seeds = [given.seed + 1000 * k for k in range(given.means)]
        each = [stack.enter_context(ees_mpi.Strategy(task.start(seed), seed=seed, **shape)) for seed in seeds]
        search = Search(task, each, *rules, seed=given.seed)
        for name, value in (load(given.out, each) or {}).items():
            setattr(search, name, value if value.ndim else value.item())
        while search.generation < given.generations:
            chosen, fitness = search.step()
            save(given.out, each, **search.memory())
            if each[0].rank == 0:
                word = f"mean {chosen}, fitness {np.nanmean(fitness):.3f}, share {search.share:.2f}"
                print(f"generation {search.generation}: {word}, archive {len(search.archive)}")
        if each[0].rank == 0:
            print(*(es.state.digest().hex() for es in each), sep="\n")


if __name__ == "__main__":
    main()
