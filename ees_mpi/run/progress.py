"""The progress of a command, on rank 0: a progress bar on a terminal, or a line every few seconds in a log file."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TextIO

import numpy as np

from ees_mpi.config import Config, Evolution
from ees_mpi.generation import Record, State, invalid_rollouts
from ees_mpi.ranks import launched
from ees_mpi.terminal import clock, pace, plain

LINE_SECONDS = 5.0  # between two lines in a log file
MOST = 3  # numbers that a warning lists


class Display:
    """Shows progress on stdout: under mpirun stdout is the terminal, stderr is not."""

    def __init__(self, **bar: Any):
        self._stream = sys.stdout or open(os.devnull, "w", encoding="utf-8")
        self._start = self._last = time.monotonic()
        self._bar: Any = None
        if on_terminal(self._stream):
            from tqdm import tqdm

            self._bar = tqdm(file=self._stream, dynamic_ncols=True, **bar)

    @property
    def has_bar(self) -> bool:
        return self._bar is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _seconds_if_due(self, last: bool = False) -> float | None:
        """Return the seconds since the start if it is time for the next line of a log file; else None."""
        now = time.monotonic()
        if now - self._last < LINE_SECONDS and not last:
            return None
        self._last = now
        return now - self._start

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.write(plain(line), file=self._stream)
        else:
            print(plain(line), file=self._stream, flush=True)


class Progress(Display):
    """Shows committed generations, and warnings about them."""

    def __init__(self, config: Config, done: int, file_warning: Callable[[], str | None]):
        self._headline, self._file_warning = config.metric_settings().headline, file_warning
        self._climbed = climbed(config)
        self._invalid = self._alike = False  # each of the two is told once in a session
        self._total, self._first = config.run.generations, done
        super().__init__(total=self._total, initial=done, unit="gen", smoothing=0.05)

    def __call__(self, record: Record, following: State) -> None:
        """Show one more committed generation."""
        warnings = [self._file_warning()]
        if not self._invalid and not record["valid"].all():
            self._invalid = True  # each line has their share
            warnings.append(invalid_rollouts(record.generation, record["behavior"], record["fitness"], record["valid"]))
        if not self._alike and (said := all_alike(record, self._climbed)):
            self._alike = True
            warnings.append(said)
        with contextlib.suppress(OSError, ValueError):  # a closed terminal must not stop the training
            for warning in filter(None, warnings):
                self._say(f"warning: {warning}")
            done = following.generation
            if self._bar is not None:
                self._bar.set_postfix_str(self._metric(record), refresh=False)
                self._bar.update()
            elif (taken := self._seconds_if_due(done == self._total)) is not None:
                seconds = taken / (done - self._first)
                left = clock((self._total - done) * seconds)
                self._say(f"generation {done}/{self._total}, {pace(seconds)}, {left} left, {self._metric(record)}")

    def _metric(self, record: Record) -> str:
        metrics = record.metrics
        text, invalid = f"{self._headline} {metrics[self._headline]:.4g}", metrics["invalid_share"]
        return f"{text}, {invalid:.1%} invalid" if invalid else text


def climbed(config: Config) -> list[str]:
    """Return the arrays of outcomes that the objective of a config climbs; none if it is MAML, or the user's."""
    method = config.method
    if not isinstance(method, Evolution) or method.own_objectives:
        return []
    return [*(["behavior"] if method.algorithm != "fitness" else []), *(["fitness"] if method.uses_fitness else [])]


def all_alike(record: Record, names: Sequence[str]) -> str:
    """Return a sentence on the numbers in these arrays that no valid individual has otherwise; empty: all vary."""
    valid, same = record["valid"], []
    for name in names:
        rows = record[name][valid].reshape(valid.sum(), -1)
        for place in np.flatnonzero((rows == rows[0]).all(axis=0)).tolist():
            number = f"{name}[{place}]" if record[name].ndim > 1 else name
            same.append(f"{number} is {rows[0, place]:g}")
    if not same:
        return ""
    listed = ", ".join(same[:MOST]) + (f" (and {len(same) - MOST} more)" if len(same) > MOST else "")
    said = f"generation {record.generation}: {listed} in all {valid.sum()} valid individuals"
    return f"{said}. What does not vary cannot be climbed"


class Counter(Display):
    """Shows how much of a longer task is done; nothing if the task ends within a few seconds."""

    def __init__(self, total: int, unit: str, name: str):
        self._total, self._unit, self._name, self._done = total, unit, name, 0
        super().__init__(total=total, unit=unit, desc=name, leave=False)

    def update(self, more: int = 1) -> None:
        self.show(self._done + more)

    def show(self, done: int) -> None:
        """Show that so many are done; in a log file only if the last line is seconds old."""
        self._done = min(max(done, self._done), self._total)
        with contextlib.suppress(OSError, ValueError):  # a closed terminal must not stop the work
            if self._bar is not None:
                self._bar.update(self._done - self._bar.n)
            elif (taken := self._seconds_if_due()) is not None:
                left = clock(taken * (self._total / max(self._done, 1) - 1))
                self._say(f"{self._name}: {self._done}/{self._total} {self._unit}s, {left} left")


def on_terminal(stream: TextIO) -> bool:
    """Return True if a stream can show a bar: it is a terminal or the output of a notebook.

    Under mpirun every rank has a pseudo-terminal, but mpirun shows whole lines only, and a bar ends no line.
    """
    if type(stream).__module__.startswith("ipykernel."):
        return True
    closed = getattr(stream, "closed", False)  # a stream of the user may have no `closed`
    return not closed and stream.isatty() and not launched()[0]
