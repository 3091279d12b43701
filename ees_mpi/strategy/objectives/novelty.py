"""Novelty ES: maximise the mean rank of the distance to the behaviours of earlier generations.

Conti et al. 2018 (arXiv:1712.06560); Lehman and Stanley 2011.

    novelty_i = mean distance of b_i to its k nearest neighbours in the archive,    b: the behaviours, not whitened
    w_i = rank(novelty_i) / N,    ranks symmetric in [-0.5, 0.5]

The archive is part of the state. Each generation adds some of its behaviours. A full archive drops its oldest ones.
In the first generation the archive is empty, and all individuals are equally novel: all weights are 0, and the mean
does not move.

Conti et al. add the behaviour of the mean to the archive, once per generation, and never drop any. Here the archive
holds behaviours of individuals, which need no further rollouts.
"""

from typing import Annotated

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.generation import Outcomes, centred_ranks
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Count, key
from ees_mpi.strategy.objectives.base import Memory, Objective

ROWS = 64  # individuals compared with the archive at a time


class Novelty(Objective, frozen=True):
    """Weights each individual by the rank of its distance, in the task's units, to its neighbours in an archive."""

    neighbors: Annotated[Count, key("k: how many nearest neighbours in the archive count.", "behaviours")] = 10
    added: Annotated[
        Count, key("How many behaviours each generation adds to the archive: the first valid ones.", "behaviours")
    ] = 10
    archive_size: Annotated[
        Count, key("The largest number of behaviours in the archive; the oldest are dropped.", "behaviours")
    ] = 5000

    climbs = "distance_mean"
    remembers = True

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        novelty = self.novelty(*_behavior_and_archive(outcomes, memory), ranks)
        return outcomes.centred(centred_ranks(novelty) / outcomes.size)

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory with the behaviours of some individuals added to the archive."""
        behavior, archive = _behavior_and_archive(outcomes, memory)
        # The first ones are not a random sample: in an antithetic population ten of them are five mirrored pairs.
        return {"archive": np.concatenate([archive, behavior[: self.added]])[-self.archive_size :]}

    def novelty(self, behavior: Floats, archive: Floats, ranks: Ranks) -> Floats:
        """Return the mean distance [N] to the nearest neighbours in the archive; each rank computes some rows."""
        if len(archive) == 0:
            return np.zeros(len(behavior))
        return ranks.in_blocks(len(behavior), ROWS, lambda block: self._rows(behavior[block], archive))

    def _rows(self, rows: Floats, archive: Floats) -> Floats:
        squares = sum(np.square(rows[:, None, j] - archive[None, :, j]) for j in range(rows.shape[1]))
        nearest = min(self.neighbors, len(archive))
        closest: Floats = np.sort(np.partition(squares, nearest - 1, axis=1)[:, :nearest], axis=1)
        return np.asarray(np.sqrt(closest).mean(axis=1))


def _behavior_and_archive(outcomes: Outcomes, memory: Memory) -> tuple[Floats, Floats]:
    """Return the valid behaviours [N, B] and the archive [A, B]."""
    behavior = outcomes.behavior[outcomes.valid]
    return behavior, memory.get("archive", np.zeros((0, behavior.shape[1])))
