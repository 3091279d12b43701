"""The trained means of the package have names: `shelf:NAME` stands for the path of a policy."""

from pathlib import Path

import pytest
from support.program import done, ees, refused, sets

import ees_mpi
from ees_mpi.commands import arguments, shelf
from ees_mpi.commands.requests import MeasureRequest

ANT = "gymnasium-ant-maxent"


def test_every_trained_mean_is_listed_with_a_line_and_has_a_card() -> None:
    found = {path.stem for path in shelf.TRAINED.glob("*.npz")}
    assert set(shelf.trained_means()) == found and len(found) >= 6 and all(shelf.trained_means().values())
    assert {path.stem for path in shelf.TRAINED.glob("*.md")} == {"README", *found}
    assert ees_mpi.shelf(ANT) == shelf.TRAINED / f"{ANT}.npz"


@pytest.mark.parametrize(
    "words",
    [
        ("measure", "shelf:no-such"),
        ("replay", "shelf:no-such"),
        ("sample", "shelf:no-such"),
        ("adapt", "shelf:no-such", "--direction", "left"),
        ("train", "ant-es", "--from", "shelf:no-such"),
        ("train", "ant-es", "--from", "shelf:"),
    ],
)
def test_a_wrong_name_lists_all_of_them_with_a_line_each(words: tuple[str, ...]) -> None:
    failed = ees(*words)
    said = failed.stderr
    assert failed.returncode == 2 and all(
        f"shelf:{name}" in said and line in said for name, line in shelf.trained_means().items()
    )
    with pytest.raises(ees_mpi.ConfigError, match=ANT):
        ees_mpi.shelf("no-such")


def test_a_name_stands_for_the_path_also_in_python(inside: Path) -> None:
    (inside / f"shelf:{ANT}").write_text("the name is reserved: this file is not read")
    path = shelf.TRAINED / f"{ANT}.npz"
    assert arguments.path_of(f"shelf:{ANT}") == path == arguments.path_of(path)
    assert arguments.checked(MeasureRequest(f"shelf:{ANT}")).policy == str(path)


def test_no_output_has_a_reserved_name() -> None:
    code, said = refused("train", "interference-maxvar", "--out", "shelf:mine.h5")
    assert code == 2 and "reserved" in said and "shelf:mine.h5" in said


def test_outputs_of_a_trained_mean_are_written_here_and_not_into_the_package(inside: Path) -> None:
    path = ees_mpi.shelf(ANT)
    assert arguments.checked(MeasureRequest(f"shelf:{ANT}")).target == Path(f"{ANT}-measure.h5")
    assert shelf.output_beside(path, "-sample.h5") == Path(f"{ANT}-sample.h5")
    assert shelf.output_beside(Path("runs/a.h5"), "-sample.h5") == Path("runs/a-sample.h5")


@pytest.mark.slow
def test_measure_sample_and_train_take_a_name_and_write_here(inside: Path) -> None:
    pytest.importorskip("mujoco", exc_type=ImportError)
    mean = "cheetah-maxent-released-seed7"  # its noise table is small
    name, before = f"shelf:{mean}", {path.name for path in shelf.TRAINED.iterdir()}
    said = done("measure", name, "--count", 2, "--std", 0.02, *sets("task.steps=5", "noise.size=300000")).stdout
    assert f"2 offspring of {name} at" in said
    done("sample", name, "--count", 2)
    small = sets("population.size=2", "task.steps=5", "noise.size=300000", "task.engine=mujoco", "task.device=cpu")
    done("train", "cheetah-es", "--from", name, "--generations", 1, *small, "--out", "run.h5")
    assert {path.name for path in shelf.TRAINED.iterdir()} == before
    assert {path.name for path in inside.iterdir()} == {
        *(f"{mean}-{what}.h5" for what in ("measure", "sample")),
        *(f"{mean}-measure.png", "run.h5"),
    }
