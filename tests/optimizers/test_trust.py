"""The optimizer `trust`: the length of its steps, and the signal that it measures on the way."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import done, train
from support.run_files import assert_same_bits

from ees_mpi.commands.signal import step_lengths
from ees_mpi.generation.state import State
from ees_mpi.noise import Noise
from ees_mpi.objectives.fitness import Fitness
from ees_mpi.optimizers.adam import Adam
from ees_mpi.optimizers.trust import Trust
from ees_mpi.outcomes import Arrays, Floats, Outcomes
from ees_mpi.populations.diagonal import Diagonal
from ees_mpi.populations.mixture import Mixture
from ees_mpi.populations.normal import Normal
from ees_mpi.ranks import Ranks
from ees_mpi.strategy import Update

D = 300
POPULATIONS: dict[str, Any] = {
    "normal": Normal(size=40, std=0.05),
    "mixture": Mixture(size=40, std=0.05, components=3),
    "diagonal": Diagonal(size=40, std=0.05),
}


def learned_of(population: Any) -> Arrays:
    means = np.random.default_rng(0).normal(size=(population.components, D)).astype(np.float32)
    return population.learned(means)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", POPULATIONS)
def test_without_noise_a_step_has_the_bounded_divergence_and_the_first_generation_makes_none(name: str) -> None:
    population, optimizer = POPULATIONS[name], Trust(nats=0.02)
    learned, moments = learned_of(population), optimizer.start(learned_of(population))
    gradient = {key: np.random.default_rng(1).normal(size=array.shape) for key, array in learned.items()}
    first, moments = optimizer.step(learned, gradient, moments, population.std)
    assert all(np.array_equal(first[key], learned[key]) for key in learned)
    second, _ = optimizer.step(first, gradient, moments, population.std)
    arrays = 2 if name == "diagonal" else 1  # the mean and the std have a step each
    assert step_lengths(population, first, second)[1] == pytest.approx(0.02 * arrays, rel=0.02)
    along = ((second["mean"] - first["mean"]) * gradient["mean"]).sum()
    lengths = np.linalg.norm(second["mean"] - first["mean"]) * np.linalg.norm(gradient["mean"])
    assert along == pytest.approx(lengths, rel=1e-3)


def test_the_measured_share_is_that_of_the_average() -> None:
    # u = G + noise, |G|^2 = 1, |noise|^2 = 30: an average with b = 0.9 has the noise 30 (1 - b) / (1 + b).
    generator, optimizer, dimensions = np.random.default_rng(0), Trust(nats=1e-9), 20_000
    learned = {"mean": np.zeros((1, dimensions), np.float32)}
    signal: Floats = np.zeros((1, dimensions))
    signal[0, :100] = 0.1
    moments, shares = optimizer.start(learned), []
    for _ in range(300):
        gradient = signal + generator.standard_normal((1, dimensions)) * math.sqrt(30 / dimensions)
        learned, moments = optimizer.step(learned, {"mean": gradient}, moments)
        shares.append(moments["signal"])
    assert np.divide(*np.transpose(shares[50:])).mean() == pytest.approx(1 / (1 + 30 * 0.1 / 1.9), rel=0.03)
    moments = optimizer.start(learned)
    for _ in range(300):
        _, moments = optimizer.step(learned, {"mean": generator.standard_normal((1, dimensions))}, moments)
    assert abs(moments["signal"][0] / moments["signal"][1]) < 0.02


def test_the_step_does_not_depend_on_the_scale_of_the_objective_or_of_the_parameters() -> None:
    steps = []
    for scale, std in ((1.0, 0.05), (1e6, 0.05), (1.0, 50.0)):
        optimizer, learned = Trust(nats=3.0), {"mean": np.zeros((1, D), np.float32)}
        generator, moments = np.random.default_rng(3), optimizer.start(learned)
        for _ in range(6):
            gradient = scale * (generator.normal(size=(1, D)) + 0.5)
            learned, moments = optimizer.step(learned, {"mean": gradient}, moments, std)
        steps.append(learned["mean"] / std)
    assert steps[0].any()
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-5)
    np.testing.assert_allclose(steps[2], steps[0], rtol=1e-5)


def test_l2_pulls_towards_zero_but_is_no_signal() -> None:
    optimizer, learned = Trust(nats=1.0, l2=10.0), {"mean": np.ones((1, D), np.float32)}
    moments, gradient = optimizer.start(learned), np.zeros((1, D))
    for sign in (1, 1, -1, -1, -1, -1, -1):  # an average that the next gradients contradict
        gradient[0, 0] = sign
        learned, moments = optimizer.step(learned, {"mean": gradient}, moments)
    assert learned["mean"][0, 1] < 1  # while the average had signal
    assert moments["signal"][0] / moments["signal"][1] < 0.5


def fragile(z: Floats) -> Floats:
    """Return the fitness of a robot that loses its skill by moving away in any direction."""
    x, away = z[:, 0], np.square(z[:, 1:]).mean(axis=1)
    return np.asarray(10 * np.tanh(x) * np.exp(-2 * np.maximum(away - 1, 0)))


@pytest.mark.parametrize(("optimizer", "keeps"), [(Adam(), False), (Trust(nats=30), True)])
def test_noise_does_not_destroy_a_fragile_skill(optimizer: Any, keeps: bool) -> None:
    population, noise = Normal(size=40, std=0.02), Noise(1, 1 << 18)
    update = Update(population, Fitness(), optimizer, noise, 0)
    learned = population.learned(np.zeros((1, D), np.float32))
    state = State(0, learned, optimizer.start(learned), np.zeros(1))
    for _ in range(40):
        draw = update.ask(state)
        z = np.stack([population.individual(state.learned, draw, i, noise) for i in range(40)]) / population.std
        fitness = fragile(z.astype(np.float64))
        outcomes = Outcomes(fitness[:, None], fitness, np.ones(40, np.int64), np.ones(40, bool), np.zeros((0, 1)))
        state, _ = update.tell(state, draw, outcomes, Ranks())
    assert (fitness.mean() > 5) == keeps


@pytest.mark.parametrize("population", ["normal", "mixture"])
def test_a_run_has_the_same_bits_through_resume(population: str, tmp_path: Path) -> None:
    settings = (f"population.name={population}", "optimizer.name=trust", "optimizer.l2=0.01")
    alone = train(tmp_path / "alone.h5", "interference-maxent", *settings)
    parts = train(tmp_path / "parts.h5", "interference-maxent", *settings, "run.generations=3")
    done("resume", parts, "--generations", 6)
    assert_same_bits(alone, parts)
    assert "the same states" in done("verify", alone, "--updates").stdout
