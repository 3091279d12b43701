"""The diagonal population: a standard deviation for each parameter, learned."""

from pathlib import Path

import numpy as np
import pytest
from support.program import done, sets, train
from support.run_files import assert_same_bits
from support.small_runs import trained

from ees_mpi import open_run
from ees_mpi.config import load
from ees_mpi.generation import NOBODY
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.populations import diagonal
from ees_mpi.strategy.populations.diagonal import Diagonal
from ees_mpi.strategy.populations.normal import Normal
from ees_mpi.tasks.interference import OPTIMUM

LEARNED = ("population.name=diagonal", "population.std=0.05")


def setting(size: int, antithetic: bool = True) -> tuple:
    """Return a population, its noise, a draw, and learned arrays with different stds."""
    population = Diagonal(size=40, std=0.3, antithetic=antithetic)
    noise = NoiseTable(1, max(2000, 2 * size), Ranks())
    drawn = population.draw(stream(1, "draw"), noise, size)
    generator = np.random.default_rng(0)
    learned = {
        "mean": generator.normal(size=(1, size)).astype(np.float32),
        "std": np.exp(generator.normal(size=(1, size)) - 2).astype(np.float32),
    }
    return population, noise, drawn, learned


@pytest.mark.parametrize("size", [10, 75_000])
@pytest.mark.parametrize("antithetic", [True, False])
def test_the_gradients_are_those_of_autodiff(size: int, antithetic: bool) -> None:
    torch = pytest.importorskip("torch")
    population, noise, drawn, learned = setting(size, antithetic)
    weights = np.random.default_rng(2).normal(size=population.size)
    mean, std = (learned[name][0].astype(np.float64) for name in ("mean", "std"))
    eps = np.array([noise.row(offset, size) for offset in drawn.offset], np.float64)
    z = torch.tensor(mean + std * drawn.sign[:, None] * eps)
    theta, log_std = (torch.tensor(each, requires_grad=True) for each in (mean, np.log(std)))
    log_density = torch.distributions.Normal(theta, torch.exp(log_std)).log_prob(z).sum(dim=1)
    (torch.tensor(weights) * log_density).sum().backward()
    ours = population.gradient(weights, drawn, learned, noise, Ranks())
    for name, autodiff in (("mean", theta.grad.numpy()), ("std", log_std.grad.numpy())):
        error = np.linalg.norm(ours[name][0] - autodiff) / np.linalg.norm(autodiff)
        assert error < 1e-6, (name, error)


def test_a_std_at_its_limit_goes_no_further_and_comes_back() -> None:
    population = Diagonal(size=4, std=0.25)
    learned = {"mean": np.zeros((1, 3), np.float32), "std": np.array([[0.0001, 0.5, 300.0]], np.float32)}
    np.testing.assert_array_equal(population.stds(learned, NOBODY), np.array([0.00025, 0.5, 250.0], np.float32))
    np.testing.assert_array_equal(population._inward(np.full(3, -1.0), learned["std"][0]), [0.0, -1.0, -1.0])
    np.testing.assert_array_equal(population._inward(np.full(3, 1.0), learned["std"][0]), [1.0, 1.0, 0.0])


@pytest.mark.parametrize(("optimizer", "rate"), [("adam", 0.2), ("ascent", 1e6)])
def test_momentum_and_large_steps_do_not_carry_a_std_beyond_its_limits(
    optimizer: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagonal, "RANGE", 2.0)
    few = ("population.size=20", "noise.size=5000", "population.std=0.1")
    steps = (f"optimizer.name={optimizer}", f"optimizer.lr={rate}", "run.generations=40")
    seen: list[float] = []
    trained(
        load("interference-maxvar", [*LEARNED, *few, *steps]), lambda record: seen.append(record.arrays["std"].item())
    )
    assert np.float32(0.05) <= min(seen) and max(seen) == np.float32(0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("population", "finds"), [("diagonal", True), ("normal", False)])
def test_a_learned_spread_sees_across_the_waves_and_a_fixed_one_does_not(population: str, finds: bool) -> None:
    # Shorter than the runs of docs/plugins.md, which have five seeds and start at 1.0.
    quick = ("run.generations=200", "population.size=100", "optimizer.lr=0.2", "noise.size=100000", "task.start=7.0")
    settings = (f"population.name={population}", "population.std=0.05", *quick)
    mean = trained(load("interference-maxvar", list(settings))).mean[0, 0]
    assert bool(abs(mean - OPTIMUM) < 0.3) is finds, mean


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the cheetah with a learned spread, of one process."""
    small = ("task.steps=8", "task.hidden=[8]", "noise.size=100000", "population.size=8", "task.observation_share=0.5")
    more = ("population.name=diagonal", "optimizer.lr=0.1", "run.generations=4")
    return train(tmp_path_factory.mktemp("diagonal") / "one.h5", "cheetah-maxent", *small, *more)


def test_the_learned_stds_differ_and_the_run_verifies(walked: Path) -> None:
    with open_run(walked) as run:
        assert len(np.unique(run["std"][3])) > 50
    assert "the same bits" in done("verify", walked, "--individuals", 3).stdout
    assert "the same states" in done("verify", walked, "--updates").stdout


def test_a_sample_has_the_learned_spread_or_one_std(walked: Path, tmp_path: Path) -> None:
    done("sample", walked, "--count", 4, "--out", tmp_path / "learned.h5")
    done("sample", walked, "--count", 4, "--std", "0.5", "--out", tmp_path / "fixed.h5")
    with open_run(walked) as run, open_run(tmp_path / "learned.h5") as learned, open_run(tmp_path / "fixed.h5") as one:
        assert learned["std"][0].tobytes() == run.state_arrays()["std"].tobytes()
        assert one.config.population == Normal(size=4, std=0.5, antithetic=False)
        assert not np.array_equal(learned.individual(0, 1), one.individual(0, 1))


def test_a_policy_and_a_new_run_continue_with_the_learned_spread(walked: Path, tmp_path: Path) -> None:
    done("export", walked, "--policy", "-o", tmp_path / "policy.npz")
    small = sets("task.steps=8", "task.hidden=[8]", "noise.size=100000", "population.size=8", "run.generations=1")
    learned = sets("population.name=diagonal")
    for name in (walked, tmp_path / "policy.npz"):
        done("train", "cheetah-es", *small, *learned, "--from", name, "--out", tmp_path / f"{name.stem}.h5")
    assert_same_bits(tmp_path / "one.h5", tmp_path / "policy.h5")
    with open_run(walked) as run, open_run(tmp_path / "one.h5") as following:
        assert following["std"][0].tobytes() == run.state_arrays()["std"].tobytes()
