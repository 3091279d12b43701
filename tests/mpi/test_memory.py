"""A real control group with a limit: a run that would not fit is refused, before the kernel kills a rank."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.program import TINY, command, run, sets

ROOTS = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a control group that allows 400 MiB."""
    for root, limit in ROOTS.items():
        folder = root / f"ees-mpi-test-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / limit).write_text(f"{400 << 20}")
        except OSError:
            continue
        yield folder
        folder.rmdir()
        return
    pytest.skip("needs root, and control groups that can be made")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [0, 2])
def test_a_noise_table_beyond_the_limit_of_a_control_group_is_refused_once(
    ranks: int, group: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run.h5"
    for size, code in (1 << 28, 2), (1 << 20, 0):
        words = command("train", "interference-maxvar", *sets(*TINY, f"noise.size={size}"), "--out", out, ranks=ranks)
        ended = run(["/bin/sh", "-c", f"echo $$ >{group}/cgroup.procs && exec {shlex.join(words)}"])
        assert ended.returncode == code and ended.stderr.count("ees-mpi: noise.size: ") == (code == 2), ended.stderr
        assert out.exists() is (code == 0)
