"""The data of a generation, all of them the same on every rank.

    State --ask--> Work --evaluate--> Found --tell--> the next State, and the Record for the run file

N individuals, K starts of each, B numbers of a behaviour, O observations, D parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Arrays, Floats, Normalization, Singles, digest
from ees_mpi.errors import PluginError
from ees_mpi.ranks import Ranks

MAX_BEHAVIOR = 1e100  # absolute value of a behaviour: the square of a larger one may overflow
OWN = "objective_value"  # the array of a generation with the values of the user's objectives
VARIANCE_FLOOR = 1e-2  # of observations
LEADING = 4  # columns of a packed outcome in front of the behaviour: index, valid, length, fitness


class Unfinished(Exception):
    """A stop request came before all individuals were evaluated; raised on every rank."""


@dataclass(frozen=True)
class State:
    """Everything that a run carries from one generation to the next."""

    generation: int
    learned: Arrays  # by the method: the mean(s) [K, D], and what else it learns
    moments: Arrays  # of the optimizer
    observations: Floats  # [1 + 2 O]: the number of observations, their sums, the sums of their squares
    memory: Arrays = field(default_factory=dict)  # of the objective

    @property
    def mean(self) -> Singles:
        """The mean(s) [K, D]."""
        return self.learned["mean"]

    @property
    def statistics(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the observations; 0 and 1 before the first ones."""
        return mean_std(self.observations)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, in the fixed order of the digest and the run file."""
        named: dict[str, NDArray[Any]] = {"generation": np.array(self.generation, np.int64)}
        named |= {name: self.learned[name] for name in sorted(self.learned)}
        named |= {f"moments/{name}": self.moments[name] for name in sorted(self.moments)}
        named |= {"observations": self.observations}
        named |= {f"memory/{name}": self.memory[name] for name in sorted(self.memory)}
        return named

    @classmethod
    def from_arrays(cls, named: Arrays) -> "State":
        learned = {name: named[name] for name in named if "/" not in name}
        generation, observations = int(learned.pop("generation")), learned.pop("observations")
        return cls(generation, learned, below("moments/", named), observations, below("memory/", named))

    def digest(self) -> bytes:
        return digest(self.arrays())


def mean_std(sums: Floats) -> tuple[Floats, Floats]:
    """Return mean [O] and standard deviation [O] from sums [1 + 2 O]; 0 and 1 if the count is 0."""
    size = len(sums) // 2
    count, total, squares = sums[0], sums[1 : 1 + size], sums[1 + size :]
    if count == 0:
        return np.zeros(size), np.ones(size)
    mean = total / count
    variance = squares / count - np.square(mean)
    return mean, np.sqrt(np.maximum(variance, VARIANCE_FLOOR))


def below(prefix: str, named: Arrays) -> Arrays:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): named[name] for name in named if name.startswith(prefix)}


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


@dataclass(frozen=True)
class Draw:
    """The draw of N individuals from the mean(s) and the noise table."""

    offset: NDArray[np.int64]  # [N] start of each noise vector in the noise table
    sign: NDArray[np.int8]  # [N] +1 or -1: the antithetic sign
    parent: NDArray[np.int32]  # [N] the mean that is perturbed
    std: float | None = None  # of this generation, if that of the population decays

    def at(self, index: NDArray[np.int64]) -> "Draw":
        """Return the draw of some of the individuals."""
        return Draw(self.offset[index], self.sign[index], self.parent[index], self.std)


NOBODY = Draw(np.zeros(0, np.int64), np.zeros(0, np.int8), np.zeros(0, np.int32))


@dataclass(frozen=True)
class Work:
    """What a generation asks of the ranks: N individuals of a draw, and after them M times the unperturbed mean.

    M is 0 or 1 in training. To score one policy from M starts, it is the mean of a work that draws nobody.
    """

    state: State  # read-only
    statistics: tuple[Floats, Floats]  # mean and std that normalise observations: usually those of the state
    draw: Draw  # of the individuals 0 to N - 1
    seeds: NDArray[np.int64]  # [N + M, K] of every start
    observe: NDArray[np.bool_]  # [N + M] whose observations are counted

    @property
    def size(self) -> int:
        """The number of individuals that are drawn, N."""
        return len(self.draw.offset)


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
    raised: bool = False  # whether it is invalid because the user's code raised an exception


@dataclass(frozen=True)
class Outcomes:
    """The results of N individuals, in index order, the same on every rank."""

    behavior: Floats  # [N, B]
    fitness: Floats  # [N]
    length: NDArray[np.int64]  # [N]
    valid: NDArray[np.bool_]  # [N]
    observations: Floats  # [sampled, 1 + 2 O], in index order
    by_start: Floats | None = None  # [N, K, B] the behaviour from each start, if there are several
    common_starts: bool = False  # whether all individuals have the same starts
    raised: Sequence[int] = ()  # the places of those whose code raised an exception
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

    def bits(self, place: int) -> bytes:
        """Return all bits of one outcome but those of its observations; all NaN are equal."""
        parts = [self.valid, self.length, self.fitness, self.behavior]
        if self.by_start is not None:
            parts.append(self.by_start)
        return b"".join(np.where(np.isnan(part[place]), np.nan, part[place]).tobytes() for part in parts)


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


@dataclass(frozen=True)
class Found:
    """What came back of the individuals that were wanted, in index order."""

    outcomes: Outcomes  # of those that are drawn
    means: Outcomes  # of the unperturbed mean
    seconds: Mapping[str, float]  # of this rank: "evaluate", "gather"
    local: Any = None  # what stays on this rank: MAML learns from its rollouts


@dataclass(frozen=True)
class Record:
    """One generation as the run file stores it: its arrays by name, read-only."""

    generation: int
    arrays: Arrays
    own_names: Sequence[str] = ()  # of the values of the user's objectives

    def __repr__(self) -> str:
        shown = [f"{name}={value:.4g}" for name, value in self.metrics.items() if not name.startswith("seconds_")]
        return f"Record(generation={self.generation}, {', '.join(shown)}; {len(self.arrays)} arrays)"

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one array by its name in the run file."""
        return self.arrays[name]

    @property
    def metrics(self) -> dict[str, float]:
        """All single numbers of the generation, for programs that log curves; also the user's objectives, by name."""
        numbers = {name: np.asarray(value) for name, value in self.arrays.items()}
        single = {name: value.item() for name, value in numbers.items() if not value.shape and value.dtype.kind in "fi"}
        values = numbers[OWN].tolist() if self.own_names else ()
        return {**single, **dict(zip(self.own_names, values, strict=True))}


