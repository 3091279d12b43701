"""Small files of format 2 and 3, of the same configs: they open, resume, verify and compare.

They were made on x86-64 with AVX-512. On another kind of CPU `verify` names the difference instead of comparing bits.
The adaptation files are older.
"""

import gzip
import json
from pathlib import Path

import h5py
import pytest
from support.program import TESTS, done, ees, info, refusal

from ees_mpi import open_run
from ees_mpi.commands.verify import differences

DATA = TESTS / "data"
DIGESTS = dict(line.split() for line in (DATA / "digests.txt").read_text().splitlines())
RUNS = ("interference", "cheetah", "mixture", "blend", "mujoco", "maml")
SAMPLES = ("sample", "maml-sample")
FORMATS = (2, 3)


def unpacked(folder: Path, version: int, *names: str) -> Path:
    """Unpack stored files of a format into a folder; return the path of the first."""
    for name in names:
        (folder / name).write_bytes(gzip.decompress((DATA / f"format{version}" / f"{name}.gz").read_bytes()))
    return folder / names[0]


@pytest.fixture(scope="module", params=FORMATS)
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """All stored files that have no journal; tests do not change them."""
    place = tmp_path_factory.mktemp("older")
    unpacked(place, request.param, *(f"{name}.h5" for name in (*RUNS, *SAMPLES)))
    for name in ("adapt.h5", "maml-adapt.h5"):
        (place / name).write_bytes(gzip.decompress((DATA / f"{name}.gz").read_bytes()))
    return place


def test_every_stored_run_and_sample_has_its_digest() -> None:
    assert set(DIGESTS) == {*RUNS, *SAMPLES}


@pytest.mark.parametrize("name", [*RUNS, *SAMPLES])
def test_an_older_file_opens_and_has_the_state_that_was_noted(name: str, folder: Path) -> None:
    facts = info(folder / f"{name}.h5")
    assert facts["state_sha256"] == DIGESTS[name] and facts["complete"] is True
    with open_run(folder / f"{name}.h5") as run:
        run.check_all()
        assert all(len(run[array]) == run.generations for array in run.names)


@pytest.mark.parametrize(("version", "name"), [(2, name) for name in RUNS] + [(3, "interference"), (3, "maml")])
def test_a_run_resumes_for_one_more_generation_and_keeps_its_format(version: int, name: str, tmp_path: Path) -> None:
    path = unpacked(tmp_path, version, f"{name}.h5")
    before = info(path)
    with open_run(path) as run:
        logged = {array: run[array][:].tobytes() for array in run.names}
    done("resume", path, "--generations", int(str(before["generations"])) + 1)
    after = info(path)
    assert after["generations"] == int(str(before["generations"])) + 1 and after["complete"] is True
    assert before["format_version"] == after["format_version"] == version
    with open_run(path) as run:
        run.check_all()
        assert {array: run[array][:-1].tobytes() for array in logged} == logged
        assert run["state_sha256"][-2].decode() == DIGESTS[name]


@pytest.mark.parametrize("name", [*RUNS, *SAMPLES])
def test_an_older_file_verifies_or_the_difference_of_the_machines_is_named(name: str, folder: Path) -> None:
    path = folder / f"{name}.h5"
    with open_run(path) as run:
        other = differences(run, 0)
    said = ees("verify", path)
    if said.returncode == 0:
        assert "the same bits" in said.stdout
    else:
        assert other and all(difference in said.stderr for difference in other), said.stderr


def test_older_samples_are_measured_and_compared(folder: Path) -> None:
    (row,) = json.loads(done("metrics", folder / "sample.h5", "--json").stdout)
    with h5py.File(folder / "sample.h5") as file:
        assert row["individuals"] == file["generations/valid"][0].sum()
    files = ["--metric", "distance_mean", folder / "sample.h5", "--against", folder / "maml-sample.h5"]
    (found,) = json.loads(done("compare", *files, "--json").stdout)
    assert [group["runs"] for group in found["groups"]] == [1, 1] and found["groups"][1]["label"] == "MAML"


def test_a_sample_of_a_maml_run_has_no_gradient_step(folder: Path, tmp_path: Path) -> None:
    code, line = refusal("adapt", folder / "maml-sample.h5", "--direction", "left", "--out", tmp_path / "out.h5")
    assert code == 3 and "is a sample of a maml run; adapt the run itself" in line


def test_older_adaptations_are_compared(folder: Path) -> None:
    files = ["--metric", "adaptation", folder / "adapt.h5", "--against", folder / "maml-adapt.h5"]
    (found,) = json.loads(done("compare", *files, "--json").stdout)
    for group, name in zip(found["groups"], ("adapt", "maml-adapt"), strict=True):
        with h5py.File(folder / f"{name}.h5") as file:
            assert group["median"] == pytest.approx(file["evaluations/fitness"][:].mean())


@pytest.mark.parametrize("version", FORMATS)
def test_a_killed_run_is_read_with_its_journal_repaired_and_resumed(version: int, tmp_path: Path) -> None:
    path = unpacked(tmp_path, version, "killed.h5", "killed.h5.journal")
    with h5py.File(path) as file:
        folded = len(file["generations/behavior"])
    with open_run(path) as run:
        committed = run.generations
        logged = {array: run[array][:].tobytes() for array in run.names}
        digest = run["state_sha256"][-1].decode()
    assert committed > folded  # the others are in the journal
    done("repair", path)
    assert [each.name for each in tmp_path.iterdir()] == ["killed.h5"]
    with open_run(path) as run:
        assert {array: run[array][:].tobytes() for array in run.names} == logged and not run.journal_records
    assert info(path)["state_sha256"] == digest
    done("resume", path, "--generations", committed + 1)
    assert info(path)["generations"] == committed + 1 and info(path)["format_version"] == version


def test_a_file_of_format_1_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = unpacked(tmp_path, 2, "interference.h5")
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = 1
    code, line = refusal("info", path)
    assert code == 3 and "has format 1; this version of ees_mpi reads 2 to 3" in line
