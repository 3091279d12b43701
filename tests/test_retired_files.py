"""Run files of version 0.2.0 of parts that have left the package: they are read and rebuilt, and no more."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from support.program import TESTS, done, info, refused, sets
from support.run_files import stored

import ees_mpi
from ees_mpi import open_run
from ees_mpi.errors import ConfigError, RunFileError

DIGESTS = dict(line.split() for line in (TESTS / "data" / "digests.txt").read_text().splitlines())
KINDS = {  # the file, and the setting that its refusals name
    "nsr": 'objective.name = "nsr"',
    "quality": 'objective.name = "quality"',
    "es-maml": 'method = "es-maml"',
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def old(kind: str, tmp_path: Path) -> Path:
    return stored(tmp_path, f"{kind}.h5", place="retired")


@each_kind
def test_an_old_file_is_read_and_its_individuals_are_rebuilt_bit_by_bit(kind: str, old: Path) -> None:
    facts = info(old)
    assert (facts["objective"], facts["state_sha256"], facts["complete"]) == (kind, DIGESTS[kind], True)
    with open_run(old) as run:
        run.check_all()
        size = run.config.population.size
        rebuilt = [run.individual(g, index).tobytes() for g in range(run.generations) for index in range(size)]
        assert hashlib.sha256(b"".join(rebuilt)).hexdigest() == DIGESTS[f"{kind}-individuals"]
        if kind == "nsr":
            np.testing.assert_array_equal(run["sign"][1][:3], 0)
            np.testing.assert_array_equal(run.individual(1, 2), run["mean"][1][2])
        if kind == "es-maml":
            assert facts["evaluations"] == 3 * 6 * 4  # with those of the climbs
        text = done("config", old).stdout
        assert all(f"{key}" in text for key in run.config.sections())


@each_kind
@pytest.mark.usefixtures("quick_figures")
def test_an_old_file_has_its_numbers_figures_offspring_and_policies(kind: str, old: Path, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    done("metrics", old)
    done("export", old, "--csv", "-o", tmp_path / "table.csv")
    component = ("--component", 1) if kind == "nsr" else ()
    policy = tmp_path / "policy.npz"
    done("export", old, "--policy", *component, "-o", policy)
    done("sample", old, "--count", 4, *component, "--out", tmp_path / "sample.h5")
    assert "the same bits" in done("verify", tmp_path / "sample.h5").stdout
    done("measure", policy, "--count", 4, "--std", 0.02, "--out", tmp_path / "measured.h5")
    done("replay", old, "--mean")
    means = sets("population.name=mixture", "population.components=3") if kind == "nsr" else []
    task = sets("task.engine=mujoco", "task.device=cpu", "task.steps=4", "task.hidden=[2]", "noise.size=2000")
    small = sets("population.size=4", "run.generations=1")
    done("train", "cheetah-maxvar", *means, *task, *small, "--from", old, "--out", tmp_path / "next.h5")
    assert info(tmp_path / "next.h5")["started_from"]


@pytest.mark.slow
@each_kind
def test_an_old_file_has_figures_and_a_report(kind: str, old: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done("figure", "line", old, "-o", tmp_path / "line.png")
    done("figure", "locomotion", old, "-o", tmp_path / "locomotion.png")
    done("report", old, "-o", tmp_path / "report.html")
    if kind != "quality":  # its individuals can be filmed, where there is a screen
        assert "No pictures: " in (tmp_path / "report.html").read_text()


@each_kind
@pytest.mark.parametrize(
    "words",
    [
        ("resume", "FILE"),
        ("resume", "FILE", "--generations", 5),
        ("verify", "FILE"),
        ("verify", "FILE", "--updates"),
        ("adapt", "FILE", "--direction", "left"),
        ("adapt", "FILE", "--direction", "left", "--mutations", 5),
        ("signal", "FILE"),
        ("figure", "signal", "FILE"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_what_needs_the_old_parts_is_refused_with_3_and_names_the_version(
    kind: str, words: tuple[object, ...], old: Path, tmp_path: Path
) -> None:
    before = old.read_bytes()
    code, line = refused(*(old if word == "FILE" else word for word in words))
    assert code == 3 and KINDS[kind] in line and "needs version 0.2.0" in line
    assert [path.name for path in tmp_path.iterdir()] == [old.name] and old.read_bytes() == before


@pytest.mark.parametrize("kind", ["nsr", "es-maml"])
def test_individuals_whose_rollouts_were_others_are_not_replayed(kind: str, old: Path) -> None:
    code, line = refused("replay", old, "--individual", 4)
    assert code == 3 and KINDS[kind] in line and "needs version 0.2.0" in line


@pytest.mark.parametrize("kind", ["quality"])
def test_individuals_of_ordinary_rollouts_are_replayed(kind: str, old: Path) -> None:
    pytest.importorskip("mujoco")
    assert "generation 2, individual 4" in done("replay", old, "--individual", 4).stdout


@each_kind
def test_the_config_of_an_old_file_begins_no_run(kind: str, old: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"needs version 0\.2\.0"):
        ees_mpi.train(old, out=tmp_path / "new.h5")
    with pytest.raises(RunFileError, match=r"needs version 0\.2\.0"):
        ees_mpi.train(old, resume=True)
    (tmp_path / "old.toml").write_text(done("config", old).stdout)
    code, line = refused("train", tmp_path / "old.toml", "--out", tmp_path / "new.h5")
    assert code == 2 and KINDS[kind] in line and "needs version 0.2.0" in line
    assert not (tmp_path / "new.h5").exists()


@pytest.mark.parametrize(
    "setting",
    [
        {"objective": {"name": "quality"}},
        {"objective": {"name": "blend", "parts": [{"name": "quality", "share": 1.0}]}},
        {"population": {"name": "chosen", "size": 11, "std": 0.1, "components": 3}},
    ],
)
def test_a_new_config_cannot_name_what_has_left(setting: dict[str, object]) -> None:
    base = {"task": {"name": "interference"}, "population": {"size": 10, "std": 0.1}, "objective": {"name": "maxvar"}}
    with pytest.raises(ConfigError, match=r"needs version 0\.2\.0"):
        ees_mpi.load_config({**base, **setting})


def test_what_has_left_is_listed_nowhere() -> None:
    listed = done("config", "--keys").stdout
    assert not any(name in listed for name in ("nsr", '"quality"', "chosen", "es-maml", "climbing"))


def test_an_old_adaptation_by_climbing_is_read(tmp_path: Path) -> None:
    path = stored(tmp_path, "es-maml-adapt.h5", place="retired")
    facts = info(path)
    assert facts["adapted_by"] == "climbing" and facts["evaluations"] == 2
