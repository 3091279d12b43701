from collections.abc import Callable

import numpy as np
import pytest

from ees_mpi.config import Config
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Outcome
from ees_mpi.ranks import Ranks
from ees_mpi.state import State, first_state
from ees_mpi.tasks.interference import OPTIMUM
from ees_mpi.training import Job, advance, train


def job_of(config: Config) -> Job:
    noise = NoiseTable(config.noise_seed, config.noise.size, Ranks())
    return Job(config, config.task.open(config.run.seed), noise, Ranks())


def test_advance_changes_nothing_in_place(tiny: Callable[..., Config]) -> None:
    job = job_of(tiny())
    state = first_state(job.config)
    digest = state.digest()
    record, following = advance(job, state)
    assert state.digest() == digest
    assert following.generation == 1 and record.generation == 0
    np.testing.assert_array_equal(record.arrays["mean"], state.mean)


def test_known_outcomes_are_reused_and_give_the_same_state(tiny: Callable[..., Config]) -> None:
    job = job_of(tiny())
    state = first_state(job.config)
    record, following = advance(job, state)
    rows = zip(record.arrays["behavior"], record.arrays["fitness"], strict=True)
    known = {
        index: Outcome(index, tuple(behavior), float(fitness), 1) for index, (behavior, fitness) in enumerate(rows)
    }

    class Refusing:
        def evaluate(self, index: int, *rest: object) -> Outcome:
            if index < job.config.population.size:
                raise RuntimeError(f"{index} was known")
            return Outcome(index, (0.0,), 0.0, 1)

        def close(self) -> None:
            pass

    frugal = Job(job.config, Refusing(), job.noise, job.ranks)  # type: ignore[arg-type]
    assert advance(frugal, state, known)[1].digest() == following.digest()


def test_a_state_survives_its_arrays(tiny: Callable[..., Config]) -> None:
    job = job_of(tiny("interference-maxvar", "optimizer.name=adam"))
    _, state = advance(job, first_state(job.config))
    assert State.from_arrays(state.arrays()).digest() == state.digest()


def test_the_digest_sees_every_part_of_the_state() -> None:
    state = State(3, np.ones((1, 2), np.float32), {"m": np.zeros(2)}, np.zeros(1), {"archive": np.zeros(1)})
    one = np.ones
    others = [
        State(4, state.mean, state.moments, state.observations, state.memory),
        State(3, state.mean + 1, state.moments, state.observations, state.memory),
        State(3, state.mean, {"m": one(2)}, state.observations, state.memory),
        State(3, state.mean, state.moments, one(1), state.memory),
        State(3, state.mean, state.moments, state.observations, {"archive": one(1)}),
    ]
    assert len({each.digest() for each in [state, *others]}) == 6


def test_observations_are_not_normalised_before_there_are_any() -> None:
    state = State(0, np.zeros((1, 1), np.float32), {}, np.zeros(7))
    mean, std = state.observation_mean_std()
    assert (mean == 0).all() and (std == 1).all() and len(mean) == 3


def test_observation_variance_is_floored() -> None:
    state = State(0, np.zeros((1, 1), np.float32), {}, np.array([4.0, 8.0, 4.0, 16.0, 8.0]))
    mean, std = state.observation_mean_std()
    np.testing.assert_allclose(mean, [2.0, 1.0])
    np.testing.assert_allclose(std, [0.1, 1.0])


def test_the_unperturbed_mean_is_evaluated_now_and_then(tiny: Callable[..., Config]) -> None:
    job = job_of(tiny("interference-maxvar", "run.evaluate_mean_every=3"))
    records: list[dict[str, np.ndarray]] = []
    train(job, first_state(job.config), None, lambda record: records.append(dict(record.arrays)))
    evaluated = [not np.isnan(record["mean_fitness"]) for record in records]
    assert evaluated == [True, False, False, True, False, False]


@pytest.mark.parametrize("preset", ["interference-maxvar", "interference-maxent"])
@pytest.mark.parametrize("seed", range(5))
def test_both_variants_find_the_most_evolvable_genome(preset: str, seed: int, tiny: Callable[..., Config]) -> None:
    settings = ("population.size=500", "run.generations=2000", "noise.size=1048576", f"run.seed={seed}")
    job = job_of(tiny(preset, *settings))
    genomes: list[float] = []
    train(job, first_state(job.config), None, lambda record: genomes.append(float(record.arrays["mean"][0, 0])))
    assert abs(np.mean(genomes[-100:]) - OPTIMUM) < 0.2
