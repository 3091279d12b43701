"""`ees-mpi` in which some ranks kill themselves at a given instant: EES_CHAOS = [{"rank", "where", "after"}, ...].

A signal from outside almost never arrives between two writes. A rank that kills itself there always does.
A rank can also wait after a commit while a file exists: {"rank", "gate", "after"}.
"""

import ctypes
import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ees_mpi import machine

machine.pin_threads()

from ees_mpi.cli.main import main  # noqa: E402
from ees_mpi.ranks import Ranks, launch  # noqa: E402
from ees_mpi.store import journal, writer  # noqa: E402
from ees_mpi.store.writer import Writer  # noqa: E402


def die() -> None:
    """Send SIGKILL to this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def loop() -> None:
    """Never return."""
    while True:
        pass


def wait_at(gate: Path) -> None:
    """Make a file, and wait until it is removed."""
    gate.touch()
    while gate.exists():
        time.sleep(0.002)


def after(calls: int, action: Callable[[], None]) -> Callable[[], None]:
    """Return a function that does the action at its call number `calls` (1: the first call)."""
    left = [calls]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            action()

    return count


def around(owner: Any, name: str, first: Callable[[], None] = int, then: Callable[[], None] = int) -> None:
    """Call `first` before, and `then` after, every call of a method or function."""
    original = getattr(owner, name)

    def hooked(*arguments: Any, **named: Any) -> Any:
        first()
        result = original(*arguments, **named)
        then()
        return result

    setattr(owner, name, hooked)


def half_a_record(calls: int) -> None:
    """Die with half of a journal record written."""
    original = journal.JournalWriter._write
    left = [calls]

    def torn(self: journal.JournalWriter, data: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.write(self._file, data[: len(data) // 2])
            die()
        original(self, data)

    journal.JournalWriter._write = torn  # type: ignore[method-assign]


def plan_death(world: type[Ranks], where: str, calls: int) -> None:
    """Plan the death of this process."""
    dead = after(calls, die)
    plans: dict[str, Callable[[], None]] = {
        "a gather": lambda: around(world, "_wait", dead),  # it has begun; nobody has waited for it yet
        "a rollout": lambda: around(world, "_next", then=dead),
        "a commit": lambda: half_a_record(calls),
        "telling of a commit": lambda: around(Writer, "append", then=dead),  # the other ranks do not know it yet
        "a fold": lambda: around(writer, "_check_written", dead),
        "loop": lambda: around(world, "_next", then=after(calls, loop)),
        "lock": lambda: around(world, "_next", then=after(calls, lambda: ctypes.PyDLL(None).sleep(3600))),
    }
    plans[where]()


def planning_deaths(connect: Callable[..., Ranks]) -> Callable[..., Ranks]:
    """Return a `connect` that also plans this rank's deaths; MPI is not loaded earlier than usual."""

    def connected(**options: Any) -> Ranks:
        ranks = connect(**options)
        for event in json.loads(os.environ.get("EES_CHAOS", "[]")):
            if event["rank"] != int(os.environ.get("OMPI_COMM_WORLD_RANK", "-1")):
                continue
            if "gate" in event:
                around(Writer, "append", then=after(event["after"], partial(wait_at, Path(event["gate"]))))
            else:
                plan_death(type(ranks), event["where"], event["after"])
        return ranks

    return connected


launch.connect = planning_deaths(launch.connect)
main()
