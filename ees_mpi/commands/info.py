"""`ees-mpi info`: a summary of a run, sample or adaptation file, or a table of several."""

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ees_mpi.arrays import Floats
from ees_mpi.commands.adapt import is_adaptation, read_adaptation
from ees_mpi.config import FREE_ON_RESUME, Config
from ees_mpi.errors import ConfigError
from ees_mpi.generation import State
from ees_mpi.metrics import in_table
from ees_mpi.registry import flat, unknown
from ees_mpi.run.file import Run, is_study, missing, open_run, starting_note
from ees_mpi.run.starting_point import steps_until
from ees_mpi.store import lock
from ees_mpi.store.files import damage_reported
from ees_mpi.terminal import clock

Facts = dict[str, Any]

NOT_SHOWN = FREE_ON_RESUME | {"run.seed", "noise.seed", "task.name", "objective.name", "method", "task.xml"}
MAX_KEYS = 6  # columns of keys in a table
RECENT = 30  # generations over which the speed is measured
SILENT = 60.0  # seconds after which the silence of a living writer is reported


def task_name(config: Config) -> str:
    """Return the name of the task that users know: the environment's, the function's, or the registered one."""
    return config.task.label or config.task_name


def summarize(run: Run) -> dict[str, Any]:
    config, sessions = run.config, run.sessions()
    last: Facts = sessions[-1] if sessions else {"ranks": 0, "nodes": 0, "machine": {}}
    rollouts = config.task.rollouts * (1 if is_study(run) else config.method.rollouts)  # offspring do not adapt
    return {
        "format_version": int(run.attributes["format_version"]),
        "kind": str(run.attributes["kind"]),
        "method": config.method.name,
        "task": config.task_name,
        "engine": config.task.engine or None,
        "objective": config.method.algorithm,
        "population": config.population_name,
        "population_size": config.population.size,
        "parameters": run["mean"].shape[2],
        "generations": run.generations,
        "generations_wanted": config.run.generations,
        "complete": run.complete,
        "seed": config.run.seed,
        "state_sha256": State.from_arrays(run.state_arrays()).digest().hex(),
        "ranks": int(last["ranks"]),
        "nodes": int(last["nodes"]),
        "sessions": len(sessions),
        "commit": last["machine"].get("commit"),
        "devices": sorted({str(session["machine"].get("device", "cpu")) for session in sessions}),
        "deterministic": config.task.deterministic,
        "evaluations": run.generations * config.population.size * rollouts,
        "steps": steps_until(run, run.generations),
        "started_from": starting_note(run) or None,
        "damage": run.damage or missing(run) or None,
    }


def read(path: Path) -> Facts:
    """Return all facts of a run, sample or adaptation file, with its whole config."""
    if is_adaptation(path):
        return _adaptation(path)
    with open_run(path, allow_damaged_journal=True) as run:
        facts = {"file": str(path), **summarize(run)}
        with damage_reported(path):
            sessions = run.sessions()
            return {
                **facts,
                "started": _date(sessions[0]["start"]) if sessions else None,
                "ended": _date(sessions[-1]["end"]) if sessions else None,
                "seconds_per_generation": seconds_per_generation(run),
                "writer": None if run.complete else writer(path),
                "results": _results(run),
                "config": run.config.sections(),
            }


def is_complete(path: Path) -> bool:
    """Return whether a file has all its generations; others are only written when they are complete."""
    if is_adaptation(path):
        return True
    with open_run(path, allow_damaged_journal=True) as run:
        return run.complete


def _results(run: Run) -> dict[str, float | None]:
    """Return the metrics of the last committed generation, or of the last row of a study with its std; else none."""
    last = run.metrics() if run.generations else {}
    if is_study(run):
        last = {"std": float(f"{run.std(-1):.6g}"), **last}  # the file has it in single precision
    return {name: value if math.isfinite(value) else None for name, value in last.items()}


