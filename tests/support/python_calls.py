"""A program that calls `ees_mpi` on all ranks, or only on some: `python python_calls.py NAME RUN.h5`."""

import contextlib
import os
import signal
import sys
from typing import Any
from unittest import mock

import ees_mpi
from ees_mpi.generation import Record
from support import own_tasks

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
NAME, OUT = sys.argv[1:]
OUTPUT = sys.stdout  # also while that of a call goes nowhere
SMALL = {"population.size": 20, "run.generations": 6, "noise.size": 5000, "run.fsync": False}


class Waves(own_tasks.Waves):
    """A task that is written in the program itself: every rank finds it in `__main__`."""


def train(**options: Any) -> ees_mpi.Run:
    with contextlib.redirect_stdout(None):
        return ees_mpi.train("interference-maxvar", OUT, settings=SMALL, **options)


def say(*words: object) -> None:
    """Print one line of this rank, in one write."""
    OUTPUT.write(" ".join(map(str, [RANK, *words])) + "\n")
    OUTPUT.flush()


def fail_at_2(record: Record) -> None:
    if record.generation == 2:
        raise ZeroDivisionError("a mistake in the callback")


def several_calls() -> None:
    """A callback that fails, a resume, a wrong config, an own task; nothing is left behind by any of them."""
    before = surroundings()
    try:
        train(on_generation=fail_at_2 if RANK == 0 else None)
    except (ZeroDivisionError, ees_mpi.Interrupted) as error:
        say(type(error).__name__, error)
    try:
        ees_mpi.train("interference-maxvar", OUT, settings={"population.stdd": 1})
    except ees_mpi.ConfigError as error:
        say("ConfigError", error)
    for differ in (
        lambda: ees_mpi.train("interference-maxvar", OUT) if RANK == 1 else ees_mpi.sample(OUT, 4),
        lambda: ees_mpi.train("interference-maxvar", f"{OUT}-{RANK}", seed=RANK),
        lambda: ees_mpi.train("interference-maxvar", OUT, settings={"population.std": 0.1 + RANK}),
        lambda: ees_mpi.train("interference-maxvar", f"{OUT}-{RANK}"),
        lambda: ees_mpi.train(ees_mpi.load_config("interference-maxvar") if RANK else "interference-maxent", OUT),
        lambda: ees_mpi.sample(f"{OUT}-{RANK}", 4),
        lambda: ees_mpi.adapt(OUT, 90 * RANK),
        lambda: ees_mpi.measure(OUT, std=0.1 + RANK),
    ):
        try:
            differ()
        except ees_mpi.EesError as error:
            say(type(error).__name__, str(error).partition(": ")[0])
    with train(resume=True) as run:
        say(run["state_sha256"][-1].decode())
    own = {"task": {"name": "custom", "function": Waves}}
    config = {**ees_mpi.load_config("interference-maxvar", SMALL).sections(), **own}
    with contextlib.redirect_stdout(None), ees_mpi.train(config, f"{OUT}.own.h5") as run:
        say(run.generations)
    with contextlib.redirect_stdout(None), ees_mpi.sample(OUT, 4) as sampled:
        say(sampled["behavior"].shape)
    say(surroundings() == before)


def surroundings() -> tuple[Any, ...]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    return [signal.getsignal(number) for number in numbers], sys.excepthook, os.environ.get("OMP_NUM_THREADS")


def one_rank_waits_for_something_else() -> None:
    from mpi4py import MPI

    if RANK == 0:
        train()
    MPI.COMM_WORLD.Barrier()


def has_a_stall_limit() -> None:
    from ees_mpi.ranks import process

    found: list[float] = []
    with mock.patch.object(process.faulthandler, "dump_traceback_later", lambda seconds, **more: found.append(seconds)):
        ees_mpi.train("interference-maxvar", OUT, settings={**SMALL, "run.stall_minutes": 70.0})
    say(max(found, default=0) >= 60 * 70)  # the start of MPI has its own, shorter limit


globals()[NAME]()
