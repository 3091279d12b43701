"""The arrays of a run file: one list. A new array is one entry here, and its producer; logged metrics are in `metrics`.

A group of arrays is in a file if its condition holds for the config of the run; see `_holds`. The list is also on the
page `docs/format.md`, for readers in other languages; `tools/format_page.py` writes it there.
"""

from ees_mpi import metrics
from ees_mpi.config import Config
from ees_mpi.generation import OWN
from ees_mpi.store.layout import Array, Layout

BY_START = "behavior_by_start"

ARRAYS: dict[str, tuple[Array, ...]] = {
    "every run": (
        Array(
            "behavior",
            ("individual", "behavior_dim"),
            "<f8",
            "behaviour of each individual; if it is not valid, anything, NaN too",
        ),
        Array("fitness", ("individual",), "<f8", "fitness of each individual, likewise"),
        Array("length", ("individual",), "<i4", "steps of each individual, of all its starts together"),
        Array("valid", ("individual",), "|u1", "1 if the rollout was possible and its numbers are finite, else 0"),
        Array("offset", ("individual",), "<i8", "where the noise of each individual starts in the noise table"),
        Array("sign", ("individual",), "|i1", "antithetic sign of the noise; with MAML the direction of the task"),
        Array("parent", ("individual",), "<i4", "component whose mean the individual perturbs"),
        Array("mean", ("component", "parameter"), "<f4", "the mean(s) from which this generation was drawn"),
        Array("observation_count", (), "<f8", "how many observations the statistics of this generation come from"),
        Array("behavior_of_mean", ("behavior_dim",), "<f8", "behaviour of the first mean; NaN if it was not evaluated"),
        Array("state_sha256", (), "|S64", "digest of the state after this generation, hexadecimal"),
        Array("seconds_evaluate", (), "<f8", "seconds of rank 0 in rollouts"),
        Array("seconds_gather", (), "<f8", "seconds of rank 0 until it had all outcomes"),
        Array("seconds_update", (), "<f8", "seconds of rank 0 for weights, gradient, step and metrics"),
        Array("seconds_commit", (), "<f8", "seconds of the commit before this generation"),
        Array("seconds_evaluate_min", (), "<f8", "seconds of the quickest rank in rollouts"),
        Array("seconds_evaluate_mean", (), "<f8", "seconds in rollouts, mean over ranks"),
        Array("seconds_evaluate_max", (), "<f8", "seconds of the slowest rank in rollouts"),
        Array("slowest_rank", (), "<i4", "number of the slowest rank"),
        Array("seconds_clock", (), "<f8", "when the generation was committed, in seconds since 1970"),
    ),
    "errors that count as invalid": (
        Array("errors", (), "<i4", "individuals that are invalid because your code raised an exception"),
    ),
    "several starts": (Array(BY_START, ("individual", "start", "behavior_dim"), "<f8", "behaviour from each start"),),
    "normalised observations": (
        Array("observation_sums", ("observation_sum",), "<f8", "count, sums, sums of squares of earlier observations"),
        Array("observation_mean", ("observation_dim",), "<f8", "mean of the observations, as used in this generation"),
        Array("observation_std", ("observation_dim",), "<f8", "standard deviation of the observations, likewise"),
    ),
    "a learned std": (Array("std", ("component", "parameter"), "<f4", "std of each parameter, as in this generation"),),
    "a std that decays": (Array("mutation_std", (), "<f8", "std of the mutations of this generation"),),
    "a population that learns more": (
        Array("learned", ("learned_number",), "<f4", "its other learned arrays one after the other, by name"),
    ),
    "objectives of the user": (
        Array(OWN, ("own_objective",), "<f8", "value of each, in the order of the config; NaN if it was not computed"),
    ),
    "MAML": (
        Array("log_std", ("action_dim",), "<f4", "log standard deviation of each action, as in this generation"),
        Array("fitness_before", ("individual",), "<f8", "fitness on each task before adaptation"),
    ),
}


def listed() -> dict[str, Array]:
    """Return all arrays that run files may have, by name."""
    return {array.name: array for group in (*ARRAYS.values(), logged_metrics()) for array in group}


def logged_metrics() -> list[Array]:
    """Return the arrays of all logged metrics; a run has those that fit it."""
    return [Array(name, (), "<f8", metric.about) for name, metric in metrics.METRICS.items() if metric.logged]


def _holds(config: Config) -> dict[str, bool]:
    """Return which conditions hold for a config."""
    return {
        "every run": True,
        "errors that count as invalid": config.task.on_error == "invalid",
        "several starts": config.task.rollouts > 1,
        "normalised observations": config.task.observation_dim > 0,
        "a learned std": config.population.learns_std,
        "a std that decays": config.population.decays,
        "a population that learns more": config.population.more_learned(config.task.parameters) > 0,
        "objectives of the user": bool(config.method.own_objectives),
        "MAML": _adapts(config),
    }


def _adapts(config: Config) -> bool:
    """Return whether the rows are tasks of MAML; those of a sample of its offspring are not."""
    return config.method.name == "maml" and not config.population.has_individuals


def layout_of(config: Config) -> Layout:
    """Return the arrays of a run with this config, and the sizes of their axes."""
    holds, sizes = _holds(config), sizes_of(config)
    arrays = [array for condition, group in ARRAYS.items() if holds[condition] for array in group]
    fitting = metrics.in_file(config.metric_settings(sizes["behavior_dim"]))
    arrays += [array for array in logged_metrics() if array.name in fitting]
    used = {axis for array in arrays for axis in array.axes}
    return Layout(arrays, {axis: size for axis, size in sizes.items() if axis in used})


def sizes_of(config: Config) -> dict[str, int]:
    """Return the length of every axis of a run file, except the generations."""
    task = config.task
    return {
        "individual": config.population.size,
        "behavior_dim": task.behavior_dim,
        "start": task.rollouts,
        "component": config.population.components,
        "parameter": task.parameters,
        "observation_dim": task.observation_dim,
        "observation_sum": 1 + 2 * task.observation_dim,
        "learned_number": config.population.more_learned(task.parameters),
        "own_objective": len(config.method.own_objectives),
        "action_dim": task.layers[-1] if _adapts(config) else 0,
    }


def check(layout: Layout, config: Config) -> None:
    """Raise a ValueError unless a file has arrays of a config; this opens no task, and runs no code of the user.

    A file of an earlier version has fewer arrays, and a run that continues it logs no more than these.
    """
    known_arrays = listed()
    for array in layout.arrays:
        same = known_arrays.get(array.name)
        if same is None or (same.axes, same.type) != (array.axes, array.type):
            raise ValueError(f"its array {array.name} is not one of a run")
    known = {"individual": config.population.size, "component": config.population.components}
    if config.task.sizes_known and not hasattr(config.population, "function"):
        expected = layout_of(config)
        known = expected.sizes
        if foreign := sorted(layout.columns.keys() - expected.columns.keys()):
            raise ValueError(f"its config has no array {', '.join(foreign)}")
    for axis, size in known.items():
        if layout.sizes[axis] != size:
            raise ValueError(f"its axis {axis} has the length {layout.sizes[axis]}; its config says {size}")
