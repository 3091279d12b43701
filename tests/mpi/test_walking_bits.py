"""The walking tasks: the same bits for any number of ranks, through resume, and on re-evaluation."""

from pathlib import Path

import pytest
from conftest import ees, info
from runfiles import assert_same_bits

SMALL = ["population.size=10", "task.steps=25", "noise.size=200000", "run.generations=4", "run.evaluate_mean_every=2"]
SMALL += ["task.observation_share=0.4"]


def walk(out: Path, preset: str, *more: str, ranks: int = 0) -> Path:
    sets = [word for setting in (*SMALL, *more) for word in ("--set", setting)]
    done = ees("train", preset, *sets, "--out", out, ranks=ranks)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module", params=["cheetah-maxent", "ant-maxvar"])
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, walk(tmp_path_factory.mktemp("alone") / "alone.h5", request.param)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_same_bits_for_any_number_of_ranks(ranks: int, alone: tuple[str, Path], tmp_path: Path) -> None:
    preset, reference = alone
    assert_same_bits(walk(tmp_path / "run.h5", preset, ranks=ranks), reference)


def test_same_bits_through_resume_and_verified_with_other_ranks(alone: tuple[str, Path], tmp_path: Path) -> None:
    preset, reference = alone
    path = walk(tmp_path / "run.h5", preset, "run.generations=2", ranks=3)
    assert ees("resume", path, "--generations", 4, ranks=2).returncode == 0
    assert_same_bits(path, reference)
    assert ees("verify", path, ranks=3).returncode == 0
    assert ees("verify", path).returncode == 0
    assert info(path)["steps"] == 4 * 10 * 25


def test_mujoco_too(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    preset = "mujoco-cheetah-maxent-laptop"
    paths = [walk(tmp_path / f"{ranks}.h5", preset, ranks=ranks) for ranks in (1, 3)]
    assert_same_bits(*paths)
    assert ees("verify", paths[0], ranks=2).returncode == 0


def test_training_on_a_robot_is_silent_but_for_our_own_lines(tmp_path: Path) -> None:
    sets = [word for setting in SMALL for word in ("--set", setting)]
    done = ees("train", "ant-maxent", *sets, "--out", tmp_path / "run.h5", ranks=2)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[1].startswith("generation 4/4")
