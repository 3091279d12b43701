"""`ees-mpi` that notes, at its first rollout, when that was and which files this process has opened."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

opened: set[str] = set()


def note(event: str, arguments: tuple[Any, ...]) -> None:
    """Note a file that Python opens; what the dynamic linker opens shows in the process's map."""
    if event == "open" and isinstance(arguments[0], str):
        opened.add(arguments[0])


sys.addaudithook(note)

from ees_mpi import machine  # noqa: E402

machine.pin_threads()

from ees_mpi.cli.main import main  # noqa: E402
from ees_mpi.ranks import Ranks, launch  # noqa: E402


def files() -> int:
    """Count the files that were opened: by Python, and by the dynamic linker."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    libraries = {line.split()[-1] for line in lines if ".so" in line}
    return len({*opened, *libraries} - {name for name in opened if name.startswith(("/proc", "/sys", "/dev"))})


def noting(world: type[Ranks]) -> None:
    """Let the first individual that a rank is dealt be noted."""
    original = world.deal

    def deal(*arguments: Any, **named: Any) -> Iterator[int]:
        for number, individual in enumerate(original(*arguments, **named)):
            target = Path(os.environ["EES_STARTED"], f"{os.getpid()}.json")
            if number == 0 and not target.exists():
                target.write_text(json.dumps({"clock": time.time(), "files": files()}))
            yield individual

    world.deal = deal  # type: ignore[method-assign]


def connected() -> Ranks:
    """Connect as always, then arrange for the note."""
    ranks = connect()
    noting(type(ranks))
    return ranks


connect = launch.connect
launch.connect = connected
main()
