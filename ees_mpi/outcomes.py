"""The arrays of a generation: N individuals, B behaviour components, O observation components."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]
Normalization = Literal["whiten", "ranks"]  # of behaviours, before an objective uses them
Bandwidth = float | Literal["scott"]  # of a kernel on normalised behaviours: a number, or Scott's rule


def readonly(named: Arrays) -> dict[str, NDArray[Any]]:
    """Return views of arrays that cannot be changed: a generation that is not committed must not change the state."""
    views = {name: np.asarray(array).view() for name, array in named.items()}
    for view in views.values():
        view.flags.writeable = False
    return views


def doubles(values: Any) -> Floats:
    """Return an array of doubles; raise a TypeError for None, texts and complex numbers, which numpy would convert."""
    array = np.asarray(values)
    others = array.dtype.kind == "O" and any(isinstance(value, str | bytes | None) for value in array.flat)
    if array.dtype.kind in "cSUTMm" or others:
        raise TypeError("real numbers are needed, not None, texts or complex ones; NaN marks a failed rollout")
    return np.asarray(array, np.float64)


@dataclass(frozen=True)
class Draw:
    """The draw of N individuals from the mean(s) and the noise table."""

    offset: NDArray[np.int64]  # [N] start of each noise vector in the noise table
    sign: NDArray[np.int8]  # [N] +1 or -1: the antithetic sign
    parent: NDArray[np.int32]  # [N] the mean that is perturbed

    def at(self, index: NDArray[np.int64]) -> "Draw":
        """Return the draw of some of the individuals."""
        return Draw(self.offset[index], self.sign[index], self.parent[index])


@dataclass(frozen=True)
class Batch:
    """n individuals for a GPU: means[parent] + sign * std * noise[offset : offset + D]; `stds` in place of std."""

    index: NDArray[np.int64]  # [n] the numbers of the individuals
    means: Singles  # [K, D]
    std: float
    offset: NDArray[np.int64]  # [n] start of each noise vector in the noise table
    sign: NDArray[np.int8]  # [n] +1 or -1; 0: the unperturbed mean
    parent: NDArray[np.int32]  # [n] which mean
    observe: NDArray[np.bool_]  # [n] which rollouts are sampled for the observation statistics
    reset_seed: NDArray[np.int64] | None = None  # [n] a start for each; None: the start of the task
    stds: Singles | None = None  # [D] a std for each parameter; None: `std` for all


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one rollout."""

    index: int
    behavior: Sequence[float]  # [B]
    fitness: float
    length: int
    valid: bool = True
    observations: Floats | None = None  # [1 + 2 O]: count, sums, sums of squares; if this rollout was sampled
    by_start: Floats | None = None  # [K, B] the behaviour from each start, if there are several


@dataclass(frozen=True)
class Outcomes:
    """The results of the N rollouts of a generation, in index order, the same on every rank."""

    behavior: Floats  # [N, B]
    fitness: Floats  # [N]
    length: NDArray[np.int64]  # [N]
    valid: NDArray[np.bool_]  # [N]
    observations: Floats  # [sampled, 1 + 2 O], in index order
    by_start: Floats | None = None  # [N, K, B] the behaviour from each start, if there are several
    common_starts: bool = False  # whether all individuals have the same starts
    _cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def at(self, index: NDArray[np.int64]) -> "Outcomes":
        """Return the results of some of the individuals, without observations."""
        behavior, fitness, length = self.behavior[index], self.fitness[index], self.length[index]
        by_start = None if self.by_start is None else self.by_start[index]
        nothing = self.observations[:0]
        return Outcomes(behavior, fitness, length, self.valid[index], nothing, by_start, self.common_starts)

    @property
    def size(self) -> int:
        """The number of valid individuals: the N of every objective."""
        return int(self.valid.sum())

    @property
    def whitened(self) -> Floats:
        """The valid behaviours [size, B] with mean 0 and standard deviation 1 per component; 0 if constant."""
        return self.once("whitened", lambda: _whiten(self.behavior[self.valid]))

    def normalised(self, normalization: Normalization) -> Floats:
        """Return the valid behaviours [size, B] with mean 0: whitened, or their centred ranks per component."""
        if normalization == "whiten":
            return self.whitened
        components = self.behavior[self.valid].T
        return self.once("ranks", lambda: np.stack(list(map(centred_ranks, components)), axis=1))

    def centred(self, weights: Floats) -> Floats:
        """Return weights [N] from those of the valid individuals [size]: mean 0, and exactly 0 for invalid ones.

        Weights that differ by rounding errors only are all exactly 0: they say nothing, and Adam would scale them up.
        """
        centred = np.zeros(len(self.valid))
        if np.ptp(weights) > 1e-12 * np.abs(weights).max():
            centred[self.valid] = weights - weights.mean()
        return centred

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the result of `compute`, and cache it: several parts need the same values."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]


def _whiten(behavior: Floats) -> Floats:
    centred: Floats = behavior - behavior.mean(axis=0)
    std = centred.std(axis=0)
    # A constant component differs from its mean by rounding errors only; do not scale those up.
    tiny = 1e-12 * np.abs(behavior).max(axis=0, initial=0.0)
    alive = std > tiny
    return np.where(alive, centred / np.where(alive, std, 1.0), 0.0)


def centred_ranks(values: Floats) -> Floats:
    """Return ranks [N] from -0.5 (lowest) to 0.5 (highest); equal values get the mean of their ranks."""
    if len(values) < 2:
        return np.zeros(len(values))
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2
    return np.asarray(middle[place] / (len(values) - 1) - 0.5)


MAX_BEHAVIOR = 1e100  # absolute value of a behaviour: the square of a larger one may overflow


def flat_learned(learned: Arrays) -> Singles:
    """Return all learned arrays except the means as one vector, in the order of their names."""
    others = [np.asarray(learned[name], np.float32).ravel() for name in sorted(learned) if name != "mean"]
    return np.concatenate([*others, np.empty(0, np.float32)])


def split_learned(flat: Singles, like: Arrays) -> Arrays:
    """Return the learned arrays whose vector is `flat`; `like` has their means, names and shapes."""
    learned, start = {"mean": like["mean"]}, 0
    for name in sorted(like.keys() - {"mean"}):
        learned[name] = flat[start : start + like[name].size].reshape(like[name].shape)
        start += like[name].size
    if start != flat.size:
        raise ValueError(f"expected {start} learned numbers, got {flat.size}")
    return learned
