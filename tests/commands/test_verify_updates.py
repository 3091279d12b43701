"""Metrics and updates follow from the logged outcomes: `verify` computes them again and notices any change."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import done, refusal, train
from support.run_files import edited, stored

WALKING = ("population.size=6", "task.steps=8", "task.hidden=[8,8]", "noise.size=100000", "run.generations=3")


@pytest.mark.parametrize(
    ("dataset", "place", "named"),
    [
        ("generations/behavior", (1, 3, 0), "generation 1"),
        ("generations/mean", (2, 0, 0), "generation 1"),
        ("generations/sign", (0, 2), "generation 0"),
        ("final/mean", (0, 0), "generation 5"),
    ],
)
def test_a_changed_number_is_found(dataset: str, place: tuple[int, ...], named: str, copied: Path) -> None:
    with edited(copied) as file:
        file[dataset][place] = -file[dataset][place]
    code, line = refusal("verify", copied, "--updates")
    assert code == 1 and f"the update of {named} does not follow from its logged outcomes" in line


@pytest.mark.parametrize(
    ("name", "words"), [("entropy", []), ("variance", ["--updates"]), ("gradient_norm", ["--updates"])]
)
def test_a_changed_metric_is_found(name: str, words: list[str], copied: Path) -> None:
    with edited(copied) as file:
        file["generations"][name][1] *= 1 + 1e-15
    code, line = refusal("verify", copied, *words)
    assert code == 1 and f"generation 1 has another {name} than its logged outcomes give" in line


def test_what_is_not_computed_again_is_named(copied: Path, tmp_path: Path) -> None:
    said = done("verify", copied).stdout
    assert "not checked without --updates: gradient_norm" in said
    assert "not checked: fitness_of_mean of other generations, times" in said
    said = done("verify", stored(tmp_path, "maml.h5")).stdout
    assert "gradient_norm, fitness_gain, divergence, surrogate_gain, shortened, times" in said


def test_a_changed_mean_and_changed_settings_of_metrics_are_found(copied: Path) -> None:
    with edited(copied) as file:
        settings = json.loads(file.attrs["metrics"])
        file.attrs["metrics"] = json.dumps({**settings, "bandwidth": 2.0})
    code, line = refusal("verify", copied)
    assert code == 1 and "its attribute metrics does not follow from its config" in line
    with edited(copied) as file:
        file["generations/fitness_of_mean"][0] += 1e-15
    code, line = refusal("verify", copied)
    assert code == 1 and "the mean of generation 0 gave another behaviour or fitness" in line


@pytest.mark.parametrize(
    ("name", "number", "code", "words"),
    [
        ("behavior", np.inf, 3, "not finite"),
        ("behavior", 1e308, 1, "does not follow"),
        ("valid", 0, 3, "no valid rollout"),
    ],
)
def test_numbers_that_no_rollout_has_are_found(name: str, number: float, code: int, words: str, copied: Path) -> None:
    with edited(copied) as file:
        file["generations"][name][1] = number
    found, line = refusal("verify", copied, "--updates")
    assert found == code and "generation 1" in line and words in line


def test_observation_sums_that_are_changed_or_gone_are_found(tmp_path: Path) -> None:
    run = train(tmp_path / "run.h5", "cheetah-maxent", *WALKING, "task.observation_share=0.5")
    assert "computed again from the logged outcomes: the same states" in done("verify", run, "--updates").stdout
    with edited(run) as file:
        file["generations/observation_sums"][2, 1] += 1.0
    assert "the update of generation 1" in refusal("verify", run, "--updates")[1]
    with h5py.File(run, "r+") as file:
        del file["generations/observation_sums"]
    assert "/generations has no observation_sums" in refusal("verify", run, "--updates")[1]


@pytest.mark.parametrize(
    ("name", "code", "words"), [("maml", 2, "rollouts that files do not keep"), ("sample", 3, "no update")]
)
def test_maml_and_samples_are_refused(name: str, code: int, words: str, tmp_path: Path) -> None:
    run = stored(tmp_path, f"{name}.h5")
    for command in (["verify", run, "--updates"], ["signal", run]):
        found, line = refusal(*command)
        assert found == code and words in line
    assert refusal("verify", run, "--updates", "--generation", 0)[0] == 2
