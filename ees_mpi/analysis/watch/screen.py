"""`ees-mpi watch`: shows the progress, speed, metrics and behaviors of a run in the terminal, or a table of several.

The files are opened, read and closed again each time, so that a reader never blocks the writer.
"""

import contextlib
import itertools
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ees_mpi.analysis.labels import PHASES, label, run_names
from ees_mpi.analysis.limits import limits_of
from ees_mpi.analysis.numbers.tables import columns
from ees_mpi.analysis.offspring import positions
from ees_mpi.analysis.series import own_names, series, titles
from ees_mpi.analysis.watch import characters
from ees_mpi.commands.info import task_name
from ees_mpi.outcomes import Floats
from ees_mpi.store import journal, lock
from ees_mpi.store.reader import Run, open_run
from ees_mpi.terminal import clock, plain
from ees_mpi.terminal import pace as pace_of

RECENT = 30  # generations over which the speed is measured
SILENT = 60.0  # seconds after which a silent writer is reported
METRICS = ("entropy", "behavior_variance", "distance_mean", "distance_max", "fitness_mean", "gradient_norm")
SHOWN = {"entropy": "entropy", "distance_mean": "distance", "fitness_mean": "fitness"}  # in a table of several runs
NARROWEST = 10  # characters of a sparkline in a table
NAME = 19  # characters of the name of a metric
REDRAW = 5  # updates after which the screen is drawn again even if the file is unchanged, because times change
HOME, BELOW, LINE_END, WIPE = "\x1b[H", "\x1b[J", "\x1b[K", "\x1b[2J"


