"""Objectives of the user's own, in torch and in numpy: their weights, their values, clear errors."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.outcomes import outcomes
from support.own_functions import outermost  # noqa: F401  by its name; ranks import it without torch
from support.program import TINY, done, info, sets, train
from support.small_runs import trained
from torch import Tensor

import ees_mpi
from ees_mpi import open_run
from ees_mpi.analysis.numbers.selection import sample_of, scales, series
from ees_mpi.config import Config, load
from ees_mpi.errors import ConfigError, MissingExtra, PluginError
from ees_mpi.generation import Record
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.custom import CustomObjective

torch.set_num_threads(1)

Array = NDArray[np.float64]


def distance_variance(behaviors: Tensor, fitness: Tensor, ratios: Tensor, power: float = 2.0) -> Tensor:
    distance = behaviors.norm(dim=1)
    mean = (ratios * distance).mean()
    return (ratios * (distance - mean).abs() ** power).mean()


def in_both(behaviors: Any, fitness: Any, ratios: Any = 1) -> Any:
    f = (behaviors**2).sum(1) ** 2
    return (ratios * f).mean() if hasattr(ratios, "grad") else 2 * f


def vandal(behaviors: Any, fitness: Any, ratios: Any = None) -> Any:
    behaviors *= 0
    fitness *= 0
    return (ratios * fitness).mean() if hasattr(ratios, "grad") else np.arange(len(fitness), dtype=float)


def random_weights(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return (ratios * torch.randn(len(ratios), dtype=torch.float64)).mean()


def not_a_scalar(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return ratios * fitness


def of_numpy(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Any:
    return fitness.numpy().mean()


def not_a_number(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return (ratios * (fitness - 100).log()).mean()


def no_ratios(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return behaviors.var()


def raises(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return behaviors @ fitness


def breaks_later(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    """Right until the best fitness is above 3, as made-up ones hardly are."""
    return (ratios * fitness).mean() * (float("nan") if fitness.max() > 3 else 1.0)


def one_number(behaviors: Array, fitness: Array) -> float:
    return float(behaviors.var())


def not_numbers(behaviors: Array, fitness: Array) -> list[str]:
    return ["large"] * len(fitness)


def not_finite(behaviors: Array, fitness: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.log(fitness))


def random(behaviors: Array, fitness: Array) -> Array:
    return np.random.default_rng().random(len(fitness))


def own(name: str, kind: str = "custom", **settings: float) -> CustomObjective:
    objective: CustomObjective = OBJECTIVES.build(
        {"name": kind, "function": f"{__name__}:{name}", "settings": settings}
    )
    return objective


@pytest.mark.parametrize("power", [2.0, 3.0])
def test_weights_are_the_gradient_with_respect_to_the_ratios(power: float) -> None:
    given = outcomes(invalid=(3, 17))
    weights = own("distance_variance", power=power).weights(given, {}, Ranks())
    distance = np.linalg.norm(given.whitened, axis=1)
    from_mean = distance - distance.mean()
    slope = (power * np.abs(from_mean) ** (power - 1) * np.sign(from_mean)).mean()
    expected = given.centred((np.abs(from_mean) ** power - slope * distance) / given.size)
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    assert weights[3] == weights[17] == 0


def test_weights_in_numpy_are_the_numbers_of_the_function_over_n_with_mean_zero() -> None:
    given = outcomes(invalid=(3, 17))
    weights = own("outermost", "weights", power=3.0).weights(given, {}, Ranks())
    f = np.linalg.norm(given.whitened, axis=1) ** 3.0
    np.testing.assert_allclose(weights[given.valid], (f - f.mean()) / given.size)
    assert weights[3] == weights[17] == 0
    assert own("outermost", "weights", power=3.0).value(given, Ranks()) == pytest.approx(f.mean())


def test_the_same_function_in_torch_has_the_same_weights() -> None:
    given = outcomes()  # of both: their results are kept apart
    theirs = own("in_both").weights(given, {}, Ranks())
    np.testing.assert_allclose(own("in_both", "weights").weights(given, {}, Ranks()), 2 * theirs, atol=1e-12)


@pytest.mark.parametrize("kind", ["custom", "weights"])
def test_a_function_cannot_change_the_outcomes(kind: str) -> None:
    given = outcomes()
    behavior, whitened, fitness = given.behavior.copy(), given.whitened.copy(), given.fitness.copy()
    own("vandal", kind).weights(given, {}, Ranks())
    np.testing.assert_array_equal(given.behavior, behavior)
    np.testing.assert_array_equal(given.whitened, whitened)
    np.testing.assert_array_equal(given.fitness, fitness)


def test_random_numbers_in_a_function_depend_on_nothing_and_disturb_nothing() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = own("random_weights").weights(outcomes(), {}, Ranks())
    torch.randn(5)
    second = own("random_weights").weights(outcomes(), {}, Ranks())
    np.testing.assert_array_equal(first, second)
    torch.set_rng_state(state)
    own("random_weights").weights(outcomes(), {}, Ranks())
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("custom", "not_a_scalar", r"expected a torch scalar, got a tensor of shape \[32\]; .sum\(\) or"),
        ("custom", "of_numpy", r"expected a torch scalar, got float64"),
        ("custom", "not_a_number", r"expected a finite value, got nan"),
        ("custom", "no_ratios", r".*not depend on the ratios; multiply by them before averaging: \(ratios \* f\).mean"),
        ("custom", "raises", r'raises\(\) raised RuntimeError: .*\n.*test_custom.py", line \d+, in raises\n *return'),
        ("weights", "one_number", r"expected 32 numbers, one for each individual; got an array of shape \(\)"),
        ("weights", "not_numbers", r"expected 32 numbers, .*; got an array of shape \(32,\), of <U"),
        ("weights", "random", "a second call gave other weights; it must not be random"),
        ("weights", "not_finite", r"its weights are not finite for \d+ of 32 individuals"),
        ("weights", "not_a_scalar", r"not_a_scalar\(\) raised TypeError: .*'ratios'"),
    ],
)
def test_a_wrong_function_is_found_before_any_rollout(kind: str, name: str, message: str) -> None:
    where = f"a dry run with 32 random outcomes: objective.function {__name__}:{name}: "
    with pytest.raises(ConfigError, match=f"^{where}{message}"):
        own(name, kind).try_out(500, 2)


def test_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"needs torch: pip install 'ees_mpi\[torch\]'; .*\"weights\""):
        own("distance_variance").try_out(10, 1)
    for name in [name for name in sys.modules if name.startswith("ees_mpi.strategy.scg")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra, match=r"ees_mpi.strategy.scg needs torch: pip install 'ees_mpi\[torch\]'"):
        import ees_mpi.strategy.scg  # noqa: F401


def test_training_with_numpy_needs_no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    settings = ("objective.name=weights", f"objective.function={__name__}:outermost")
    with open_run(train(tmp_path / "run.h5", "interference-maxvar", *settings)) as run:
        assert run["objective_value"].shape == (6, 1)


def test_a_nan_in_the_middle_of_a_run_names_the_generation(tiny: Callable[..., Config]) -> None:
    settings = ("objective.name=custom", f"objective.function={__name__}:breaks_later")
    config = tiny("interference-maxvar", *settings, "run.generations=50", "optimizer.lr=2.0")
    config.method.objective.try_out(20, 1)
    done: list[int] = []
    with pytest.raises(PluginError, match=r"breaks_later: expected a finite value, got nan") as found:
        trained(config, lambda record: done.append(record.generation))
    assert len(done) > 0 and str(found.value).startswith(f"generation {len(done)}: objective.function {__name__}")
    assert found.value.collective


@pytest.mark.slow
@pytest.mark.usefixtures("quick_figures")
def test_the_value_of_an_own_objective_is_logged_shown_and_plotted_under_its_name(tmp_path: Path) -> None:
    function = {"name": "custom", "function": f"{__name__}:distance_variance", "settings": {"power": 3.0}}
    name, records = "distance_variance_2", list[Record]()  # the first one is a metric of ours
    config = {**load("interference-maxvar", TINY).sections(), "objective": function}
    out = tmp_path / "run.h5"
    with ees_mpi.train(config, out, on_generation=records.append) as run:
        expected = own("distance_variance", power=3.0).value(sample_of(run, 2).outcomes, Ranks())
        assert run["objective_value"][2] == series(run, name, scales([run])[0])[2] == expected
        assert records[2].metrics[name] == expected
        assert records[2].metrics["variance"] == run["variance"][2]
    shown = done("resume", out, "--generations", 7).stdout
    with open_run(out) as run:
        assert f"{name} {series(run, name, scales([run])[0])[-1]:.4g}" in shown
    assert name in info(out)["results"]
    done("report", out, "-o", tmp_path / "page.html")
    assert f"The objective {name}" in (tmp_path / "page.html").read_text()
    done("figure", "sweep", out, train(tmp_path / "other.h5"), "--by", "objective.name", "-o", tmp_path / "one.png")
    done("sample", out, "--count", 4, "--out", tmp_path / "sample.h5")
    assert np.isnan(open_run(tmp_path / "sample.h5")["objective_value"][0, 0])


def test_each_own_part_of_a_blend_has_its_value() -> None:
    part = {"name": "custom", "function": f"{__name__}:distance_variance", "share": 1.0}
    parts = [{"name": "maxvar", "share": 0.5}, part, {**part, "settings": {"power": 3.0}}]
    config = {**load("interference-maxvar", TINY).sections(), "objective": {"name": "blend", "parts": parts}}
    records: list[Record] = []
    trained(ees_mpi.load_config(config), records.append)
    found = [records[0].metrics[name] for name in ("distance_variance_2", "distance_variance_3")]
    assert records[0]["objective_value"].tolist() == found and found[0] != found[1]


@pytest.mark.standing_ranks
def test_the_same_bits_on_two_ranks_also_as_a_part_of_a_blend(tmp_path: Path) -> None:
    part = '{name="weights", function="support.own_functions:outermost", share=1.0}'
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
