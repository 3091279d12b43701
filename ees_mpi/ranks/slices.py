"""The slice of the individuals that each node evaluates: by its number of ranks, or by its measured speed."""

import numpy as np
from numpy.typing import NDArray


class Slices:
    """Slices of the nodes; the same on all ranks, because all ranks know the same times."""

    def __init__(self, ranks: NDArray[np.int64]):
        """Begin with the same speed for all ranks; `ranks` [nodes]: of each node."""
        self._ranks = ranks.astype(np.float64)
        self._speeds, self._last = self._ranks, np.zeros(len(ranks), np.int64)  # speeds in any unit

    def cut(self, count: int) -> NDArray[np.int64]:
        """Return the ends [nodes + 1] of the slices of `count` individuals."""
        by_ranks, by_speed = (self._ends(count, weights) for weights in (self._ranks, self._speeds))
        ends = by_speed if self._seconds(by_speed) < self._seconds(by_ranks) else by_ranks
        self._last = np.diff(ends)
        return ends

    def balance(self, taken: NDArray[np.float64]) -> None:
        """Note the seconds [nodes] that the ranks of each node needed for the last slices, on average."""
        if self._last.all() and taken.all():
            speeds = self._last / taken
            # Half of the way, on a logarithmic scale: one slow rollout does not make a node slow.
            self._speeds = np.sqrt(self._speeds / self._speeds.sum() * speeds / speeds.sum())

    def _ends(self, count: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
        least = weights.sum() / max(count - len(weights), 1)  # one individual: without it a speed would stay unknown
        shares = np.cumsum([0.0, *np.maximum(weights, least)])
        return np.rint(count * (shares / shares[-1])).astype(np.int64)

    def _seconds(self, ends: NDArray[np.int64]) -> float:
        """Return the time of the slowest node; one individual too many for its ranks costs a whole rollout."""
        return float((np.ceil(np.diff(ends) / self._ranks) * self._ranks / self._speeds).max())
