from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.small_runs import advanced, trained

import ees_mpi
from ees_mpi.config import Config, load
from ees_mpi.errors import TaskError
from ees_mpi.generation import State
from ees_mpi.ranks import Ranks
from ees_mpi.run.parts import first_state, open_parts
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


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "start"), [("interference-maxvar", 6.5), ("interference-maxent", 9.2)])
def test_both_variants_climb_to_the_most_evolvable_genome_from_either_side(preset: str, start: float) -> None:
    few = ("population.size=100", "run.generations=300", "noise.size=100000", "optimizer.lr=0.1")
    mean = trained(load(preset, [*few, f"task.start={start}"])).mean[0, 0]
    assert abs(mean - OPTIMUM) < 0.8 < abs(start - OPTIMUM)


@pytest.mark.parametrize("optimizer", ["ascent", "adam"])
def test_a_step_that_is_not_finite_is_one_error_and_no_warning(optimizer: str, tiny: Callable[..., Config]) -> None:
    config = tiny("interference-maxvar", f"optimizer.name={optimizer}", "optimizer.lr=1e308")
    with pytest.raises(TaskError, match=r"generation 0 is not finite, and was not committed; optimizer\.lr"):
        trained(config)
