import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.outcomes import outcomes
from support.program import TINY, done, info, train
from support.small_runs import trained

import ees_mpi
from ees_mpi import open_run
from ees_mpi.analysis.numbers.selection import sample_of, scales, series
from ees_mpi.config import Config, load
from ees_mpi.errors import ConfigError, MissingExtra, PluginError
from ees_mpi.generation import Record
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives.custom import CustomObjective

torch.set_num_threads(1)

OWN = "support.own_objectives"


def custom(name: str, **settings: float) -> CustomObjective:
    return CustomObjective(function=f"{OWN}:{name}", settings=settings)


@pytest.mark.parametrize("power", [2.0, 3.0])
def test_weights_are_the_gradient_with_respect_to_the_ratios(power: float) -> None:
    given = outcomes(invalid=(3, 17))
    weights, memory = custom("distance_variance", power=power).weights(given, {}, Ranks())
    distance = np.linalg.norm(given.whitened, axis=1)
    from_mean = distance - distance.mean()
    slope = (power * np.abs(from_mean) ** (power - 1) * np.sign(from_mean)).mean()
    expected = given.centred((np.abs(from_mean) ** power - slope * distance) / given.size)
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    assert weights[3] == weights[17] == 0 and memory == {}


def test_a_function_cannot_change_the_outcomes() -> None:
    given = outcomes()
    behavior, whitened, fitness = given.behavior.copy(), given.whitened.copy(), given.fitness.copy()
    custom("vandal").weights(given, {}, Ranks())
    np.testing.assert_array_equal(given.behavior, behavior)
    np.testing.assert_array_equal(given.whitened, whitened)
    np.testing.assert_array_equal(given.fitness, fitness)


def test_random_numbers_in_a_function_depend_on_nothing_and_disturb_nothing() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first, _ = custom("random_weights").weights(outcomes(), {}, Ranks())
    torch.randn(5)
    second, _ = custom("random_weights").weights(outcomes(), {}, Ranks())
    np.testing.assert_array_equal(first, second)
    torch.set_rng_state(state)
    custom("random_weights").weights(outcomes(), {}, Ranks())
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("not_a_scalar", r"expected a torch scalar, got a tensor of shape \[32\]; .sum\(\) or"),
        ("of_numpy", r"expected a torch scalar, got float64"),
        ("not_a_number", r"expected a finite value, got nan"),
        ("no_ratios", r".*not depend on the ratios; multiply by them before averaging: \(ratios \* f\).mean"),
        ("raises", r'raises\(\) raised RuntimeError: .*\n.*own_objectives.py", line \d+, in raises\n *return behav'),
    ],
)
def test_a_wrong_function_is_found_before_any_rollout(name: str, message: str) -> None:
    where = f"a dry run with 32 random outcomes: objective.function {OWN}:{name}: "
    with pytest.raises(ConfigError, match=f"^{where}{message}"):
        custom(name).try_out(500, 2)


def test_missing_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"needs torch: pip install 'ees_mpi\[torch\]'; .*\"weights\""):
        custom("distance_variance").try_out(10, 1)
    for name in [name for name in sys.modules if name.startswith("ees_mpi.strategy.scg")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra, match=r"ees_mpi.strategy.scg needs torch: pip install 'ees_mpi\[torch\]'"):
        import ees_mpi.strategy.scg  # noqa: F401


def test_a_nan_in_the_middle_of_a_run_names_the_generation(tiny: Callable[..., Config]) -> None:
    settings = ("objective.name=custom", f"objective.function={OWN}:breaks_later")
    config = tiny("interference-maxvar", *settings, "run.generations=50", "optimizer.lr=2.0")
    config.method.objective.try_out(20, 1)
    done: list[int] = []
    with pytest.raises(PluginError, match=r"breaks_later: expected a finite value, got nan") as found:
        trained(config, lambda record: done.append(record.generation))
    assert len(done) > 0 and str(found.value).startswith(f"generation {len(done)}: objective.function {OWN}")
    assert found.value.collective


@pytest.mark.slow
def test_the_value_of_an_own_objective_is_logged_shown_and_plotted_under_its_name(tmp_path: Path) -> None:
    own = {"name": "custom", "function": f"{OWN}:distance_variance", "settings": {"power": 3.0}}
    name, records = "distance_variance_2", list[Record]()  # the first one is a metric of ours
    config = {**load("interference-maxvar", TINY).sections(), "objective": own}
    out = tmp_path / "run.h5"
    with ees_mpi.train(config, out, on_generation=records.append) as run:
        expected = custom("distance_variance", power=3.0).value(sample_of(run, 2).outcomes, {}, Ranks())
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
    own = {"name": "custom", "function": f"{OWN}:distance_variance", "share": 1.0}
    parts = [{"name": "maxvar", "share": 0.5}, own, {**own, "settings": {"power": 3.0}}]
    config = {**load("interference-maxvar", TINY).sections(), "objective": {"name": "blend", "parts": parts}}
    records: list[Record] = []
    trained(ees_mpi.load_config(config), records.append)
    found = [records[0].metrics[name] for name in ("distance_variance_2", "distance_variance_3")]
    assert records[0]["objective_value"].tolist() == found and found[0] != found[1]
