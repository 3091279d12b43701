"""Following a run file in the terminal: how far it is, how fast, what its behaviours look like.

The file is opened, read and closed again each time, so that nothing of a reader is ever in the writer's way.
"""

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ees_mpi.analysis.labels import label
from ees_mpi.analysis.offspring import places
from ees_mpi.analysis.watch import characters
from ees_mpi.commands.info import task_name
from ees_mpi.outcomes import Floats
from ees_mpi.store import journal
from ees_mpi.store.reader import Run, open_run
from ees_mpi.terminal import clock

RECENT = 30  # generations whose pace is taken for the pace
SILENT = 60.0  # seconds after which a writer that gives no sign of life is taken for gone
METRICS = ("entropy", "behavior_variance", "distance_mean", "distance_max", "fitness_mean", "gradient_norm")
PHASES = ("evaluate", "gather", "update", "commit")
NAME = 19  # characters of a metric's name
REDRAW = 5  # looks after which a screen is drawn anew, though the file is as it was: times go on
HOME, BELOW, LINE_END, WIPE = "\x1b[H", "\x1b[J", "\x1b[K", "\x1b[2J"


def watch(path: Path, stream: TextIO, every: float, once: bool, wait: Callable[[float], Any] = time.sleep) -> None:
    """Show a run file until it is complete: a screen where there is one, else a line for every change."""
    terminal = stream.isatty() and not once
    pen = characters.ink(getattr(stream, "encoding", None))
    seen: tuple[int, ...] = ()
    drawn = False
    for look in itertools.count():
        now = _stamp(path)
        if now != seen or (terminal and look % REDRAW == 0):
            with open_run(path) as run:
                complete = run.complete
                if terminal:
                    size = shutil.get_terminal_size()
                    lines = frame(run, size.columns, size.lines - 1, pen)[: size.lines - 1]
                    text = "".join(f"{line[: size.columns]}{LINE_END}\n" for line in lines)
                    stream.write(f"{'' if drawn else WIPE}{HOME}{text}{BELOW}")
                elif once:
                    stream.write("\n".join(frame(run, 80, 40, pen)) + "\n")
                else:
                    stream.write(f"{headline(run)}\n")
                stream.flush()
            seen, drawn = now, True
        if once or complete:
            return
        wait(every)


def _stamp(path: Path) -> tuple[int, ...]:
    """Tell one state of a run file from another without opening it."""
    stamp: tuple[int, ...] = ()
    for file in (path, journal.path_of(path)):
        try:
            found = os.stat(file)
        except OSError:
            stamp += (0,)
        else:
            stamp += (found.st_ino, found.st_size, found.st_mtime_ns)
    return stamp


def headline(run: Run) -> str:
    """Say in one line how far a run is."""
    wanted, done = run.config.run.generations, run.generations
    line = f"{run.path.name}: {done}/{wanted} generations"
    pace = seconds_per_generation(run)
    if run.complete:
        return f"{line}, complete"
    if pace:
        line += f", {_rate(pace)}, about {clock(_left(run, pace))} to go"
    if done:
        name = run.config.method.headline
        line += f", {name} {float(np.sum(run[name][-1])):.4g}"
    return f"{line}; {writer(run.path)}"


def frame(run: Run, width: int, height: int, pen: characters.Ink) -> list[str]:
    """Draw all there is to see of a run, for a screen of some size."""
    config = run.config
    size, seed = config.population.size, config.run.seed
    lines = [
        f"{run.path.name}   {label(run)} on {task_name(config)}, {size} individuals, seed {seed}",
        _progress(run, width, pen),
        *_pace(run),
        "",
    ]
    if run.generations == 0:
        return [*lines, "no generation is committed yet"]
    lines += [*_metrics(run, width, pen), ""]
    ending = ["", *_workers(run)]
    return [*lines, *_behaviors(run, width, height - len(lines) - len(ending) - 1, pen), *ending]


def _progress(run: Run, width: int, pen: characters.Ink) -> str:
    done, wanted = run.generations, run.config.run.generations
    text = f" {done}/{wanted} generations, {done / wanted:.0%}"
    return characters.bar(done / wanted, max(10, min(60, width - len(text))), pen) + text


def _pace(run: Run) -> list[str]:
    """Say how fast it goes, when it will be done, and who is at it."""
    pace, words = seconds_per_generation(run), []
    if pace:
        words += [_rate(pace), f"{float(np.sum(run['length'][-1])) / pace:,.0f} steps/s"]
    if pace and not run.complete:
        words.append(f"about {clock(_left(run, pace))} to go")
    if run.generations:
        words.append(f"committed {clock(max(0.0, time.time() - float(run['seconds_clock'][-1])))} ago")
    state = "complete" if run.complete else writer(run.path)
    return [", ".join(words), state] if words else [state]


