"""Small files of format 5 of each kind: they open, resume and verify.

They were made on x86-64 with AVX-512. On another kind of CPU `verify` names the difference instead of comparing bits.
"""

from pathlib import Path

import h5py
import pytest
from support.program import TESTS, done, ees, info, refusal
from support.run_files import stored

from ees_mpi import open_run
from ees_mpi.commands.verify import differences

DATA = TESTS / "data"
DIGESTS = dict(line.split() for line in (DATA / "digests.txt").read_text().splitlines())
FILES = ("interference", "maml", "sample")


@pytest.mark.parametrize("name", FILES)
def test_a_stored_file_opens_verifies_and_resumes(name: str, tmp_path: Path) -> None:
    path = stored(tmp_path, f"{name}.h5")
    facts = info(path)
    assert facts["state_sha256"] == DIGESTS[name] and facts["complete"] is True and facts["format_version"] == 5
    with open_run(path) as run:
        run.check_all()
        generations, logged = run.generations, {array: run[array][:].tobytes() for array in run}
        assert all(len(run[array]) == generations for array in run)
        other = differences(run, 0)
    said = ees("verify", path)
    if said.returncode == 0:
        assert "the same bits" in said.stdout
    else:  # the difference of the machines is named
        assert other and all(difference in said.stderr for difference in other), said.stderr
    if name != "sample":
        resumes(path, generations, logged, DIGESTS[name])
    if said.returncode:
        pytest.skip(f"opened and resumed, but its bits were not compared: {other[0]}")


def resumes(path: Path, generations: int, logged: dict[str, bytes], digest: str) -> None:
    """Train one more generation, and compare those before it."""
    done("resume", path, "--generations", generations + 1)
    with open_run(path) as run:
        run.check_all()
        assert run.generations == generations + 1 and run.complete
        assert {array: run[array][:-1].tobytes() for array in logged} == logged
        assert run["state_sha256"][-2].decode() == digest


@pytest.mark.slow
def test_a_killed_run_is_read_with_its_journal_repaired_and_resumed(tmp_path: Path) -> None:
    path = stored(tmp_path, "killed.h5", "killed.h5.journal")
    with h5py.File(path) as file:
        folded = len(file["generations/behavior"])
    with open_run(path) as run:
        committed = run.generations
        logged = {array: run[array][:].tobytes() for array in run}
        digest = run["state_sha256"][-1].decode()
    assert committed > folded  # the others are in the journal
    done("repair", path)
    assert [each.name for each in tmp_path.iterdir()] == ["killed.h5"]
    with open_run(path) as run:
        assert {array: run[array][:].tobytes() for array in run} == logged and not run.journal_records
    assert info(path)["state_sha256"] == digest
    done("resume", path, "--generations", committed + 1)
    assert info(path)["generations"] == committed + 1


def test_a_sample_of_a_maml_run_has_no_gradient_step(tmp_path: Path) -> None:
    run, sample = stored(tmp_path, "maml.h5"), tmp_path / "sample.h5"
    done("sample", run, "--count", 4, "--std", 0.02, "--out", sample)
    done("verify", sample)
    done("export", run, "--policy", "-o", tmp_path / "policy.npz")
    assert info(sample)["state_sha256"] == DIGESTS["maml-sample"]
    code, line = refusal("adapt", sample, "--direction", "left", "--out", tmp_path / "out.h5")
    assert code == 3 and "is a sample of a maml run; adapt the run itself" in line
