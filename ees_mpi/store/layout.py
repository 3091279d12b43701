"""The layout of a run file: names, axes and types. `docs/format.md` describes it for readers in other languages."""

from collections.abc import Iterable, Mapping

from ees_mpi.config import Config
from ees_mpi.config.method import Field
from ees_mpi.store.records import Columns

FORMAT = "ees_mpi run"
FORMAT_VERSION = 4

GENERATION = "generation"
BY_START = "behavior_by_start"

GENERATIONS = {
    "behavior": Field(("individual", "behavior_dim"), "<f8", "behaviour characteristic of each individual"),
    BY_START: Field(("individual", "start", "behavior_dim"), "<f8", "task.rollouts > 1: the behaviour from each start"),
    "fitness": Field(("individual",), "<f8", "fitness of each individual"),
    "length": Field(("individual",), "<i4", "steps of each individual, of all its starts"),
    "valid": Field(("individual",), "|u1", "1: finite; 0: the rollout blew up and was left out"),
    "offset": Field(("individual",), "<i8", "where an individual's noise starts in the noise table"),
    "sign": Field(("individual",), "|i1", "antithetic sign of an individual's noise"),
    "parent": Field(("individual",), "<i4", "component whose mean an individual perturbs"),
    "mean": Field(("component", "parameter"), "<f4", "the mean(s) from which this generation was drawn"),
    "learned": Field(("learned_number",), "<f4", "custom population: its other learned arrays, by name, flat"),
    "std": Field(
        ("component", "parameter"),
        "<f4",
        "std of each parameter, if it is learned, as in this generation",
        ("learned_std",),
    ),
    "observation_sums": Field(
        ("observation_sum",), "<f8", "count, sums and sums of squares of all earlier observations"
    ),
    "observation_count": Field((), "<f8", "how many observations the statistics of this generation come from"),
    "observation_mean": Field(("observation_dim",), "<f8", "observation mean as used in this generation"),
    "observation_std": Field(("observation_dim",), "<f8", "observation standard deviation, likewise"),
    "mean_behavior": Field(("behavior_dim",), "<f8", "behaviour of the unperturbed mean; NaN: not evaluated"),
    "mean_fitness": Field((), "<f8", "fitness of the unperturbed mean; NaN: not evaluated"),
    "gradient_norm": Field((), "<f8", "Euclidean norm of the gradient, before L2"),
    "behavior_variance": Field(("behavior_dim",), "<f8", "variance of the behaviour"),
    "entropy": Field((), "<f8", "differential entropy of the behaviour, the objective's kernel, nats"),
    "distance_mean": Field((), "<f8", "mean distance of the behaviour from the origin"),
    "distance_max": Field((), "<f8", "largest distance of the behaviour from the origin"),
    "fitness_mean": Field((), "<f8", "mean fitness"),
    "fitness_max": Field((), "<f8", "largest fitness"),
    "invalid_share": Field((), "<f8", "share of rollouts that blew up"),
    "state_sha256": Field((), "|S64", "digest of the state after this generation"),
    "seconds_evaluate": Field((), "<f8", "rank 0: rollouts"),
    "seconds_gather": Field((), "<f8", "rank 0: waiting for all outcomes"),
    "seconds_update": Field((), "<f8", "rank 0: weights, gradient, step, metrics"),
    "seconds_commit": Field((), "<f8", "rank 0: the commit before this generation"),
    "seconds_evaluate_min": Field((), "<f8", "rollouts, the quickest rank"),
    "seconds_evaluate_mean": Field((), "<f8", "rollouts, mean over ranks"),
    "seconds_evaluate_max": Field((), "<f8", "rollouts, the slowest rank"),
    "seconds_slowest_rank": Field((), "<i4", "which rank was the slowest"),
    "seconds_clock": Field((), "<f8", "when it was committed, seconds since 1970"),
}

# A file has all or none of the arrays of each line, and of those of its method; it is refused if it lacks any other.
TOGETHER = ((BY_START,), ("learned",), ("std",), ("observation_sums", "observation_mean", "observation_std"))
NEEDED = tuple(name for name in GENERATIONS if all(name not in names for names in TOGETHER))

# The columns of group `sessions`; "str": a text.
SESSIONS = {
    "start": "<f8",
    "end": "<f8",
    "first_generation": "<i8",
    "ranks": "<i8",
    "nodes": "<i8",
    "host": "str",
    "machine": "str",  # JSON: versions, CPU, BLAS
    "config": "str",
}


def axis_sizes(config: Config) -> dict[str, int]:
    """Return the length of every axis of a run file, except the generations."""
    return {
        "individual": config.population.size,
        "behavior_dim": config.task.behavior_dim,
        "start": config.task.rollouts,
        "component": config.population.components,
        "parameter": config.task.parameters,
        "observation_dim": config.task.observation_dim,
        "observation_sum": 1 + 2 * config.task.observation_dim if config.task.observation_dim else 0,
        "learned_std": int(config.population.learns_std),  # 1: the population learns `std`
        "learned_number": 0,
        **config.method.file_axes(config.task, config.population),
    }


def known_sizes(config: Config) -> dict[str, int]:
    """Return the lengths of the axes that are known without opening the task or running the user's code."""
    if config.task.sizes_known and not hasattr(config.population, "function"):
        return axis_sizes(config)
    return {"individual": config.population.size, "component": config.population.components}


def fields(config: Config) -> dict[str, Field]:
    """Return the datasets that a run with this method may have."""
    return {**GENERATIONS, **config.method.fields}


def present(config: Config) -> dict[str, Field]:
    """Return the datasets of a run: those whose axes are not empty; one start has no array of its own."""
    sizes, several = axis_sizes(config), config.task.rollouts > 1
    return {
        name: field
        for name, field in fields(config).items()
        if all(sizes.get(axis) for axis in (*field.axes, *field.needs)) and (several or name != BY_START)
    }


def columns(names: Iterable[str], config: Config, sizes: Mapping[str, int]) -> Columns:
    """Return the columns of the record of a generation that has these arrays."""
    known = fields(config)
    return tuple((name, known[name].dtype, tuple(sizes[axis] for axis in known[name].axes)) for name in sorted(names))
