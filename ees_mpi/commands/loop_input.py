"""The input of `ees_mpi.Strategy`: its settings as a config, and the arrays of `tell`, checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ees_mpi import config as configs
from ees_mpi.commands.arguments import settings_of, source_of
from ees_mpi.commands.config import sections_of
from ees_mpi.config import Config, Evolution
from ees_mpi.config.changes import FAMILIES
from ees_mpi.errors import ConfigError, TaskError
from ees_mpi.generation.rollouts import mean_behavior
from ees_mpi.generation.state import State, state_of
from ees_mpi.outcomes import LEADING, Arrays, Floats, Singles
from ees_mpi.registry import Part

LARGEST = 1 << 30  # bytes of the individuals that are in memory at a time


def means_of(mean: ArrayLike) -> Singles:
    """Return the first mean(s) as [K, D]."""
    means = np.array(np.asarray(mean, np.float32), ndmin=2)  # a copy
    if means.ndim != 2 or means.size == 0 or not np.isfinite(means).all():
        raise ConfigError(f"mean: expected [D] or [K, D] finite numbers, got an array of shape {np.shape(mean)}")
    return means


def config_of(source: Any, task: Mapping[str, Any], parts: Mapping[str, Any], keys: Mapping[str, Any]) -> Config:
    """Return the config of a loop.

    source: of everything else; parts: by section, each a name, a dict, a settings object or None; keys: single ones
    """
    sections = sections_of(source)
    if sections.get("method", "ees") != "ees":
        raise ConfigError(f"config: expected an evolution strategy, got method {sections['method']!r}")
    settings = {key: value for key, value in keys.items() if value is not None}
    for kind, part in parts.items():
        if isinstance(part, str):
            settings[f"{kind}.name"] = part
        elif isinstance(part, Part):
            sections[kind] = FAMILIES[kind].section(part)
        elif isinstance(part, Mapping):
            sections[kind] = part
        elif part is not None:
            raise ConfigError(f"{kind}: expected a name, a dict or a settings object, got {part!r:.80}")
    run = {**sections.get("run", {}), "needs_start": False, "evaluate_mean_every": 0}  # the loop evaluates no mean
    given = {key: value for key, value in task.items() if value is not None}
    tables = source_of({**sections, "run": run, "task": {"name": "own_loop", **given}})
    return configs.load(tables, settings_of(settings))


def first_state(config: Config, means: Singles) -> State:
    """Return the first state of a loop; raise a ConfigError if its config cannot work."""
    expected = (config.population.components, config.task.parameters)
    if means.shape != expected:
        raise ConfigError(f"mean: expected the shape {expected} for this population, got {means.shape}")
    configs.check(config)
    if isinstance(config.method, Evolution):
        config.method.check_means(config.population)
    return state_of(config, means, np.zeros(1 + 2 * config.task.observation_dim))


def check_ask(rows: int, parameters: int) -> None:
    """Raise a ConfigError if `ask` would return too large an array."""
    if (need := 4 * rows * parameters) > LARGEST:
        chunk = max(1, min(64, LARGEST // (4 * parameters)))
        raise ConfigError(
            f"ask: {rows} individuals of {parameters} parameters need {need / 2**30:.3g} GiB; expected at most 1 GiB: "
            f"`es.tell([simulate(part) for part in es.ask(chunk={chunk})])`"
        )


def needs_fitness(config: Config) -> bool:
    """Return whether the objective, or a part of a blend, uses the fitness."""
    return isinstance(config.method, Evolution) and config.method.objective.uses_fitness


def rows_of(
    index: Sequence[int], parts: int | None, behavior: Any, fitness: Any, valid: Any, dim: int, starts: int = 1
) -> Floats:
    """Return the outcomes that `tell` got as rows, which can be gathered; see `outcomes.pack`.

    parts: the number of parts in which the individuals were handed out; None: in one array
    dim: B, or 0 if it is not yet known; starts: K; if there are several, the behaviour is [n, K, B]
    """
    count = len(index)
    behavior = _joined(behavior, parts)
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


def _joined(values: Any, parts: int | None) -> NDArray[Any]:
    """Return an array of doubles; a list of the arrays of all parts becomes one array."""
    try:
        if parts is not None and isinstance(values, (list, tuple)) and len(values) == parts:
            values = np.concatenate([np.asarray(part, np.float64) for part in values]) if parts else np.zeros((0, 0))
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise TaskError(f"tell: expected arrays of numbers that fit together: {error}") from None


def _vector(name: str, values: Any, parts: int | None, count: int) -> NDArray[Any]:
    vector = _joined(values, parts)
    if vector.shape != (count,) and vector.size:
        raise TaskError(f"tell: expected {name} of shape ({count},), got {vector.shape}")
    return vector.ravel()


def sums_of(rows: Floats, sampled: NDArray[np.bool_], observations: Any, dim: int) -> Floats:
    """Return the observation sums of the sampled individuals, with their index in front: [sampled, 2 + 2 O].

    observations: of each sampled individual, in order, [T, O]
    """
    seen = [] if observations is None else list(observations)
    if len(seen) != sampled.sum():
        raise TaskError(
            f"tell: expected observations= with one array [T, {dim}] for each of the {sampled.sum()} sampled "
            f"individuals (es.sampled), got {len(seen)}"
        )
    sums = np.zeros((len(seen), 2 + 2 * dim))
    for row, index, rollout in zip(sums, rows[sampled, 0], seen, strict=True):
        values = np.asarray(rollout, np.float64)
        if values.ndim != 2 or values.shape[1] != dim:
            raise TaskError(f"tell: expected observations of shape (T, {dim}), got {values.shape}")
        row[:] = (index, len(values), *values.sum(axis=0), *np.square(values).sum(axis=0))
    kept: Floats = sums[rows[sampled, 1] != 0]
    return kept


def state_like(given: State | Arrays, present: State) -> State:
    """Return a state of the user; raise a ConfigError if it has other arrays than the present one."""
    named = given.arrays() if isinstance(given, State) else dict(given)
    mine, other = (
        {name: (array.shape, str(array.dtype)) for name, array in arrays.items() if not name.startswith("memory/")}
        for arrays in (present.arrays(), named)
    )
    if mine != other:
        wrong = sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))[0]
        raise ConfigError(f"state: {wrong}: expected {mine.get(wrong)}, got {other.get(wrong)}")
    return State.from_arrays(named)
