"""Every update follows from the logged outcomes: `verify --updates` computes them again and notices any change."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.outcomes import outcomes
from support.program import done, refusal, train
from support.run_files import edited, stored

from ees_mpi import machine
from ees_mpi.commands.verify import compare_bits, compare_distributions
from ees_mpi.errors import MissingExtra, VerifyError

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


@pytest.mark.parametrize(("number", "code", "words"), [(np.inf, 3, "not finite"), (1e308, 1, "does not follow")])
def test_numbers_that_no_rollout_has_are_found(number: float, code: int, words: str, tmp_path: Path) -> None:
    run = train(tmp_path / "run.h5")
    with edited(run) as file:
        file["generations/behavior"][1, 3:5, 0] = number
    found, line = refusal("verify", run, "--updates")
    assert found == code and "generation 1" in line and words in line


def test_a_generation_without_a_valid_rollout_is_refused(copied: Path) -> None:
    with edited(copied) as file:
        file["generations/valid"][1] = 0
    code, line = refusal("verify", copied, "--updates")
    assert code == 3 and "generation 1 has no valid rollout" in line


def test_observation_sums_that_are_changed_or_gone_are_found(tmp_path: Path) -> None:
    run = train(tmp_path / "run.h5", "cheetah-maxent", *WALKING, "task.observation_share=0.5")
    assert "computed again from the logged outcomes: the same states" in done("verify", run, "--updates").stdout
    with edited(run) as file:
        file["generations/observation_sums"][2, 1] += 1.0
    assert "the update of generation 1" in refusal("verify", run, "--updates")[1]
    with edited(run) as file:
        del file["generations/observation_sums"]
    assert "it has no generations/observation_sums" in refusal("verify", run, "--updates")[1]


@pytest.mark.parametrize(
    ("name", "code", "words"), [("maml", 2, "rollouts that files do not keep"), ("sample", 3, "no update")]
)
def test_maml_and_samples_are_refused(name: str, code: int, words: str, tmp_path: Path) -> None:
    run = stored(tmp_path, f"{name}.h5")
    for command in (["verify", run, "--updates"], ["signal", run]):
        found, line = refusal(*command)
        assert found == code and words in line
    assert refusal("verify", run, "--updates", "--generation", 0)[0] == 2


def test_the_distribution_test_finds_a_shift_and_nothing_else() -> None:
    one, nobody = outcomes(1000, 2), outcomes(1000, 2, invalid=tuple(range(1000)))
    compare_distributions("behaviours", one, one)
    compare_distributions("behaviours", nobody, nobody)
    with pytest.raises(VerifyError, match=r"distributed otherwise .* \(number 0, 1000 individuals"):
        compare_distributions("behaviours", one, replace(one, behavior=one.behavior + 0.4 * one.behavior.std()))
    with pytest.raises(VerifyError, match="distributed otherwise"):
        compare_distributions("behaviours", nobody, replace(nobody, valid=np.arange(1000) < 2))


def test_without_scipy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(MissingExtra, match=r"scipy: pip install 'ees_mpi\[analysis\]'"):
        compare_distributions("behaviours", outcomes(10, 2), outcomes(10, 2))


def test_another_share_of_valid_rollouts_is_found() -> None:
    logged, same, other = (outcomes(1000, 2, invalid=tuple(range(0, 1000, step))) for step in (50, 50, 10))
    compare_distributions("behaviours", logged, same)
    with pytest.raises(VerifyError, match="980 of 1000 are valid in the file, and 900 when"):
        compare_distributions("behaviours", logged, other)


def test_bits_of_a_gpu_must_repeat_on_the_same_kind_and_a_difference_to_another_kind_is_named() -> None:
    logged = outcomes(10, 2, invalid=(3,))
    other = replace(logged, behavior=logged.behavior + np.eye(10, 2)[::-1] * 1e-12)
    here = {"gpu": "NVIDIA H200", "gpu_driver": "1", "warp": "1.19"}
    assert compare_bits("g", logged, logged, here, {"gpu": "NVIDIA A100"}) == ""
    with pytest.raises(VerifyError, match="2 of 10 individuals have other bits on the same kind of GPU"):
        compare_bits("g", logged, other, here, dict(here))
    older = compare_bits("g", logged, other, {**here, "gpu_kernels": machine.GPU_KERNELS}, here)
    assert f"gpu_kernels is {machine.GPU_KERNELS!r} here and '1' there" in older
    reason = compare_bits("g", logged, other, here, {**here, "gpu": "NVIDIA A100"})
    assert "gpu is 'NVIDIA H200' here and 'NVIDIA A100' there" in reason
    assert "does not name its GPU" in compare_bits("g", logged, other, here, {})


def test_the_behaviours_from_each_start_are_compared_on_a_gpu_too() -> None:
    logged = outcomes(1000, 2)
    by_start = np.random.default_rng(1).normal(size=(1000, 3, 2))
    shift = np.array([[0, 0], [0, 0.4], [0, 0]])
    one, other = replace(logged, by_start=by_start), replace(logged, by_start=by_start + shift)
    here = {"gpu": "NVIDIA H200"}
    assert compare_bits("g", one, one, here, here) == ""
    with pytest.raises(VerifyError, match="1000 of 1000 individuals have other bits"):
        compare_bits("g", one, other, here, here)
    without = replace(logged, by_start=None)  # a file whose writer did not keep them
    assert compare_bits("g", without, one, here, here) == ""
    compare_distributions("behaviours", without, one)
    compare_distributions("behaviours", one, one)
    with pytest.raises(VerifyError, match="number 1 from start 1"):
        compare_distributions("behaviours", one, other)