def watch(
    paths: Sequence[Path], stream: TextIO, every: float, once: bool, wait: Callable[[float], Any] = time.sleep
) -> None:
    """Show run files until all are complete: on a terminal as a screen, otherwise as one line per change of a file."""
    terminal = stream.isatty() and not once
    chars = characters.choose(getattr(stream, "encoding", None))
    seen: list[list[int]] = []
    for update in itertools.count():
        now = [_stamp(path) for path in paths]
        if now != seen or (terminal and update % REDRAW == 0):
            with _interrupted_later(), ExitStack() as stack:
                runs = [stack.enter_context(open_run(path, allow_damaged_journal=True)) for path in paths]
                complete = all(run.complete for run in runs)
                if terminal:
                    columns, rows = shutil.get_terminal_size()
                    lines = draw(runs, columns, rows - 1, chars)[: rows - 1]
                    drawn = "".join(f"{plain(line)[:columns]}{LINE_END}\n" for line in lines)
                    text = f"{'' if seen else WIPE}{HOME}{drawn}{BELOW}"
                elif once:
                    text = plain("\n".join(draw(runs, 80, 40, chars))) + "\n"
                else:
                    changed = [run for place, run in enumerate(runs) if not seen or now[place] != seen[place]]
                    text = "".join(f"{plain(headline(run))}\n" for run in changed)
            stream.write(text)
            stream.flush()
            seen = now
        if once or complete:
            return
        wait(every)


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Hold a Ctrl-C back until the end of the block: inside of h5py it may be lost, or look like a damaged file."""
    held: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held and callable(before):  # a background job ignores it
        before(*held[0])


def draw(runs: Sequence[Run], width: int, height: int, chars: characters.Characters) -> list[str]:
    """Return the screen as lines: all about one run, or a table of several."""
    return frame(runs[0], width, height, chars) if len(runs) == 1 else table(runs, width, chars)


def _stamp(path: Path) -> list[int]:
    """Return numbers that change if the run file or its journal changes, without opening them."""
    stamp: list[int] = []
    for file in (path, journal.path_of(path)):
        with contextlib.suppress(OSError):  # no such file
            facts = os.stat(file)
            stamp += [facts.st_ino, facts.st_size, facts.st_mtime_ns]
    return stamp


def headline(run: Run) -> str:
    """Return the progress of a run in one line."""
    words = [f"{run.path.name}: {run.generations}/{run.config.run.generations} generations"]
    if run.complete:
        return f"{words[0]}, complete"
    words += _pace(run)
    name = run.config.method.headline
    if run.generations and name in titles([run]):
        words.append(f"{name} {series(run, name)[-1]:.4g}")
    return f"{', '.join(words)}; {run.damage or writer(run.path)}"


def frame(run: Run, width: int, height: int, chars: characters.Characters) -> list[str]:
    """Return the screen of a run as lines."""
    config, done, wanted = run.config, run.generations, run.config.run.generations
    size, seed = config.population.size, config.run.seed
    progress = f" {done}/{wanted} generations, {done / wanted:.0%}"
    state = run.damage or ("complete" if run.complete else writer(run.path))
    lines = [
        f"{run.path.name}   {label(run)} on {task_name(config)}, {size} individuals, seed {seed}",
        characters.bar(done / wanted, max(10, min(60, width - len(progress))), chars) + progress,
    ]
    if done == 0:
        return [*lines, state, "", "no generation is committed yet"]
    age = clock(max(0.0, time.time() - float(run["seconds_clock"][-1])))
    lines += [", ".join([*_pace(run), f"committed {age} ago"]), state, "", *_metrics(run, width, chars), ""]
    ending = ["", *_ranks(run)]
    return [*lines, *_behaviors(run, width, height - len(lines) - len(ending) - 1, chars), *ending]


def table(runs: Sequence[Run], width: int, chars: characters.Characters) -> list[str]:
    """Return a table with a line for each run: progress, time to go, last metrics, and the entropy over generations."""
    rows = [("run", "done", "to go", *SHOWN.values())]
    for run, name in zip(runs, run_names(runs), strict=True):
        pace, wanted = seconds_per_generation(run), run.config.run.generations
        left = "complete" if run.complete else clock(_remaining(run, pace)) if pace else "-"
        last = [f"{series(run, metric)[-1]:.3g}" if run.generations else "-" for metric in SHOWN]
        rows.append((name, f"{run.generations}/{wanted}", left, *last))
    lines = columns(rows)
    space = width - len(max(lines, key=len)) - 2
    if space >= NARROWEST:
        bars = ["entropy over time" if space > 16 else "entropy"]
        bars += [characters.sparkline(series(run, "entropy"), space, chars) if run.generations else "" for run in runs]
        lines = [f"{line:{width - space - 2}}  {bar}".rstrip() for line, bar in zip(lines, bars, strict=True)]
    writers = [f"{run.path.name}: {writer(run.path)}" for run in runs if not run.complete]
    done = sum(run.complete for run in runs)
    return [f"{len(runs)} runs, {done} complete", "", *lines, "", *writers]


def _pace(run: Run) -> list[str]:
    """Return the speed and the remaining time; empty if they are unknown."""
    pace = seconds_per_generation(run)
    if pace is None:
        return []
    words = [pace_of(pace), f"{float(np.sum(run['length'][-1])) / pace:,.0f} steps/s"]
    return words if run.complete else [*words, f"about {clock(_remaining(run, pace))} to go"]


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
    return taken if taken > 0 else None


def _remaining(run: Run, pace: float) -> float:
    return pace * (run.config.run.generations - run.generations)


def writer(path: Path) -> str:
    """Return a sentence on the process that writes a run file; it touches the lock file every few seconds."""
    held = lock.path_of(path)
    try:
        silent = time.time() - os.stat(held).st_mtime
        owner = lock.read_owner(held)
        name = f"process {owner['pid']} on {owner['host']}"
    except (OSError, KeyError):
        return "nobody writes it now; `ees-mpi resume` continues it"
    if silent > SILENT:
        return f"its writer, {name}, has given no sign of life for {clock(silent)}"
    return f"being written by {name}"


def _metrics(run: Run, width: int, chars: characters.Characters) -> list[str]:
    """Return a sparkline for each metric, with its first and last value."""
    rows = []
    for name in (*own_names([run]), *METRICS):
        values = series(run, name)
        finite = values[np.isfinite(values)]
        ends = f"{finite[0]:.4g} to {finite[-1]:.4g}" if len(finite) else "not finite"
        line = characters.sparkline(values, max(10, min(60, width - NAME - 24)), chars)
        rows.append(f"{name:{NAME}} {line}  {ends}")
    invalid = float(run["invalid_share"][-1])
    return [*rows, f"{invalid:.1%} of the rollouts of the last generation are invalid"] if invalid else rows


def _behaviors(run: Run, width: int, height: int, chars: characters.Characters) -> list[str]:
    """Draw the behaviors of the last generation: a histogram of one number, or a map of the first two."""
    last = run.generations - 1
    points = positions(run, last)
    points = points[np.isfinite(points).all(axis=1)]
    title = f"behavior of the {len(points)} individuals of generation {last}"
    if not len(points):
        return [title]
    limits = limits_of(run, [points])
    if points.shape[1] == 1:
        lines = max(2, min(8, height - 2))
        return [title, *characters.histogram(points[:, 0], limits[0], min(76, width), lines, chars)]
    more = "" if points.shape[1] == 2 else f": the first two of {points.shape[1]} numbers"
    side = max(5, min(21, height - 2, width // 2))
    return [title + more, *characters.heatmap(points[:, :2], limits[:2], side - 1 + side % 2, chars)]


def _ranks(run: Run) -> list[str]:
    """Return the balance between ranks and the time of each phase, over the last generations."""
    recent = slice(max(0, run.generations - RECENT), run.generations)
    low, mean, high = (float(np.mean(run[f"seconds_evaluate_{name}"][recent])) for name in ("min", "mean", "max"))
    ranks, counts = np.unique(run["seconds_slowest_rank"][recent], return_counts=True)
    spent = [float(np.sum(run[f"seconds_{phase}"][recent])) for phase in PHASES]
    share = [f"{phase} {part / max(sum(spent), 1e-9):.1%}" for phase, part in zip(PHASES, spent, strict=True)]
    last = run.sessions()[-1]
    nodes = f"{last['nodes']} node{'s' * (last['nodes'] > 1)}"
    slowest = f"; slowest rank {ranks[counts.argmax()]} ({counts.max()} of {counts.sum()})" if last["ranks"] > 1 else ""
    balance = f"{low:.3g} to {high:.3g} s: {mean / max(high, 1e-9):.0%} balanced{slowest}"
    return [f"ranks   {last['ranks']} on {nodes}, {balance}", f"time    {', '.join(share)}"]
