"""Objectives of the user's own in numpy: no torch, the weights of the same function in torch, clear errors."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.outcomes import outcomes
from support.program import TINY, done, info, sets, train

from ees_mpi import open_run
from ees_mpi.errors import ConfigError
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.custom import WeightsPlugin

OWN = "support.own_weights"


def own(name: str, **settings: float) -> WeightsPlugin:
    return WeightsPlugin(function=f"{OWN}:{name}", settings=settings)


def test_weights_are_the_numbers_of_the_function_over_n_with_mean_zero() -> None:
    given = outcomes(invalid=(3, 17))
    weights, memory = own("outermost", power=3.0).weights(given, {}, Ranks())
    f = np.linalg.norm(given.whitened, axis=1) ** 3.0
    np.testing.assert_allclose(weights[given.valid], (f - f.mean()) / given.size)
    assert weights[3] == weights[17] == 0 and memory == {}
    assert own("outermost", power=3.0).value(given, {}, Ranks()) == pytest.approx(f.mean())


def test_the_same_function_in_torch_has_the_same_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = "def far(behaviors, fitness, ratios=1):\n    f = (behaviors**2).sum(1) ** 2\n"
    text += "    return (ratios * f).mean() if hasattr(ratios, 'grad') else 2 * f\n"
    (tmp_path / "in_both.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    given = outcomes()  # of both: their results are kept apart
    torch, numpy = (OBJECTIVES.build({"name": name, "function": "in_both:far"}) for name in ("custom", "weights"))
    theirs, _ = torch.weights(given, {}, Ranks())
    np.testing.assert_allclose(numpy.weights(given, {}, Ranks())[0], 2 * theirs, atol=1e-12)


def test_a_function_cannot_change_the_outcomes() -> None:
    given = outcomes()
    whitened, fitness = given.whitened.copy(), given.fitness.copy()
    own("vandal").weights(given, {}, Ranks())
    np.testing.assert_array_equal(given.whitened, whitened)
    np.testing.assert_array_equal(given.fitness, fitness)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one_number", r"expected 32 numbers, one for each individual; got an array of shape \(\)"),
        ("not_numbers", r"expected 32 numbers, .*; got an array of shape \(32,\), of <U"),
        ("random", "a second call gave other weights; it must not be random"),
        ("not_finite", r"its weights are not finite for \d+ of 32 individuals"),
        ("with_ratios", r"with_ratios\(\) raised TypeError: .*'ratios'"),
    ],
)
def test_a_wrong_function_is_found_before_any_rollout(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"objective.function {OWN}:{name}: {message}"):
        own(name).try_out(500, 2)


def test_training_with_it_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    run = train(
        tmp_path / "run.h5", "interference-maxvar", "objective.name=weights", f"objective.function={OWN}:outermost"
    )
    with open_run(run) as opened:
        assert opened["objective_value"].shape == (6, 1)


@pytest.mark.standing_ranks
def test_the_same_bits_on_two_ranks_also_as_a_part_of_a_blend(tmp_path: Path) -> None:
    part = f'{{name="weights", function="{OWN}:outermost", share=1.0}}'
    blend = f'objective.parts=[{{name="maxvar", share=1.0}}, {part}]'
    words = ("train", "interference-maxvar", *sets(*TINY, "objective.name=blend", blend))
    digests = set()
    for ranks in (1, 2):
        out = tmp_path / f"{ranks}.h5"
        done(*words, "--out", out, ranks=ranks)
        digests.add(info(out)["state_sha256"])
    assert len(digests) == 1
    with open_run(out) as run:
        assert run.metric_settings.own_names == ["outermost"] and np.isfinite(run["objective_value"][:]).all()
    assert "the same" in done("verify", out, "--updates").stdout
