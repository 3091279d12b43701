from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.small_runs import advanced, trained

import ees_mpi
from ees_mpi.config import Config, load
from ees_mpi.errors import TaskError
from ees_mpi.generation import Found, Outcomes, State
from ees_mpi.noise import NoiseTable
from ees_mpi.ranks import Ranks
from ees_mpi.run.parts import evolution_of, first_state, open_parts
from ees_mpi.tasks.interference import OPTIMUM

SPECIES = ("population.name=mixture", "population.components=4", "objective.name=novelty", "objective.neighbors=2")


@pytest.mark.parametrize("more", [(), SPECIES])
@pytest.mark.parametrize("optimizer", ["ascent", "adam"])
def test_advance_changes_nothing_in_place(optimizer: str, more: Sequence[str], tiny: Callable[..., Config]) -> None:
    config = tiny("interference-maxvar", f"optimizer.name={optimizer}", *more)
    state = first_state(config)
    digest = state.digest()
    record, following = advanced(*open_parts(config, Ranks()), state)
    assert state.digest() == digest
    assert following.generation == 1 and record.generation == 0
    np.testing.assert_array_equal(record.arrays["mean"], state.mean)


def test_a_training_whose_rollouts_are_mostly_invalid_ends_with_an_error(tmp_path: Path) -> None:
    task = {"name": "function", "function": "support.own_functions:mostly_invalid", "parameters": 2, "behavior_dim": 2}
    parts = {"population": {"name": "normal", "size": 30, "std": 0.1}, "objective": {"name": "maxvar"}}
    config = {"run": {"generations": 3}, "noise": {"size": 5000}, "task": task, **parts}
    with pytest.raises(TaskError, match=r"generation 0: \d\d of 30 rollouts are invalid"):
        ees_mpi.train(config, tmp_path / "run.h5")


def test_the_digest_sees_every_part_of_the_state() -> None:
    learned = {"mean": np.ones((1, 2), np.float32)}
    state = State(3, learned, {"m": np.zeros(2)}, np.zeros(1), {"archive": np.zeros(1)})
    one = np.ones
    others = [
        replace(state, generation=4),
        replace(state, learned={"mean": state.mean + 1}),
        replace(state, learned={**learned, "log_std": one(2)}),
        replace(state, moments={"m": one(2)}),
        replace(state, observations=one(1)),
        replace(state, memory={"archive": one(1)}),
    ]
    assert len({each.digest() for each in [state, *others]}) == 7
    assert all(State.from_arrays(each.arrays()).digest() == each.digest() for each in [state, *others])


def test_observations_are_not_normalised_before_there_are_any() -> None:
    state = State(0, {"mean": np.zeros((1, 1), np.float32)}, {}, np.zeros(7))
    mean, std = state.statistics
    assert (mean == 0).all() and (std == 1).all() and len(mean) == 3


def test_observation_variance_is_floored() -> None:
    state = State(0, {"mean": np.zeros((1, 1), np.float32)}, {}, np.array([4.0, 8.0, 4.0, 16.0, 8.0]))
    mean, std = state.statistics
    np.testing.assert_allclose(mean, [2.0, 1.0])
    np.testing.assert_allclose(std, [0.1, 1.0])


def fast_means(config: Config, generations: int) -> list[float]:
    """Train the interference task with the parts of a config, all individuals of a generation at once.

    This is ten times as fast as `train`, which evaluates them one by one; `test_the_fast_means_are_those_of_training`
    holds the two equal.
    """
    noise, ranks = NoiseTable(config.noise_seed, config.noise.size, Ranks()), Ranks()
    method, state, means = evolution_of(config, noise), first_state(config), []
    table, nothing = noise.row(0, noise.size), np.zeros((0, 1))
    whole = np.ones(config.population.size, np.int64)
    for _ in range(generations):
        means.append(float(state.mean[0, 0]))
        work = method.ask(state)
        x = state.mean[0] + np.float32(config.population.std) * work.draw.sign * table[work.draw.offset]
        behavior = 5.0 * np.sin(np.float64(x) / 5.0) * np.sin(20.0 * np.float64(x))
        outcomes = Outcomes(behavior[:, None], behavior, whole, whole > 0, nothing)
        state, _ = method.tell(work, Found(outcomes, outcomes, {}), ranks)
    return means


@pytest.mark.parametrize("preset", ["interference-maxvar", "interference-maxent"])
def test_the_fast_means_are_those_of_training(preset: str) -> None:
    config, means = load(preset, ["run.generations=40", "population.size=100", "noise.size=100000"]), []
    trained(config, lambda record: means.append(float(record.arrays["mean"][0, 0])))
    np.testing.assert_allclose(fast_means(config, 40), means, atol=1e-5)
    assert abs(means[-1] - means[0]) > 0.5  # it has gone somewhere


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "seed", "size", "generations"),
    [
        ("interference-maxvar", 0, 100, 2000),
        ("interference-maxent", 1, 200, 1500),  # with 100, some runs are not there yet
    ],
)
def test_both_variants_find_the_most_evolvable_genome(preset: str, seed: int, size: int, generations: int) -> None:
    config = load(preset, [f"run.seed={seed}", f"population.size={size}"])
    assert config.task.start == 1.0 and generations <= config.run.generations
    assert abs(np.mean(fast_means(config, generations)[-100:]) - OPTIMUM) < 0.2


@pytest.mark.parametrize("optimizer", ["ascent", "adam"])
def test_a_step_that_is_not_finite_is_one_error_and_no_warning(optimizer: str, tiny: Callable[..., Config]) -> None:
    config = tiny("interference-maxvar", f"optimizer.name={optimizer}", "optimizer.lr=1e308")
    with pytest.raises(TaskError, match=r"generation 0 is not finite, and was not committed; optimizer\.lr"):
        trained(config)
