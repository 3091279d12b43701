"""The subject of a file, and the labels of runs and groups in tables and figures."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.registry import flat, unknown
from ees_mpi.run.file import Run, is_study, starting_note
from ees_mpi.store.files import damage_reported
from ees_mpi.tasks.paper_robots import ENGINE_LABELS
from ees_mpi.terminal import plain

ALGORITHMS = {"fitness": "standard ES", "maxvar": "MaxVar-EES", "maxent": "MaxEnt-EES", "maml": "MAML"}
PHASES = {  # of rank 0 in a generation; the run file has the seconds of each
    "evaluate": "rollouts",
    "gather": "waiting for all outcomes",
    "update": "weights, gradient, step, metrics",
    "commit": "writing the file",
}
Settings = Mapping[str, Any]  # a config: section.key -> value
MAX_SETTINGS = 3  # settings in the name of a run
# The keys that make a task; runs of one task may differ in others, and their names say so.
TASK = ("task.name", "task.env", "task.model", "task.function", "task.behavior", "task.axes")


@dataclass(frozen=True)
class Subject:
    """The run whose offspring the rows of a file are. The rows are its generations, or the settings of a study."""

    run_id: str
    algorithm: str  # the name of the objective or the method, or the user's label
    generation: int | None = None  # that a study is of; None: the rows are generations of training


def subject(run: Run) -> Subject:
    name = run.config.method.algorithm
    if not is_study(run):
        return Subject(run.run_id, name)
    note = starting_note(run)
    return Subject(note.get("run_id", run.run_id), note.get("objective", name), note.get("generation", 0))


def stds(run: Run) -> list[float]:
    """Return the standard deviation of each row of a study; empty for a training."""
    if not is_study(run):
        return []
    with damage_reported(run.path):
        return [float(std) for std in starting_note(run)["setting"]["std"]]


def algorithm(name: str) -> str:
    """Return the paper's name of an algorithm, from the name of its objective or method."""
    return ALGORITHMS.get(name, plain(name))


def label(run: Run) -> str:
    """Return the label of a run: its algorithm, or the user's, the number of its means, and where it started."""
    name, means = algorithm(subject(run).algorithm), run["mean"].shape[1]
    origin, engine = "" if is_study(run) else started_from(run), _engine(run)
    if means > 1:
        return (f"{name}, split in {means}" if origin else f"{name}, {means} components") + engine
    return (f"{name} from {origin}" if origin else name) + engine


def group_names(runs: Sequence[Run], without: str = "") -> list[str]:
    """Return for each run its label and the settings in which the runs of that label differ; seeds share a name.

    A name has a few of the settings, or all if runs that differ in others would share it. without: a key to leave out
    """
    labels = [label(run) for run in runs]
    configs = [settings(run.config.sections()) for run in runs]
    for run, config in zip(runs, configs, strict=True):
        config.pop(without, None)
        if len(stds(run)) > 1:  # of a measurement, whose config has the smallest one
            config.pop("population.std", None)
    names = []
    for name, config in zip(labels, configs, strict=True):
        members = [other for other, same in zip(configs, labels, strict=True) if same == name]
        keys = differing(members)
        alike = [other for other in members if all(other.get(key) == config.get(key) for key in keys[:MAX_SETTINGS])]
        most = len(keys) if differing(alike) else MAX_SETTINGS
        for key in keys[:most]:
            word = key.removesuffix(".name").replace("noise.", "noise ").rpartition(".")[2]
            name += f", {word} {config.get(key, 'unset')}"
        names.append(name)
    return names


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return a name for each run: its group and its seed; equal names also have the file's."""
    names = [f"{name}, seed {run.config.run.seed}" for run, name in zip(runs, group_names(runs), strict=True)]
    files = {(name, run.path) for name, run in zip(names, runs, strict=True)}
    count = Counter(name for name, _ in files)
    return [f"{name} ({run.path.name})" if count[name] > 1 else name for run, name in zip(runs, names, strict=True)]


def _engine(run: Run) -> str:
    """Return a note on the engine, if it is not the paper's; of a study also that of its run, if it is another one."""
    engine, before = run.config.task.engine, str(starting_note(run).get("engine", ""))
    names = ENGINE_LABELS
    if before in names and engine in names and before != engine:
        return f" ({names[engine]}; {'trained' if is_study(run) else 'started'} in {names[before]})"
    return f" ({names[engine]})" if engine == "mujoco" else ""


def started_from(run: Run) -> str:
    """Return the label of the run that this one started from; empty if it started from random means."""
    note = starting_note(run)
    # Older notes have only a path. It is not opened: a file must not choose which other files are read.
    return algorithm(str(note["objective"])) if "objective" in note else "a trained mean" if note else ""


def settings(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a config, by key."""
    return {"method": "ees", **dict(flat(sections))}


def settings_of(run: Run) -> Settings:
    """Return the values of the config of a run, by key; `task.axes` is the length of its places, also if not set."""
    return {**settings(run.config.sections()), "task.axes": run.metric_settings.axes}


def task_of(config: Settings) -> tuple[Any, ...]:
    """Return what runs must have in common so that their behaviours can be compared."""
    return tuple(config.get(key) for key in TASK)


def check_same_task(configs: Sequence[tuple[Path, Settings]]) -> None:
    """Raise a RunFileError if configs have different tasks; each with the file that it is from."""
    first, one = configs[0]
    for path, other in configs:
        for key in TASK:
            if one.get(key) != other.get(key):
                both = f"{key} is {one.get(key)!r} and {other.get(key)!r}"
                raise RunFileError(f"{first} and {path} are of different tasks: {both}")


def grouped(key: str, configs: Mapping[Path, Settings]) -> dict[str, list[Path]]:
    """Return the files of each value of a key, sorted by the value; raise a ConfigError if there is one value only."""
    for path, values in configs.items():
        if key not in values:
            raise ConfigError(f"--by: {unknown(key, values)} ({path})")
    groups: dict[str, tuple[Any, list[Path]]] = {}
    for path, values in configs.items():
        groups.setdefault(json.dumps(values[key]), (values[key], []))[1].append(path)
    if len(groups) < 2:
        others = ", ".join(differing(list(configs.values()))) or "nothing but the seed"
        raise ConfigError(f"--by {key}: all runs have {next(iter(groups))}; they differ in {others}")
    numbers = all(isinstance(value, (int, float)) for value, _ in groups.values())
    names = sorted(groups, key=lambda name: groups[name][0] if numbers else name)
    return {name.strip('"'): groups[name][1] for name in names}


def check_distinct(runs: Iterable[tuple[str, Path]]) -> None:
    """Raise a ConfigError if two files are of the same run; `runs`: the id and the file of each."""
    seen: dict[str, Path] = {}
    for run_id, path in runs:
        if run_id in seen:
            raise ConfigError(f"{seen[run_id]} and {path} are of the same run; give only one of them")
        seen[run_id] = path


def differing(configs: Sequence[Settings]) -> list[str]:
    """Return the keys in which configs differ, except the seeds and the other keys of section `run`."""
    keys = {key for config in configs for key in config if not key.startswith("run.") and key != "noise.seed"}
    return [key for key in sorted(keys) if any(config.get(key) != configs[0].get(key) for config in configs)]
