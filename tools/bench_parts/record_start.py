"""`ees-mpi` that records the time of its first rollout and the number of files that the process has opened.

Each rank writes PID.json into the folder EES_STARTED."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

opened: set[str] = set()


def record_open(event: str, arguments: tuple[Any, ...]) -> None:
    """Record a file that Python opens. The files of the dynamic linker are in /proc/self/maps."""
    if event == "open" and isinstance(arguments[0], str):
        opened.add(arguments[0])


sys.addaudithook(record_open)

from ees_mpi import machine  # noqa: E402

machine.pin_threads()

from ees_mpi.cli.main import main  # noqa: E402
from ees_mpi.ranks import Ranks, launch  # noqa: E402


def files() -> int:
    """Return the number of opened files, by Python and by the dynamic linker."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    libraries = {line.split()[-1] for line in lines if ".so" in line}
    return len({*opened, *libraries} - {name for name in opened if name.startswith(("/proc", "/sys", "/dev"))})


def record_first_individual(world: type[Ranks]) -> None:
    """Make a rank write its record when it gets its first individual."""
    original = world.deal

    def deal(*arguments: Any, **named: Any) -> Iterator[int]:
        for number, individual in enumerate(original(*arguments, **named)):
            target = Path(os.environ["EES_STARTED"], f"{os.getpid()}.json")
            if number == 0 and not target.exists():
                target.write_text(json.dumps({"clock": time.time(), "files": files()}))
            yield individual

    world.deal = deal  # type: ignore[method-assign]


def connected(**options: Any) -> Ranks:
    """Connect as usual, then hook into the ranks."""
    ranks = connect(**options)
    record_first_individual(type(ranks))
    return ranks


connect = launch.connect
launch.connect = connected
main()
