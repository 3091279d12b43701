"""The trained means of the package have names: `shelf:NAME` stands for the path of a policy."""

from pathlib import Path

import pytest
from support.program import done, ees, refused, sets

import ees_mpi
from ees_mpi.commands import shelf

ANT = "gymnasium-ant-maxent"


def test_every_trained_mean_is_listed_with_a_line_and_has_a_card() -> None:
    found = {path.stem for path in shelf.TRAINED.glob("*.npz")}
    assert set(shelf.trained_means()) == found and len(found) >= 6 and all(shelf.trained_means().values())
    assert {path.stem for path in shelf.TRAINED.glob("*.md")} == {"README", *found}
    assert ees_mpi.shelf(ANT) == shelf.TRAINED / f"{ANT}.npz"


def test_a_wrong_name_lists_all_of_them_with_a_line_each() -> None:
    for words in (
        "measure shelf:no-such",
        "train ant-es --from shelf:",
        "config shelf:no-such",
        "figure shelf:no-such",
    ):
        failed, known = ees(*words.split()), shelf.trained_means()
        assert failed.returncode == 2
        assert all(f"shelf:{name}" in failed.stderr and line in failed.stderr for name, line in known.items())
    with pytest.raises(ees_mpi.ConfigError, match=ANT):
        ees_mpi.shelf("no-such")


def test_config_prints_the_config_of_a_trained_mean_and_info_its_card() -> None:
    config = ees_mpi.load_config(f"shelf:{ANT}", {"task.steps": 7})
    assert done("config", f"shelf:{ANT}", *sets("task.steps=7")).stdout == config.to_toml()
    assert config.task_name == "mujoco" and config.task.steps == 7  # type: ignore[attr-defined]
    assert done("info", f"shelf:{ANT}").stdout == ees_mpi.shelf(ANT).with_suffix(".md").read_text()


def test_commands_say_what_a_trained_mean_is_good_for(inside: Path) -> None:
    for words in ("info --json", "resume", "report", "export --policy", "figure"):
        command, *options = words.split()
        code, said = refused(command, f"shelf:{ANT}", *options)
        assert code == 3 and f"{ANT}.npz is a policy" in said and "expected a run file" in said and "`measure`" in said
    for command in ("train", "plan", "sweep"):
        code, said = refused(command, f"shelf:{ANT}")
        assert code == 2 and f"ees-mpi config shelf:{ANT}" in said and f"--from shelf:{ANT}" in said


@pytest.mark.slow
@pytest.mark.usefixtures("quick_figures")
def test_measure_sample_and_train_take_a_name_and_write_here(inside: Path) -> None:
    pytest.importorskip("mujoco", exc_type=ImportError)
    mean = "cheetah-maxent-released-seed7"  # its noise table is small
    name, before = f"shelf:{mean}", {path.name for path in shelf.TRAINED.iterdir()}
    said = done("measure", name, "--count", 2, "--std", 0.02, *sets("task.steps=5", "noise.size=300000")).stdout
    assert f"2 mutations of {name} at" in said
    done("sample", name, "--count", 2, *sets("task.engine=bullet"))  # whole rollouts, in the faster engine
    small = sets("population.size=2", "task.steps=5", "noise.size=300000", "task.engine=mujoco", "task.device=cpu")
    done("train", "cheetah-es", "--from", name, "--generations", 1, *small, "--out", "run.h5")
    assert {path.name for path in shelf.TRAINED.iterdir()} == before
    assert {path.name for path in inside.iterdir()} == {
        *(f"{mean}-{what}.h5" for what in ("measure", "sample")),
        *(f"{mean}-measure.png", "run.h5"),
    }
