"""The memory that a process may still use: what the machine has free, within the limits of its control groups.

SLURM and containers limit memory by control groups (cgroups). The kernel kills a process that exceeds such a limit,
without a word; so a run asks before it allocates. Shared memory counts for the limit, too.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from ees_mpi.errors import ConfigError

SHARED_MEMORY = "/dev/shm"
SHARED_PREFIX = "ees-mpi-"  # of the files there, which a run unlinks as soon as its ranks have mapped them
CGROUPS, PROC = Path("/sys/fs/cgroup"), Path("/proc")
UNLIMITED = 1 << 60  # version 1 writes such a number for no limit
MIB = 1 << 20
FOR_MESSAGES = MIB  # of shared memory, for each rank: Open MPI takes 0.1 to 0.4 MiB, and ends by a bus error without it


def left() -> tuple[int, str]:
    """Return the bytes that this process may still use, and what limits them, for a message."""
    return min([(_numbers(PROC / "meminfo")["MemAvailable:"] * 1024, "this machine has so much free"), *_cgroups()])


def free_space(folder: str) -> int:
    """Return the bytes that are free on the file system of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def room_for_table(ranks: int) -> int:
    """Return the bytes of /dev/shm that a noise table may take beside the messages of a node's ranks."""
    return max(free_space(SHARED_MEMORY) - ranks * FOR_MESSAGES, 0)


def _cgroups() -> Iterator[tuple[int, str]]:
    """Yield the bytes that are left in each control group of this process with a limit, and its name for a message."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if "memory" in kinds.split(","):  # version 1
            root, names, total = CGROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"
        elif not kinds:  # version 2
            root, names, total = CGROUPS, ("memory.max", "memory.current"), ""
        else:
            continue
        group = root / path.strip("/")  # in a container it need not exist, but those above it do
        for folder in (group, *group.parents[: len(group.relative_to(root).parts)]):
            try:
                limit, used = ((folder / name).read_text().strip() for name in names)
                stat = _numbers(folder / "memory.stat")
            except OSError:
                continue
            if limit != "max" and int(limit) < UNLIMITED:
                cached = stat.get(f"{total}active_file", 0) + stat.get(f"{total}inactive_file", 0)  # can be given up
                left = max(int(limit) - int(used) + cached, 0)
                yield left, f"the cgroup ({names[0]}) allows {int(limit) / MIB:.0f} MiB in all"


def _numbers(path: Path) -> dict[str, int]:
    """Return the first number of each line of a file, by its word."""
    return {words[0]: int(words[1]) for words in map(str.split, path.read_text().splitlines()) if len(words) > 1}


def check(table: int, ranks: int, rank: int, host: str, shared: bool) -> None:
    """Raise a ConfigError if a node has no room for a noise table and what its ranks need beside it.

    table, rank: bytes of the table, and of each of the node's `ranks`; shared: the table lies in /dev/shm
    """
    room, why = left()
    need = table + ranks * rank
    if need > room:
        who = f"the noise table and the state of {ranks} rank{'s' * (ranks > 1)}"
        raise ConfigError(
            f"{who} need {need / MIB:.0f} MiB on {host}, but {room / MIB:.0f} MiB are left: {why}. Request more memory "
            "(--mem under SLURM), or set a smaller noise.size"
        )
    room = room_for_table(ranks) if shared and os.path.isdir(SHARED_MEMORY) else table
    if table > room:
        raise ConfigError(
            f"the noise table needs {table / MIB:.0f} MiB of shared memory on {host}, but {SHARED_MEMORY} has "
            f"{room / MIB:.0f} MiB left for it; set noise.size to at most {room // 4}, or give the machine more "
            "(containers: --shm-size)"
        )
