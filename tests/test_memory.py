"""The memory that is left, read from stand-ins of the kernel's files; the real ones are in tests/mpi/test_memory.py."""

from pathlib import Path

import pytest
from support.program import refusal

from ees_mpi import memory
from ees_mpi.errors import ConfigError

MIB = 1 << 20
NAMES = {  # the names of a limit and of what is used, and the word in front of sums
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    2: ("memory.max", "memory.current", ""),
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GiB of free memory."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 0 kB\nMemAvailable: {8 * MIB} kB\n")
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    return tmp_path


def limit(machine: Path, version: int, group: str, mib: int | str) -> None:
    """Set the limit of a control group; 150 MiB are used, of which 50 MiB are files in the cache."""
    folder = machine / "cgroup" / ("memory" if version == 1 else "") / group
    folder.mkdir(parents=True, exist_ok=True)
    most, used, total = NAMES[version]
    (folder / most).write_text(f"{mib * MIB if isinstance(mib, int) else mib}\n")
    (folder / used).write_text(f"{150 * MIB}\n")
    (folder / "memory.stat").write_text(f"{total}active_file {20 * MIB}\n{total}inactive_file {30 * MIB}\n")


@pytest.mark.parametrize(
    ("version", "line", "none"),
    [(1, "4:cpu,memory:/slurm/job_1/step_0", str(2**63 - 4096)), (2, "0::/slurm/job_1/step_0", "max")],
)
def test_the_smallest_limit_of_the_control_groups_counts(version: int, line: str, none: str, machine: Path) -> None:
    (machine / "proc/self/cgroup").write_text(f"9:pids:/elsewhere\n{line}\n")
    for group in ("", "slurm", "slurm/job_1", "slurm/job_1/step_0"):
        limit(machine, version, group, none)
    assert memory.left() == (8 << 30, "this machine has so much free")
    limit(machine, version, "slurm/job_1", 400)
    limit(machine, version, "slurm/job_1/step_0", 500)
    room, why = memory.left()
    assert room == 300 * MIB and "400 MiB in all" in why


def test_the_limit_of_a_container_counts_whose_group_has_another_name_outside(machine: Path) -> None:
    (machine / "proc/self/cgroup").write_text("4:memory:/docker/0123\n")
    limit(machine, 1, "", 400)
    assert memory.left()[0] == 300 * MIB


def test_a_table_and_a_state_beyond_the_limit_are_refused_before_anything_is_allocated(machine: Path) -> None:
    (machine / "proc/self/cgroup").write_text("0::/\n")
    limit(machine, 2, "", 400)
    for words in (("--set", "noise.size=100000000"), ("--set", "noise.size=5000", "--set", "population.size=5000000")):
        code, said = refusal("train", "interference-maxvar", *words)
        assert code == 2 and "memory.max" in said and "400 MiB in all" in said
    memory.check(200 * MIB, 2, 50 * MIB, "nodeA", shared=True)
    with pytest.raises(ConfigError, match=r"300 MiB on nodeA, but 300 MiB are left: the cgroup.*--mem .*noise\.size"):
        memory.check(200 * MIB + 1, 2, 50 * MIB, "nodeA", shared=True)


def test_too_little_shared_memory_is_told_with_what_to_set(machine: Path) -> None:
    (machine / "proc/meminfo").write_text(f"MemAvailable: {1 << 60} kB\n")
    with pytest.raises(ConfigError, match=r"needs .* MiB of shared memory on nodeA.*noise\.size"):
        memory.check(1 << 60, 1, 0, "nodeA", shared=True)


def test_a_table_leaves_shared_memory_for_the_messages_of_mpi(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI ends by a bus error if its segments in /dev/shm, which it fills later, find no room."""
    (machine / "proc/meminfo").write_text(f"MemAvailable: {1 << 60} kB\n")
    monkeypatch.setattr(memory, "free_space", lambda folder: 32 * MIB)
    memory.check(28 * MIB, 4, 0, "nodeA", shared=True)
    with pytest.raises(ConfigError, match="at most 7340032,"):
        memory.check(28 * MIB + 4, 4, 0, "nodeA", shared=True)
