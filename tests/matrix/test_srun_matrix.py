"""srun with PMIx and PMI2 starts the ranks of four MPI libraries. Run by `tools/test --mpi`: root, Debian, minutes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mpi_matrix import LIBRARIES, Library
from support.program import TIMEOUT, TINY, info, sets, train
from support.run_files import assert_same_bits
from support.slurm import sandbox_up

TRAIN = ("train", "interference-maxent", *sets(*TINY))


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> Iterator[None]:
    with sandbox_up():
        yield


def srun(library: Library, plugin: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `ees-mpi ARGUMENTS` on two nodes, with two ranks on one and a single one on the other."""
    words = ["srun", "--nodes=2", "--ntasks=3", f"--mpi={plugin}", library.bin / "ees-mpi", *arguments]
    line = [str(word) for word in words]
    return subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT, env=library.environment())


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_srun_with_the_plugin_of_the_library_gives_the_bits_of_one_process(library: Library, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    finished = srun(library, library.srun, *TRAIN, "--out", out)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    print(f"{library.name:15} srun --mpi={library.srun}: {str(info(out)['state_sha256'])[:16]}")
    assert (info(out)["ranks"], info(out)["nodes"]) == (3, 2)
    assert_same_bits(out, train(tmp_path / "alone.h5", "interference-maxent"))
