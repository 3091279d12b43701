"""These runs, this generation, this metric: how offline numbers are chosen and read.

A metric that the file has is read, all others are computed from the outcomes. The lengths of metrics are the same for
all runs of a task: the paper's robots prescribe theirs (`Task.lengths`), elsewhere they fit the places of all
generations of all files; see `spread.Scale`.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from ees_mpi import metrics
from ees_mpi.analysis.labels import settings_of, task_of
from ees_mpi.analysis.offspring import positions
from ees_mpi.arrays import Floats
from ees_mpi.commands.arguments import check_committed
from ees_mpi.commands.verify import spaced
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.metrics import UNKNOWN, Sample
from ees_mpi.ranks import Ranks
from ees_mpi.registry import unknown
from ees_mpi.run.file import Run, open_run, tell_missing
from ees_mpi.run.parts import logged_outcomes
from ees_mpi.spread import Scale

SEEN = 60  # generations of a run that are looked at, at most: the entropy of N individuals takes N^2 numbers


@contextmanager
def open_runs(paths: Sequence[Path], trust: bool = False) -> Iterator[list[Run]]:
    """Open run files; all of them are closed at the end."""
    with ExitStack() as stack:
        yield [stack.enter_context(tell_missing(open_run(path, trust))) for path in paths]


@contextmanager
def opened(
    paths: Sequence[Path], generation: int | None = None, cell: float | None = None, radius: float | None = None
) -> Iterator[list[tuple[Run, int, Scale]]]:
    """Open run files; yield of each the generation that is meant, by default the last, and the lengths of metrics."""
    with open_runs(paths) as runs:
        chosen = [check_generation(run, generation) for run in runs]
        yield list(zip(runs, chosen, scales(runs, cell, radius), strict=True))


def valid_generations(run: Run) -> list[int]:
    """Return the generations that have valid rollouts, because others are gaps; raise a RunFileError if none has."""
    generations = [g for g in range(check_generation(run, None) + 1) if run["valid"][g].any()]
    if not generations:
        raise RunFileError(f"{run.path} has no finite behaviour in any generation")
    return generations


def check_generation(run: Run, generation: int | None) -> int:
    """Return the number of a generation of offspring, by default the last; raise an error if the run has none."""
    if not run.config.population.has_individuals:
        raise RunFileError(
            f"{run.path} was trained by MAML, so its rows are tasks, not mutations; "
            f"sample some first: ees-mpi sample {run.path} --count 1000"
        )
    check_committed(run)
    if generation is not None and not 0 <= generation < run.generations:
        raise ConfigError(f"generation {generation}: {run.path} has 0 to {run.generations - 1}")
    return run.generations - 1 if generation is None else generation


def sample_of(run: Run, generation: int | None = None, scale: Scale = UNKNOWN) -> Sample:
    """Read the valid offspring of one generation, by default the last; only that generation is read."""
    g = check_generation(run, generation)
    sample = read_sample(run, g, scale)
    if not len(sample.place):
        raise RunFileError(f"{run.path}: generation {g} has no finite behaviour")
    return sample


def read_sample(run: Run, generation: int, scale: Scale = UNKNOWN) -> Sample:
    """Read the valid rows of a generation, perhaps none; those of MAML are tasks."""
    outcomes = logged_outcomes(run, generation)
    return Sample(outcomes, run.metric_settings, Ranks(), run["parent"][generation][outcomes.valid], scale)


def number_of(run: Run, name: str, generation: int, scale: Scale) -> float:
    """Return a metric of a generation: read if the file has it, else computed; raise an error if the run has none."""
    settings = run.metric_settings
    if name in run.logged_metrics:
        return float(run.metric(name, generation))
    if name not in metrics.METRICS:
        raise ConfigError(f"--metric: {unknown(name, [*settings.own_names, *metrics.METRICS])}")
    metric = metrics.METRICS[name]
    if metric.compute is None or metric.lacks(settings):
        raise RunFileError(f"{run.path}: {name} needs {metric.lacks(settings) or 'a run of a later version'}")
    return float(metric.compute(sample_of(run, generation, scale)))


def scales(runs: Sequence[Run], cell: float | None = None, radius: float | None = None) -> list[Scale]:
    """Return the lengths for each run: those of one task have the same; cell, radius: prescribed by the user."""
    tasks = [task_of(settings_of(run)) for run in runs]
    of_task = {
        task: _scale([run for run, own in zip(runs, tasks, strict=True) if own == task], cell, radius)
        for task in dict.fromkeys(tasks)
    }
    return [of_task[task] for task in tasks]


def _scale(runs: Sequence[Run], cell: float | None, radius: float | None) -> Scale:
    settings = runs[0].metric_settings
    cell, radius = (given or own for given, own in zip((cell, radius), settings.lengths or (None, None), strict=True))
    places = np.zeros((0, settings.axes))
    if not (cell and radius):
        places = np.concatenate([positions(run, g) for run in runs for g in spaced(run.generations, SEEN)])
    return Scale.fitting(places[np.isfinite(places).all(axis=1)], cell, radius)


def titles(runs: Sequence[Run], scale: Scale) -> dict[str, str]:
    """Return the metrics that all runs have, with their titles; the user's own objectives first."""
    known = []
    for run in runs:  # its file has them, or they can be computed
        settings, logged = run.metric_settings, run.logged_metrics
        some = (name for name, metric in settings.fitting.items() if metric.compute or name in logged)
        known.append([*settings.own_names, *some])
    return {name: metrics.title(name, scale) for name in known[0] if all(name in names for names in known)}


def series(run: Run, name: str, scale: Scale) -> Floats:
    """Return a metric over generations for a curve.

    One that the file does not have is computed for some generations, and the values between them lie on straight lines.
    """
    if name in run.logged_metrics:
        return run.metric(name)
    shown = [g for g in spaced(run.generations, SEEN) if run["valid"][g].any()]
    computed = [number_of(run, name, g, scale) for g in shown]
    return np.interp(np.arange(run.generations), shown or [0], computed or [np.nan])
