"""The same bits for any number of ranks and any number of interruptions."""

from pathlib import Path

import pytest
from conftest import ees, info, train
from runfiles import assert_same_bits


@pytest.fixture(scope="module", params=["interference-maxvar", "interference-maxent"])
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("alone")
    return request.param, train(folder / "alone.h5", request.param, "population.size=70", "run.generations=12")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_same_bits_for_any_number_of_ranks(ranks: int, alone: tuple[str, Path], tmp_path: Path) -> None:
    preset, reference = alone
    path = train(tmp_path / "run.h5", preset, "population.size=70", "run.generations=12", ranks=ranks)
    assert info(path)["ranks"] == ranks
    assert info(path)["state_sha256"] == info(reference)["state_sha256"]
    assert_same_bits(path, reference)


def test_same_bits_in_three_parts_each_with_another_number_of_ranks(alone: tuple[str, Path], tmp_path: Path) -> None:
    preset, reference = alone
    path = train(tmp_path / "run.h5", preset, "population.size=70", "run.generations=5", ranks=2)
    assert ees("resume", path, "--generations", 8, ranks=3).returncode == 0
    assert ees("resume", path, "--generations", 12, ranks=1).returncode == 0
    assert_same_bits(path, reference)
    assert info(path)["sessions"] == 3


def test_verify_passes_with_another_number_of_ranks(alone: tuple[str, Path]) -> None:
    done = ees("verify", alone[1], ranks=3)
    assert done.returncode == 0 and "the same bits" in done.stdout


def test_adam_and_standard_es_too(tmp_path: Path) -> None:
    settings = ("optimizer.name=adam", "optimizer.l2=0.05", "objective.name=fitness")
    paths = [train(tmp_path / f"{n}.h5", "interference-maxvar", *settings, ranks=n) for n in (1, 3)]
    assert_same_bits(*paths)


def test_more_ranks_than_individuals_are_allowed_and_the_idle_ones_named(tmp_path: Path) -> None:
    sets = ["--set", "population.size=4", "--set", "run.generations=3", "--set", "noise.size=100"]
    done = ees("train", "interference-maxent", *sets, "--out", tmp_path / "run.h5", ranks=6)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 of 6 ranks have nothing to evaluate (ranks 4 to 5)") == 1


def test_same_bits_at_75272_parameters_and_2000_individuals(tmp_path: Path) -> None:
    settings = ["population.size=2000", "task.steps=1", "noise.size=2000000", "run.generations=2"]
    sets = [word for setting in settings for word in ("--set", setting)]
    digests = set()
    for ranks in (1, 2, 3, 5):
        out = tmp_path / f"{ranks}.h5"
        assert ees("train", "ant-maxent", *sets, "--out", out, ranks=ranks).returncode == 0
        assert info(out)["parameters"] == 75_272
        digests.add(info(out)["state_sha256"])
    assert len(digests) == 1
