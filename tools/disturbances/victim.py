"""`ees-mpi` in which some ranks kill themselves at a given instant: EES_CHAOS = [{"rank", "where", "after"}, ...].

A kill from outside hardly ever hits the instant between two writes; this one always does.
"""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from ees_mpi import machine

machine.pin_threads()

from ees_mpi.cli.main import main  # noqa: E402
from ees_mpi.ranks import Ranks, launch  # noqa: E402
from ees_mpi.store import hdf5, journal  # noqa: E402
from ees_mpi.store.writer import RunWriter  # noqa: E402


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(calls: int, action: Callable[[], None]) -> Callable[[], None]:
    """Return what does the action at its call number `calls` (1 is the first) and nothing before."""
    left = [calls]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            action()

    return count


def around(owner: Any, name: str, first: Callable[[], None] = int, then: Callable[[], None] = int) -> None:
    """Let hooks run before and after a method or function."""
    original = getattr(owner, name)

    def hooked(*arguments: Any, **named: Any) -> Any:
        first()
        result = original(*arguments, **named)
        then()
        return result

    setattr(owner, name, hooked)


def half_a_record(calls: int) -> None:
    """Die with half of a journal record written."""
    original = journal.JournalWriter.append_bytes
    left = [calls]

    def torn(self: journal.JournalWriter, data: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.write(self._file, data[: len(data) // 2])
            die()
        original(self, data)

    journal.JournalWriter.append_bytes = torn  # type: ignore[method-assign]


def arrange(world: type[Ranks], where: str, calls: int) -> None:
    """Arrange this process's death."""
    if where == "a gather":  # begun, and not waited for
        around(world, "_wait", after(calls, die))
    elif where == "a rollout":
        around(world, "_begin", then=after(calls, die))
    elif where == "a commit":
        half_a_record(calls)
    elif where == "telling of a commit":  # it is in the file, and nobody else knows
        around(RunWriter, "commit", then=after(calls, die))
    elif where == "a fold":
        around(hdf5, "_put_in_place", after(calls, die))
    elif where == "a recovery":
        around(world, "_settle", after(calls, die))
    else:
        raise ValueError(f"unknown instant {where}")


def arrange_all(connect: Callable[[], Ranks]) -> Callable[[], Ranks]:
    """Let the deaths of this rank be arranged once it is connected: MPI is loaded no earlier than in life."""

    def connected() -> Ranks:
        ranks = connect()
        for victim in json.loads(os.environ.get("EES_CHAOS", "[]")):
            if victim["rank"] == int(os.environ.get("OMPI_COMM_WORLD_RANK", "-1")):
                arrange(type(ranks), victim["where"], victim["after"])
        return ranks

    return connected


launch.connect = arrange_all(launch.connect)
main()
