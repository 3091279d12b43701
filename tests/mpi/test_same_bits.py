"""The same bits for any number of ranks and any number of interruptions."""

from pathlib import Path

import pytest
from support.program import done, info, sets, train
from support.run_files import assert_same_bits

pytestmark = pytest.mark.standing_ranks

SIZE = ("population.size=70", "run.generations=12")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs without MPI, by objective."""
    folder = tmp_path_factory.mktemp("alone")
    names = ("maxvar", "maxent")
    return {name: train(folder / f"{name}.h5", f"interference-{name}", *SIZE) for name in names}


@pytest.mark.parametrize(("objective", "ranks"), [("maxvar", 3), ("maxent", 2)])
def test_same_bits_for_any_number_of_ranks(objective: str, ranks: int, alone: dict[str, Path], tmp_path: Path) -> None:
    path = train(tmp_path / "run.h5", f"interference-{objective}", *SIZE, ranks=ranks)
    assert info(path)["ranks"] == ranks
    assert info(path)["state_sha256"] == info(alone[objective])["state_sha256"]
    assert_same_bits(path, alone[objective])


def test_same_bits_in_three_parts_each_with_another_number_of_ranks(alone: dict[str, Path], tmp_path: Path) -> None:
    path = train(tmp_path / "run.h5", "interference-maxent", *SIZE, "run.generations=5", ranks=2)
    done("resume", path, "--generations", 8, ranks=3)
    done("resume", path, "--generations", 12, ranks=0)
    assert_same_bits(path, alone["maxent"])
    assert info(path)["sessions"] == 3


def test_verify_passes_with_another_number_of_ranks(alone: dict[str, Path]) -> None:
    assert "the same bits" in done("verify", alone["maxent"], ranks=3).stdout


def test_same_bits_with_adam_and_standard_es(tmp_path: Path) -> None:
    settings = ("optimizer.name=adam", "optimizer.l2=0.05", "objective.name=fitness")
    paths = [train(tmp_path / f"{n}.h5", "interference-maxvar", *settings, ranks=n) for n in (None, 3)]
    assert_same_bits(*paths)


def test_idle_ranks_are_named(tmp_path: Path) -> None:
    small = sets("population.size=2", "run.generations=3", "noise.size=101")
    finished = done("train", "interference-maxent", *small, "--out", tmp_path / "few.h5", ranks=3)
    assert finished.stdout.count("1 of 3 ranks have nothing to evaluate") == 1


@pytest.mark.slow
def test_same_bits_at_75272_parameters(tmp_path: Path) -> None:
    settings = sets("population.size=60", "task.steps=1", "noise.size=2000000", "run.generations=2")
    paths = []
    for ranks in (None, 3):
        paths.append(tmp_path / f"{ranks}.h5")
        done("train", "ant-maxent", *settings, "--out", paths[-1], ranks=ranks)
    assert info(paths[0])["parameters"] == 75_272
    assert_same_bits(*paths)
    assert done("signal", paths[0], "--json", ranks=3).stdout == done("signal", paths[0], "--json").stdout