def _adaptation(path: Path) -> Facts:
    """Return the facts of a file of `ees-mpi adapt`."""
    with damage_reported(path):
        adaptation = read_adaptation(path)
        facts, config = adaptation.attributes, adaptation.config
        scores = adaptation.fitness[np.isfinite(adaptation.fitness)]
        return {
            "file": str(path),
            "format_version": int(facts["format_version"]),
            "kind": "adaptation",
            "task": config["task"]["name"],
            "engine": config["task"].get("engine"),
            "objective": adaptation.algorithm,
            "seed": config["run"]["seed"],
            "adapted_by": str(facts["method"]),
            **({"chosen": str(facts["chosen"])} if "chosen" in facts else {}),
            "direction": float(facts["direction"]),
            "evaluations": len(adaptation.fitness),
            "of_run": adaptation.run,
            "training_steps": int(facts["training_steps"]),
            "adaptation_steps": int(facts["adaptation_steps"]),
            "ended": str(facts["created"]),
            "results": {"fitness_mean": scores.mean(), "fitness_max": scores.max()} if len(scores) else {},
            "config": config,
        }


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds_per_generation(run: Run) -> float | None:
    """Return the seconds per generation, measured over the last generations of the last session; None if unknown."""
    sessions = run.sessions()
    if not sessions or run.generations <= sessions[-1]["first_generation"]:
        return None
    first = max(int(sessions[-1]["first_generation"]), run.generations - RECENT - 1)
    times: Floats = np.asarray(run["seconds_clock"][first:])
    if first == sessions[-1]["first_generation"]:
        times = np.concatenate([[sessions[-1]["start"]], times])
    taken = float(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
    return taken if 0 < taken < math.inf else None


def writer(path: Path) -> str:
    """Return a sentence on the process that writes a run file; it touches the lock file every few seconds."""
    sidecar = lock.path_of(path)
    try:
        silent = time.time() - os.stat(sidecar).st_mtime
    except OSError:
        return "nobody writes it now; `ees-mpi resume` continues it"
    held, owner = lock.is_held(path), lock.read_owner(sidecar)
    name = f"process {owner['pid']} on {owner['host']}" if owner else "a process without a name"
    if held is False:
        return f"its writer, {name}, was interrupted or killed, or crashed; `ees-mpi resume` continues it"
    sign = f"{clock(silent)} ago" if silent > 0 else "just now"  # clocks of two machines may differ
    if held is None:
        return f"its writer, {name}, gave its last sign of life {sign}; from here, it cannot be told if it still runs"
    return f"being written by {name}" + (f", whose last sign of life was {sign}" if silent > SILENT else "")


def lines(facts: Facts) -> list[str]:
    """Return the facts of one file that have a value as lines of text; the config last, as TOML."""
    shown = {**{name: value for name, value in facts.items() if name not in ("config", "results")}, **facts["results"]}
    cells = {name: _cell(value) for name, value in shown.items()}
    text = [f"{name:22} {cell}" for name, cell in cells.items() if cell != "-"]
    return [*text, "", tomli_w.dumps(facts["config"]).rstrip()]


def table(files: Sequence[Facts]) -> list[tuple[str, ...]]:
    """Return the rows of a table of several files, headings first, with the keys in which their configs differ."""
    flats = [dict(flat(facts["config"])) for facts in files]
    everywhere = [key for key in flats[0] if key not in NOT_SHOWN and all(key in config for config in flats)]
    keys = [key for key in everywhere if any(config[key] != flats[0][key] for config in flats)][:MAX_KEYS]
    results = [name for name in in_table("info") if any(facts["results"].get(name) is not None for facts in files)]
    first = ["file", *(["kind"] if any(facts["kind"] != "run" for facts in files) else []), "task", "objective"]
    rows = [(*first, *keys, "seed", "generations", "s/gen", "left", *results, "ended")]
    for facts, values in zip(files, flats, strict=True):
        done, seconds = None, facts.get("seconds_per_generation")
        if "generations" in facts:
            done = f"{facts['generations']}/{facts['generations_wanted']}"
        left = clock(seconds * (facts["generations_wanted"] - facts["generations"])) if seconds else None
        progress = (facts["seed"], done, f"{seconds:.3g}" if seconds else None, "-" if facts.get("complete") else left)
        numbers = (facts["results"].get(name) for name in results)
        cells = (*(facts[name] for name in first), *(values[key] for key in keys), *progress, *numbers, facts["ended"])
        rows.append(tuple(map(_cell, cells)))
    return rows


def notes(files: Sequence[Facts]) -> list[str]:
    """Return what a table of files has no column for: damage, the writers of unfinished runs, invalid rollouts."""
    found = []
    for facts in files:
        if said := facts.get("damage") or facts.get("writer"):
            found.append(f"{facts['file']}: {said}")
        if share := facts["results"].get("invalid_share"):
            found.append(f"{facts['file']}: {share:.1%} of the last rollouts are invalid")
    return found


def _cell(value: Any) -> str:
    if isinstance(value, dict) and "generation" in value:
        return f"{Path(str(value.get('path'))).name}, generation {value['generation']}"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def in_order(files: Sequence[Facts], wanted: str | None) -> list[Facts]:
    """Return files sorted by a fact, a result or a key of the config; a minus in front: the largest first."""
    if not wanted or not files:
        return list(files)
    name, falling = wanted.removeprefix("-"), wanted.startswith("-")
    values = [{**dict(flat(facts["config"])), **facts, **facts["results"]} for facts in files]
    known = {key for row in values for key, value in row.items() if not isinstance(value, (dict, list))}
    if name not in known:
        raise ConfigError(f"--sort: {unknown(name, known)}")
    have = [(row[name], facts) for row, facts in zip(values, files, strict=True) if row.get(name) is not None]
    numbers = all(isinstance(value, (int, float)) for value, _ in have)
    have.sort(key=lambda pair: pair[0] if numbers else str(pair[0]), reverse=falling)
    without = [facts for row, facts in zip(values, files, strict=True) if row.get(name) is None]
    return [facts for _, facts in have] + without