def mean_behavior(by_start: Floats) -> Floats:
    """Return the mean [..., B] of behaviours [..., K, B] over the starts."""
    with np.errstate(invalid="ignore"):
        mean: Floats = np.mean(by_start, axis=-2)
    return mean


def mean_outcome(rollouts: Sequence[Outcome]) -> Outcome:
    """Return the mean of rollouts; the length is the sum, and one invalid rollout makes the outcome invalid."""
    first = rollouts[0]
    if len(rollouts) == 1:
        return first
    by_start = np.array([rollout.behavior for rollout in rollouts], np.float64)
    behavior = mean_behavior(by_start)
    with np.errstate(invalid="ignore"):
        fitness = np.mean([rollout.fitness for rollout in rollouts])
    sums = [rollout.observations for rollout in rollouts if rollout.observations is not None]
    return Outcome(
        index=first.index,
        behavior=tuple(behavior.tolist()),
        fitness=float(fitness),
        length=sum(rollout.length for rollout in rollouts),
        valid=all(rollout.valid for rollout in rollouts),
        observations=np.sum(sums, axis=0) if len(sums) == len(rollouts) else None,
        by_start=by_start,
    )


def behavior_columns(behavior_dim: int, starts: int) -> int:
    """Return the columns of a packed behaviour; with K > 1 starts, the behaviours from each follow the mean."""
    return behavior_dim * (1 + starts if starts > 1 else 1)


