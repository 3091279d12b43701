"""One robot in two engines: commands that change the engine, and files that record both."""

from pathlib import Path
from typing import Any

import pytest
from support.program import done
from support.run_files import assert_same_bits

import ees_mpi
from ees_mpi import config
from ees_mpi.analysis.labels import label
from ees_mpi.commands.adapt import read_adaptation
from ees_mpi.commands.info import read
from ees_mpi.errors import ConfigError

pytest.importorskip("mujoco")
pytest.importorskip("pybullet")
SMALL = {"population.size": 4, "noise.size": 3000, "run.generations": 1, "task.steps": 3, "task.hidden": [4]}
REPLICA = {"task.engine": "mujoco", "task.device": "cpu"}
BULLET = {"task.engine": "bullet"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engines") / "run.h5"
    ees_mpi.train("cheetah-maxent", path, settings={**SMALL, **REPLICA}).close()
    return path


@pytest.mark.slow
def test_sample_measure_and_adapt_in_the_other_engine_record_both(trained: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.h5" for name in ("sample", "measure", "adapt", "from")]
    with ees_mpi.sample(trained, 2, paths[0], settings=BULLET) as sample:
        assert label(sample) == "MaxEnt-EES (Bullet; trained in Bullet replica in MuJoCo)"
        assert "device" not in sample.config.sections()["task"]
    ees_mpi.measure(trained, std=0.1, count=2, out=paths[1], settings=BULLET).close()
    adapted = ees_mpi.adapt(trained, "left", paths[2], mutations=2, evaluations=1, settings=BULLET)
    assert adapted.attributes["direction"] == 180 and len(adapted.fitness) == 1
    ees_mpi.train("cheetah-maxent", paths[3], settings=SMALL, start=trained).close()
    for facts in map(read, paths):
        note = facts["of_run"] if "of_run" in facts else facts["started_from"]
        assert (facts["engine"], note["engine"]) == ("bullet", "mujoco")  # of the evaluation and of the run
    with ees_mpi.open_run(trained) as run, ees_mpi.sample(run, 2, tmp_path / "same.h5", generation=-1) as same:
        assert label(same) == "MaxEnt-EES (Bullet replica in MuJoCo)" and "sample of" in repr(same)
    done("sample", trained, "--count", 2, "--generation", -1, "--out", tmp_path / "command.h5")
    assert_same_bits(tmp_path / "command.h5", tmp_path / "same.h5")
    words = ("--direction", "left", "--mutations", 2, "--evaluations", 1, "--set", "task.engine=bullet")
    done("adapt", trained, *words, "--out", tmp_path / "adapted.h5")
    bits = [
        {name: array.tobytes() for name, array in found.arrays.items()}
        for found in (adapted, read_adaptation(tmp_path / "adapted.h5"))
    ]
    assert bits[0] == bits[1]


@pytest.mark.parametrize(
    "settings", [{"task.steps": 5}, {"population.std": 1.0}, {"task.engine": "mujoco", "run.seed": 1}]
)
def test_a_sample_changes_only_engine_and_device(settings: dict[str, Any], trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected task\.engine or task\.device; all other keys are the run's"):
        ees_mpi.sample(trained, 2, tmp_path / "sample.h5", settings=settings)
    with pytest.raises(ConfigError, match=r"expected task\.engine or task\.device"):
        ees_mpi.adapt(trained, "left", tmp_path / "adapt.h5", settings=settings)
    assert not list(tmp_path.iterdir())


def test_another_engine_drops_the_device_and_says_so() -> None:
    changed = config.parse(config.load("ant-maxent", ["task.engine=mujoco"]).to_toml(), ["task.engine=bullet"])
    assert changed.task.device is None and changed.notes == (
        "task.engine=bullet drops task.device, which it does not have",
    )
