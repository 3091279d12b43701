"""A disk that is full at any moment: one error or one warning, and nothing that was committed is lost."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from support.small_store import append, create, row

from ees_mpi.errors import RunFileError
from ees_mpi.store import writer
from ees_mpi.store.reader import Reader

SIZES = (20, 120, 1200, 1700, 2600)  # KB: of a file, of its folds, of its journal


@pytest.mark.parametrize("kilobytes", SIZES)
def test_a_full_disk_loses_nothing_that_was_committed(
    kilobytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FOLD_BYTES", 30_000)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    path, committed, file = disk / "run.h5", 0, None
    try:
        try:
            file = create(path, fsync=False)
            while committed < 1500:
                append(file, 1)
                committed += 1
            file.close()
        except RunFileError as error:
            assert "No space left on device" in str(error)
            if file and Path(f"{path}.lock").exists():  # `close` releases it, too
                file.release()
        if committed:
            check(path, committed)
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        file = writer.resume(path) if committed else create(path)
        append(file, 1)
        file.close()
        check(path, committed + 1)
        assert [each.name for each in disk.iterdir()] == ["run.h5"]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def check(path: Path, generations: int) -> None:
    with Reader(path) as file:
        file.check_all()
        assert file.generations == generations
        expected = np.array([row(number)["behavior"] for number in range(generations)])
        assert file["behavior"][:].tobytes() == expected.tobytes()