def pack(outcomes: Sequence[Outcome], behavior_dim: int, starts: int) -> Floats:
    """Return outcomes as rows of doubles [n, 4 + B], which can be gathered; with K > 1 starts [n, 4 + B + K B].

    Those whose code raised an exception have -1 in place of 0: invalid.
    """
    for outcome in outcomes:
        if len(outcome.behavior) != behavior_dim:
            has = f"a behaviour has {len(outcome.behavior)} numbers; expected {behavior_dim}"
            raise PluginError(f"individual {outcome.index}: {has}")
    rows = [(one.index, -1 if one.raised else one.valid, one.length, one.fitness, *one.behavior) for one in outcomes]
    packed = np.array(rows, np.float64).reshape(len(outcomes), LEADING + behavior_dim)
    if starts == 1:
        return packed
    by_start = np.array([one.by_start for one in outcomes], np.float64)
    return np.hstack([packed, by_start.reshape(len(outcomes), starts * behavior_dim)])


def pack_sums(outcomes: Sequence[Outcome], numbers: int) -> Floats:
    """Return the observation sums [n, 1 + numbers] of the valid rollouts that have some, with their index in front."""
    rows = [(one.index, *one.observations) for one in outcomes if one.observations is not None and one.valid]
    return np.array(rows, np.float64).reshape(len(rows), 1 + numbers)


def gather(
    rows: Floats, sums: Floats, wanted: NDArray[np.int64], work: Work, ranks: Ranks
) -> tuple[Outcomes, Outcomes]:
    """Return the outcomes of the wanted individuals on every rank, in index order, and after them those of the mean.

    rows, sums: of this rank, as `pack` and `pack_sums` return them. Raises Unfinished if a stop left some out.
    """
    place = np.searchsorted(wanted, rows[:, 0].astype(np.int64))
    table = ranks.allgather_by_index(place, rows, len(wanted))
    if len(table) < len(wanted):
        raise Unfinished
    counted = gather_sums(sums, ranks)
    drawn = int(np.count_nonzero(wanted < work.size))
    return unpack(table[:drawn], counted, work.seeds), unpack(table[drawn:], counted[:0], work.seeds)


def gather_sums(mine: Floats, ranks: Ranks) -> Floats:
    """Return the observation sums [sampled, 1 + 2 O] of all ranks, in the order of the index in front of each."""
    if mine.shape[1] == 2:  # the index, and the count of no observations
        return np.zeros((0, 1))
    everything = ranks.allgather(mine)
    in_order: Floats = everything[np.argsort(everything[:, 0])]
    return in_order[np.isfinite(in_order).all(axis=1), 1:]


def unpack(rows: Floats, observations: Floats, seeds: NDArray[np.int64]) -> Outcomes:
    """Return the outcomes of gathered rows, which are in index order; `seeds`: of the whole work [., K]."""
    starts = seeds.shape[1]
    end = LEADING + (rows.shape[1] - LEADING) // behavior_columns(1, starts)
    behavior = np.ascontiguousarray(rows[:, LEADING:end])
    finite = np.isfinite(rows[:, 3:]).all(axis=1) & (np.abs(behavior) <= MAX_BEHAVIOR).all(axis=1)
    return Outcomes(
        behavior=behavior,
        fitness=rows[:, 3].copy(),
        length=rows[:, 2].astype(np.int64),
        valid=(rows[:, 1] > 0) & finite,
        observations=observations,
        by_start=rows[:, end:].reshape(len(rows), starts, end - LEADING) if starts > 1 else None,
        common_starts=bool((seeds == seeds[:1]).all()),
        raised=np.flatnonzero(rows[:, 1] < 0).tolist(),
    )


def invalid_rollouts(generation: int, behavior: Floats, fitness: Floats, valid: NDArray[np.bool_]) -> str:
    """Return a sentence on the invalid rollouts of a generation; it has the number that made the first one invalid."""
    first, count = int(valid.argmin()), len(valid) - int(valid.sum())
    numbers = {f"behavior[{place}]": value for place, value in enumerate(behavior[first].tolist())}
    wrong = [f"{name} is {value:g}" for name, value in numbers.items() if not abs(value) <= MAX_BEHAVIOR]
    wrong += [] if np.isfinite(fitness[first]) else [f"fitness is {fitness[first]:g}"]
    return (
        f"generation {generation}: {count} of {len(valid)} rollouts {'is' if count == 1 else 'are'} invalid, because a "
        f"number is not finite or beyond {MAX_BEHAVIOR:g}, or because the task says so. The first is individual "
        f"{first}: {wrong[0] if wrong else 'its task says so'}"
    )
