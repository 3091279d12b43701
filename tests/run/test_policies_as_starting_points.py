"""A policy that `export --policy` wrote is a starting point: what leaves a machine is enough to go on elsewhere."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import done, ees, info, sets
from support.run_files import assert_same_bits

from ees_mpi import open_run
from ees_mpi.run import starting_point

SMALL = sets("population.size=6", "task.steps=10", "noise.size=100000", "run.generations=2")


@pytest.fixture(scope="module")
def policy(walked: Path) -> Path:
    """The exported mean of that run."""
    out = walked.with_name("policy.npz")
    assert ees("export", walked, "--policy", "-o", out, "--overwrite").returncode == 0
    return out


def test_a_run_from_a_policy_has_the_bits_of_one_from_its_run(walked: Path, policy: Path, tmp_path: Path) -> None:
    for name, start in (("one", walked), ("other", policy)):
        done("train", "cheetah-es", *SMALL, "--from", start, "--out", tmp_path / f"{name}.h5")
    assert_same_bits(tmp_path / "one.h5", tmp_path / "other.h5")
    done(
        "train", "cheetah-es", *SMALL, "--from", policy, "--out", tmp_path / "one.h5", "--resume"
    )  # the note in the file names the same starting point
    assert info(tmp_path / "other.h5")["started_from"]["objective"] == "maxvar"


def test_a_sample_of_a_policy_has_the_bits_of_one_of_its_run(walked: Path, policy: Path, tmp_path: Path) -> None:
    for name, start in (("one", walked), ("other", policy)):
        done("sample", start, "--count", 4, "--out", tmp_path / f"{name}.h5")
    with open_run(tmp_path / "one.h5") as one, open_run(tmp_path / "other.h5") as other:
        assert one["behavior"][0].tobytes() == other["behavior"][0].tobytes()
        assert one.attributes["started_from"] == other.attributes["started_from"]
        assert json.loads(one.attributes["started_from"])["path"] == walked.name  # without its folder


def test_an_earlier_generation_passes_on_its_exact_observation_sums(walked: Path) -> None:
    with open_run(walked) as run:
        start, exact = starting_point.read(run, 1), run["observation_sums"][1]
        assert exact[0] > 0 and start.observations.tobytes() == exact.tobytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observation_sums": None}, "has no 'observation_sums'"),
        ({"layer1": np.zeros((3, 3), np.float32)}, "fit together"),
        ({"about": np.array("no JSON")}, "is not a policy"),
    ],
    ids=["no sums", "other layer", "no note"],
)
def test_a_damaged_policy_is_refused(policy: Path, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    damaged = tmp_path / "damaged.npz"
    with np.load(policy) as file:
        np.savez(damaged, **{name: array for name, array in {**file, **changes}.items() if array is not None})
    done = ees("train", "cheetah-es", *SMALL, "--from", damaged, "--out", tmp_path / "run.h5")
    assert done.returncode == 3 and message in done.stderr and not (tmp_path / "run.h5").exists()


def test_a_policy_of_another_network_is_refused(walked: Path, policy: Path, tmp_path: Path) -> None:
    other = sets("task.hidden=[256,255]")
    for start in (walked, policy):
        done = ees("train", "cheetah-es", "--from", start, *other, *SMALL, "--out", tmp_path / "run.h5")
        assert done.returncode == 2 and "another network or another task" in done.stderr, done.stderr
        assert "task.hidden = [256, 256]; this config has" in done.stderr and "task.hidden = [256, 255]:" in done.stderr


def test_a_policy_that_clips_its_observations_elsewhere_is_refused(walked: Path, policy: Path, tmp_path: Path) -> None:
    for start in (walked, policy):
        words = ("train", "cheetah-es", "--from", start, *sets("task.observation_clip=2"), *SMALL)
        found = ees(*words, "--out", tmp_path / "run.h5")
        assert found.returncode == 2 and "its network has 5.0, this config 2.0" in found.stderr
        assert "set task.observation_clip=5.0" in found.stderr
