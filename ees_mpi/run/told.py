"""What a loop of the user gives: means, states, and results as rows that can be gathered. All of it is checked."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ees_mpi.arrays import Arrays, Floats, Singles, doubles
from ees_mpi.config import Config, Evolution
from ees_mpi.errors import ConfigError, TaskError
from ees_mpi.generation import LEADING, State, mean_behavior


def means_of(mean: ArrayLike) -> Singles:
    """Return the first mean(s) as [K, D]."""
    given = np.asarray(mean, np.float32)
    if given.ndim == 0:  # is it D, or a mean of one number?
        raise ConfigError(f"mean: expected an array [D], such as np.zeros(D), or [K, D]; got {mean!r:.80}")
    means = np.array(given, ndmin=2)  # a copy
    if means.ndim != 2 or means.size == 0 or not np.isfinite(means).all():
        raise ConfigError(f"mean: expected [D] or [K, D] finite numbers, got an array of shape {np.shape(mean)}")
    return means


def state_like(given: State | Arrays, present: State) -> State:
    """Return a state, also of its arrays by name, if they have the shapes and types of those of the present one."""
    arrays = given.arrays() if isinstance(given, State) else given
    named = {str(name): np.array(array) for name, array in arrays.items()}
    mine, other = (
        {name: (array.shape, str(array.dtype)) for name, array in each.items() if not name.startswith("memory/")}
        for each in (present.arrays(), named)
    )
    if mine != other:
        wrong = min(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
        raise ConfigError(f"state: {wrong}: expected {mine.get(wrong)}, got {other.get(wrong)}")
    return State.from_arrays(named)


def rows_of(
    config: Config, index: NDArray[np.int64], parts: int | None, behavior: Any, fitness: Any, valid: Any
) -> Floats:
    """Return the outcomes of the individuals `index` as rows, like those of `generation.pack`.

    parts: the length of the lists that may be given in place of arrays. B may not be known yet; then
        `task.behavior_dim` is 0
    """
    task, method = config.task, config.method
    if fitness is None and isinstance(method, Evolution) and method.uses_fitness:
        raise TaskError("tell: the objective needs a fitness for each row; expected tell(behavior, fitness)")
    if behavior is None and method.algorithm == "fitness":
        behavior = fitness
    count, starts, dim = len(index), task.rollouts, task.behavior_dim
    behavior = joined("tell", behavior, parts)
    leading, given = (count, starts) if starts > 1 else (count,), behavior.shape
    if count == behavior.size == 0:  # more ranks than individuals
        behavior = np.zeros((*leading, dim))
    if behavior.ndim == len(leading) and dim < 2:
        behavior = behavior[..., None]
    if behavior.shape[:-1] != leading or (dim and behavior.shape[-1] != dim):
        wanted = ", ".join(map(str, (*leading, dim or "B")))
        raise TaskError(f"tell: expected a behaviour of shape ({wanted}), got {given}")
    if starts > 1:
        each = behavior.reshape(count, starts * behavior.shape[-1])
        behavior = np.hstack([mean_behavior(np.ascontiguousarray(behavior)), each])
    rows = np.zeros((count, LEADING + behavior.shape[1]))
    rows[:, 0] = index
    rows[:, 1] = True if valid is None else _vector("valid", valid, parts, count) != 0
    rows[:, 2] = 1
    rows[:, 3] = 0.0 if fitness is None else _vector("fitness", fitness, parts, count)
    rows[:, LEADING:] = behavior
    return rows


def weights_of(weights: Any, size: int, others: Sequence[Any]) -> Floats:
    """Return the weights that the user has computed [N]; `others`: arguments that may not be given with them."""
    if any(other is not None for other in others):
        raise TaskError("tell: expected weights= without behavior, fitness and valid")
    checked = joined("tell", weights, None)
    if checked.shape != (size,) or not np.isfinite(checked).all():
        wrong = f"an array of shape {checked.shape}" if checked.shape != (size,) else "some that are not finite"
        raise TaskError(f"tell: expected {size} finite weights, one for each individual of all ranks, got {wrong}")
    return checked


def joined(
    caller: str, values: Any, parts: int | None, convert: Callable[[Any], NDArray[Any]] = doubles
) -> NDArray[Any]:
    """Return an array, by default of doubles; a list of the arrays of all parts becomes one array."""
    try:
        if parts is not None and isinstance(values, (list, tuple)) and len(values) == parts:
            values = np.concatenate([convert(part) for part in values]) if parts else np.zeros((0, 0))
        return convert(values)
    except (TypeError, ValueError, RuntimeError) as error:  # the last one: of a torch tensor with a gradient
        raise TaskError(f"{caller}: expected arrays of numbers that fit together: {error}") from None


def _vector(name: str, values: Any, parts: int | None, count: int) -> NDArray[Any]:
    vector = joined("tell", values, parts)
    if vector.shape != (count,) and (vector.size or count):
        raise TaskError(f"tell: expected {name} of shape ({count},), got {vector.shape}")
    return vector.ravel()


def sums_of(
    index: NDArray[np.int64], valid: NDArray[Any], sampled: NDArray[np.bool_], observations: Any, dim: int
) -> Floats:
    """Return the observation sums of the sampled and valid individuals, with their index in front: [., 2 + 2 O].

    observations: of each sampled individual, in order, [T, O]
    """
    if not dim:
        if observations is not None:
            raise TaskError("tell: observations= has no use here; expected Strategy(..., observation_dim=O), or none")
        return np.zeros((0, 2))
    seen = [] if observations is None else [np.asarray(rollout, np.float64) for rollout in observations]
    if len(seen) != sampled.sum():
        raise TaskError(
            f"tell: expected observations= with one array [T, {dim}] for each of the {sampled.sum()} sampled "
            f"individuals (es.sampled), got {len(seen)}"
        )
    sums = np.zeros((len(seen), 2 + 2 * dim))
    for row, individual, values in zip(sums, index[sampled], seen, strict=True):
        if values.ndim != 2 or values.shape[1] != dim:
            raise TaskError(f"tell: expected observations of shape (T, {dim}), got {values.shape}")
        row[:] = (individual, len(values), *values.sum(axis=0), *np.square(values).sum(axis=0))
    return sums[valid[sampled] != 0]
