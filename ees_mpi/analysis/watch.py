"""`ees-mpi watch`: a table of running files in the terminal, one line each: progress, speed, last metrics, writer.

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

from ees_mpi.analysis.labels import run_names, series, titles
from ees_mpi.analysis.numbers.tables import columns
from ees_mpi.outcomes import Floats
from ees_mpi.store import lock
from ees_mpi.store.reader import Run, open_run
from ees_mpi.terminal import clock, pace, plain

RECENT = 30  # generations over which the speed is measured
SILENT = 60.0  # seconds after which a silent writer is reported
SHOWN = {"entropy": "entropy", "distance_mean": "distance", "fitness_mean": "fitness"}
HOME, BELOW, LINE_END = "\x1b[H", "\x1b[J", "\x1b[K"


def watch(
    paths: Sequence[Path], stream: TextIO, every: float, once: bool, wait: Callable[[float], Any] = time.sleep
) -> None:
    """Show run files until all are complete: a table on a terminal, otherwise a line for each change of a file."""
    terminal = stream.isatty() and not once
    seen: list[tuple[int, bool]] = []  # the progress of each file
    for update in itertools.count():
        with _interrupted_later(), ExitStack() as stack:
            runs = [stack.enter_context(open_run(path, allow_damaged_journal=True)) for path in paths]
            now = [(run.generations, run.complete) for run in runs]
            if terminal:
                width, height = shutil.get_terminal_size()
                lines = [f"{plain(line)[:width]}{LINE_END}\n" for line in table(runs)]
                text = f"{HOME}{'' if update else BELOW}{''.join(lines[: height - 1])}{BELOW}"
            elif once:
                text = plain("\n".join(table(runs))) + "\n"
            else:
                changed = [run for place, run in enumerate(runs) if not seen or now[place] != seen[place]]
                text = "".join(f"{plain(headline(run))}\n" for run in changed)
        stream.write(text)
        stream.flush()
        if once or all(complete for _, complete in now):
            return
        seen = now
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


def table(runs: Sequence[Run]) -> list[str]:
    rows = [("run", "done", "s/gen", "to go", *SHOWN.values())]
    for run, name in zip(runs, run_names(runs), strict=True):
        seconds, done = seconds_per_generation(run), f"{run.generations}/{run.config.run.generations}"
        speed, left = (f"{seconds:.3g}", clock(_remaining(run, seconds))) if seconds else ("-", "-")
        last = [f"{series(run, metric)[-1]:.3g}" if run.generations else "-" for metric in SHOWN]
        rows.append((name, done, speed, "complete" if run.complete else left, *last))
    notes = [f"{run.path.name}: {run.damage or writer(run.path)}" for run in runs if run.damage or not run.complete]
    shares = [(run, float(run["invalid_share"][-1])) for run in runs if run.generations]
    notes += [f"{run.path.name}: {share:.1%} of the last rollouts are invalid" for run, share in shares if share]
    return [*columns(rows), *([""] if notes else []), *notes]


def headline(run: Run) -> str:
    """Return the progress of a run in one line."""
    words = [f"{run.path.name}: {run.generations}/{run.config.run.generations} generations"]
    if run.complete:
        return f"{words[0]}, complete"
    if seconds := seconds_per_generation(run):
        words += [pace(seconds), f"about {clock(_remaining(run, seconds))} to go"]
    name = run.config.method.headline
    if run.generations and name in titles([run]):
        words.append(f"{name} {series(run, name)[-1]:.4g}")
    return f"{', '.join(words)}; {run.damage or writer(run.path)}"


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


def _remaining(run: Run, seconds: float) -> float:
    return seconds * (run.config.run.generations - run.generations)


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
