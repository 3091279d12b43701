"""Figures from small real run files."""

from pathlib import Path

import pytest
from conftest import ees

SMALL = ["population.size=6", "task.steps=8", "noise.size=100000", "run.generations=3"]
SETS = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("walked")
    paths = {name: folder / f"{name}.h5" for name in ("cheetah", "ant", "random", "seeded")}
    assert ees("train", "cheetah-maxent", *SETS, "--out", paths["cheetah"]).returncode == 0
    assert ees("train", "ant-maxent", *SETS, "--out", paths["ant"]).returncode == 0
    assert ees("train", "ant-adapt", *SETS, "--out", paths["random"]).returncode == 0
    assert ees("train", "ant-adapt", *SETS, "--from", paths["ant"], "--out", paths["seeded"]).returncode == 0
    return paths


def test_the_spread_of_behaviors_over_generations(walked: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "spread.png"
    done = ees("figure", "cheetah", walked["cheetah"], walked["cheetah"], "-o", out)
    assert done.returncode == 0 and out.stat().st_size > 5000, done.stderr
    done = ees("figure", "cheetah", walked["ant"], "-o", tmp_path / "other.png")
    assert done.returncode == 3 and "behavior of one number" in done.stderr and not (tmp_path / "other.png").exists()


def test_adaptation_from_trained_and_random_means(walked: dict[str, Path], finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "adaptation.svg"
    done = ees("figure", "adaptation", walked["random"], walked["seeded"], "-o", out)
    assert done.returncode == 0, done.stderr
    assert "trained" not in out.name and out.stat().st_size > 5000
    done = ees("figure", "adaptation", finished, "-o", tmp_path / "other.png")
    assert done.returncode == 3 and "direction" in done.stderr


def test_a_figure_from_nothing_needs_no_run_files_and_others_do(tmp_path: Path) -> None:
    assert ees("figure", "feasibility", "-o", tmp_path / "f.png").returncode == 0
    done = ees("figure", "interference", "-o", tmp_path / "i.png")
    assert done.returncode == 2 and "needs runs of interference" in done.stderr
