import numpy as np
import pytest
from support.small_runs import trained

from ees_mpi.config import Config, parse
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.populations.mixture import Mixture

CONFIG = """
base = "interference-maxvar"
run.generations = 100
task = { name = "custom", function = "support.own_tasks:TwoPlaces" }
population = { name = "mixture", size = 50, std = 0.3 }
optimizer = { name = "adam", lr = 0.05 }
noise.size = 100000
"""


def setting(size: int, components: int, apart: float, count: int = 40, antithetic: bool = True) -> tuple:
    population = Mixture(size=count, std=0.3, components=components, antithetic=antithetic)
    noise = NoiseTable(1, 50 * size if size < 1000 else 200_000, Ranks())
    drawn = population.draw(stream(1, "draw"), noise, size)
    means = (apart * np.random.default_rng(0).normal(size=(components, size))).astype(np.float32)
    return population, noise, drawn, means


@pytest.mark.parametrize("components", [1, 2, 3])
@pytest.mark.parametrize("apart", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("antithetic", [True, False])
def test_the_gradient_is_that_of_torchs_mixture(components: int, apart: float, antithetic: bool) -> None:
    torch = pytest.importorskip("torch")
    population, noise, drawn, means = setting(5, components, apart, antithetic=antithetic)
    weights = np.random.default_rng(2).normal(size=population.size)
    mu = torch.tensor(means.astype(np.float64), requires_grad=True)
    eps = np.array([noise.row(offset, 5) for offset in drawn.offset], np.float64)
    z = torch.tensor(means.astype(np.float64)[drawn.parent] + population.std * drawn.sign[:, None] * eps)
    component = torch.distributions.Independent(torch.distributions.Normal(mu, population.std), 1)
    kinds = torch.distributions.Categorical(torch.ones(components, dtype=torch.float64))
    log_density = torch.distributions.MixtureSameFamily(kinds, component).log_prob(z)
    (torch.tensor(weights) * log_density).sum().backward()
    ours = population.gradient(weights, drawn, {"mean": means}, noise, Ranks())["mean"]
    np.testing.assert_allclose(ours, mu.grad.numpy(), rtol=1e-6, atol=1e-6 * np.abs(mu.grad.numpy()).max())


@pytest.mark.parametrize("apart", [0.0, 1e-9, 1e-3, 1.0, 100.0])
def test_nothing_overflows_at_75272_dimensions(apart: float) -> None:
    population, noise, drawn, means = setting(75_272, 2, apart, count=20)
    rho = population.responsibilities(drawn, {"mean": means}, noise, Ranks())
    gradient = population.gradient(np.linspace(-1, 1, 20), drawn, {"mean": means}, noise, Ranks())["mean"]
    assert np.isfinite(rho).all() and np.isfinite(gradient).all()
    np.testing.assert_allclose(rho.sum(axis=1), 1.0)
    if apart >= 1.0:
        assert (rho[np.arange(20), drawn.parent] == 1.0).all()
    if apart == 0.0:
        np.testing.assert_allclose(rho, 0.5)


def test_pairs_stay_within_a_component_and_all_components_are_drawn() -> None:
    population, _, drawn, _ = setting(5, 3, 1.0, count=600)
    assert (drawn.parent[0::2] == drawn.parent[1::2]).all()
    assert np.bincount(drawn.parent, minlength=3).min() > 120
    assert population.components == 3


def means_and_reach(config: Config) -> np.ndarray:
    """Train; return the means, then the lowest and the highest behaviour of the last generation."""
    behaviors: list[np.ndarray] = []
    state = trained(config, lambda record: behaviors.append(record.arrays["behavior"]))
    return np.concatenate([state.mean[:, 0], [behaviors[-1].min(), behaviors[-1].max()]])


def test_a_thousand_components_are_allowed() -> None:
    ranks = Ranks()
    noise = NoiseTable(0, 5000, ranks)
    population = Mixture(size=20, std=0.5, components=1000)
    drawn = population.draw(stream(0, "draw", 0), noise, 10)
    means = np.arange(10_000, dtype=np.float32).reshape(1000, 10)
    gradient = population.gradient(np.ones(20), drawn, {"mean": means}, noise, ranks)["mean"]
    assert gradient.shape == (1000, 10)


@pytest.mark.slow
def test_two_species_settle_in_two_places_and_one_mean_never_covers_both() -> None:
    both = 0
    for seed in range(3):
        first, second, low, high = means_and_reach(parse(CONFIG, [f"run.seed={seed}"]))
        both += first * second < 0 and min(abs(first), abs(second)) > 1 and low < -0.8 and high > 0.8
    assert both >= 2
    _, low, high = means_and_reach(parse(CONFIG, ["population.name=normal"]))
    assert not (low < -0.8 and high > 0.8)