def seconds_per_generation(run: Run) -> float | None:
    """Return the pace of the last generations of the present session; None before there is any."""
    sessions = run.sessions()
    if not sessions or run.generations <= sessions[-1]["first_generation"]:
        return None
    first = max(int(sessions[-1]["first_generation"]), run.generations - RECENT - 1)
    times: Floats = np.asarray(run["seconds_clock"][first:])
    if first == sessions[-1]["first_generation"]:
        times = np.concatenate([[sessions[-1]["start"]], times])
    taken = float(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
    return taken if taken > 0 else None


def _left(run: Run, pace: float) -> float:
    return max(0.0, pace * (run.config.run.generations - run.generations))


def _rate(pace: float) -> str:
    for unit, seconds in (("s", 1.0), ("min", 60.0)):
        if seconds / pace >= 0.5:
            return f"{seconds / pace:.3g} generations/{unit}"
    return f"{3600 / pace:.3g} generations/h"


def writer(path: Path) -> str:
    """Say who writes a run file, by the sidecar that its writer touches every few seconds."""
    sidecar = path.with_name(path.name + ".lock")
    try:
        silent = time.time() - os.stat(sidecar).st_mtime
        who = json.loads(sidecar.read_text(encoding="utf-8"))
        name = f"process {who['pid']} on {who['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "nobody writes it now; resume goes on"
    if silent > SILENT:
        return f"its writer, {name}, has given no sign of life for {clock(silent)}"
    return f"being written by {name}"


def _metrics(run: Run, width: int, pen: characters.Ink) -> list[str]:
    """Draw how the metrics went: a sparkline each, with the first and the last value."""
    rows = []
    for name in METRICS:
        values: Floats = np.asarray(run[name][:], np.float64)
        values = values.reshape(len(values), -1).sum(axis=1)  # of a variance by component: the total
        finite = values[np.isfinite(values)]
        ends = f"{finite[0]:.4g} to {finite[-1]:.4g}" if len(finite) else "not finite"
        line = characters.sparkline(values, max(10, min(60, width - NAME - 24)), pen)
        rows.append(f"{name:{NAME}} {line}  {ends}")
    invalid = float(run["invalid_share"][-1])
    return [*rows, f"{invalid:.1%} of the rollouts of the last generation blew up"] if invalid else rows


def _behaviors(run: Run, width: int, height: int, pen: characters.Ink) -> list[str]:
    """Draw the behaviours of the last generation: a histogram, or from above; of more numbers the first two."""
    last = run.generations - 1
    points = places(run, last)
    points = points[np.isfinite(points).all(axis=1)]
    title = f"behavior of the {len(points)} individuals of generation {last}"
    if not len(points):
        return [title]
    if points.shape[1] == 1:
        return [title, *characters.histogram(points[:, 0], min(76, width), max(2, min(8, height - 2)), pen)]
    more = "" if points.shape[1] == 2 else f": the first two of {points.shape[1]} numbers"
    side = max(5, min(21, height - 2, width // 2))
    return [title + more, *characters.heatmap(points[:, :2], side - 1 + side % 2, pen)]


def _workers(run: Run) -> list[str]:
    """Say how evenly the ranks work and where the time of the last generations goes."""
    recent = slice(max(0, run.generations - RECENT), run.generations)
    low, mean, high = (float(np.mean(run[f"seconds_evaluate_{what}"][recent])) for what in ("min", "mean", "max"))
    ranks, counts = np.unique(run["seconds_slowest_rank"][recent], return_counts=True)
    spent = [float(np.sum(run[f"seconds_{phase}"][recent])) for phase in PHASES]
    share = [f"{phase} {part / max(sum(spent), 1e-9):.1%}" for phase, part in zip(PHASES, spent, strict=True)]
    last = run.sessions()[-1]
    nodes = f"{last['nodes']} node{'s' * (last['nodes'] > 1)}"
    slowest = f"; slowest rank {ranks[counts.argmax()]} ({counts.max()} of {counts.sum()})" if last["ranks"] > 1 else ""
    return [
        f"ranks   {last['ranks']} on {nodes}, {low:.3g} to {high:.3g} s: "
        f"{mean / max(high, 1e-9):.0%} balanced{slowest}",
        f"time    {', '.join(share)}",
    ]
