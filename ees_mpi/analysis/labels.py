"""The labels of runs and phases in tables and figures, and the run that a run started from."""

from collections import Counter
from collections.abc import Sequence

from ees_mpi.analysis import grouping
from ees_mpi.analysis.subject import starting_note, subject
from ees_mpi.store.reader import Run
from ees_mpi.tasks.paper_robots import ENGINE_LABELS
from ees_mpi.terminal import plain

ALGORITHMS = {"fitness": "standard ES", "maxvar": "MaxVar-EES", "maxent": "MaxEnt-EES", "maml": "MAML"}
PHASES = {  # of rank 0 in a generation; the run file has the seconds of each
    "evaluate": "rollouts",
    "gather": "waiting for all outcomes",
    "update": "weights, gradient, step, metrics",
    "commit": "writing the file",
}
MOST = 3  # settings in the name of a run


def algorithm(name: str) -> str:
    """Return the paper's name of an algorithm, from the name of its objective or method."""
    return ALGORITHMS.get(name, plain(name))


def label(run: Run) -> str:
    """Return the label of a run: the user's, or its algorithm, the number of its means, and where it started."""
    if run.given_label:
        return run.given_label
    name, means = algorithm(subject(run).algorithm), run["mean"].shape[1]
    origin, engine = started_from(run) if subject(run).trained else "", _engine(run)
    if means > 1:
        return (f"{name}, split in {means}" if origin else f"{name}, {means} components") + engine
    return (f"{name} from {origin}" if origin else name) + engine


def group_names(runs: Sequence[Run]) -> list[str]:
    """Return for each run its label and the settings in which the runs of that label differ; seeds share a name."""
    labels = [label(run) for run in runs]
    configs = [grouping.settings(run.config.sections()) for run in runs]
    names = []
    for run, name, config in zip(runs, labels, configs, strict=True):
        keys = grouping.differing([other for other, same in zip(configs, labels, strict=True) if same == name])
        shown = [f"{key.removesuffix('.name').rpartition('.')[2]} {config.get(key)}" for key in keys[:MOST]]
        names.append(name if run.given_label else ", ".join([name, *shown]))
    return names


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: the user's label, or its group and its seed; equal names also have the file's."""
    groups = group_names(runs)
    shared = _shared(runs, groups)
    names = [
        name if run.given_label and name not in shared else f"{name}, seed {run.config.run.seed}"
        for run, name in zip(runs, groups, strict=True)
    ]
    shared = _shared(runs, names)
    return [f"{name} ({run.path.name})" if name in shared else name for run, name in zip(runs, names, strict=True)]


def _shared(runs: Sequence[Run], names: Sequence[str]) -> set[str]:
    """Return the names that several files have."""
    files = {(name, run.path) for name, run in zip(names, runs, strict=True)}
    return {name for name, count in Counter(name for name, _ in files).items() if count > 1}


def _engine(run: Run) -> str:
    """Return a note on the engine, if it is not the paper's; of a study also that of its run, if it is another one."""
    engine, before = run.config.task.engine, str(starting_note(run).get("engine", ""))
    names = ENGINE_LABELS
    if before in names and engine in names and before != engine:
        return f" ({names[engine]}; {'started' if subject(run).trained else 'trained'} in {names[before]})"
    return f" ({names[engine]})" if engine == "mujoco" else ""


def started_from(run: Run) -> str:
    """Return the label of the run that this one started from; empty if it started from random means."""
    note = starting_note(run)
    # Older notes have only a path. It is not opened: a file must not choose which other files are read.
    return algorithm(str(note["objective"])) if "objective" in note else "a trained mean" if note else ""
