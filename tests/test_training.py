from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.small_runs import job_of, trained

from ees_mpi.config import Config
from ees_mpi.outcomes import Outcome
from ees_mpi.state import State, first_state
from ees_mpi.tasks.interference import OPTIMUM, Interference


def test_advance_changes_nothing_in_place(tiny: Callable[..., Config]) -> None:
    job = job_of(tiny())
    state = first_state(job.config)
    digest = state.digest()
    record, following = job.advance(state, {})
    assert state.digest() == digest
    assert following.generation == 1 and record.generation == 0
    np.testing.assert_array_equal(record.arrays["mean"], state.mean)


def test_known_outcomes_are_reused_and_give_the_same_state(
    tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tiny())
    state = first_state(job.config)
    record, following = job.advance(state, {})
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

    monkeypatch.setattr(Interference, "open", lambda self, seed: Refusing())
    assert job_of(job.config).advance(state, known)[1].digest() == following.digest()


def test_a_state_survives_its_arrays(tiny: Callable[..., Config]) -> None:
    job = job_of(tiny("interference-maxvar", "optimizer.name=adam"))
    _, state = job.advance(first_state(job.config), {})
    assert State.from_arrays(state.arrays()).digest() == state.digest()


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
    mean, std = state.observation_mean_std()
    assert (mean == 0).all() and (std == 1).all() and len(mean) == 3


def test_observation_variance_is_floored() -> None:
    state = State(0, {"mean": np.zeros((1, 1), np.float32)}, {}, np.array([4.0, 8.0, 4.0, 16.0, 8.0]))
    mean, std = state.observation_mean_std()
    np.testing.assert_allclose(mean, [2.0, 1.0])
    np.testing.assert_allclose(std, [0.1, 1.0])


def test_the_unperturbed_mean_is_evaluated_now_and_then(tiny: Callable[..., Config]) -> None:
    records: list[dict[str, np.ndarray]] = []
    config = tiny("interference-maxvar", "run.evaluate_mean_every=3")
    trained(config, lambda record: records.append(dict(record.arrays)))
    evaluated = [not np.isnan(record["mean_fitness"]) for record in records]
    assert evaluated == [True, False, False, True, False, False]


@pytest.mark.parametrize("preset", ["interference-maxvar", "interference-maxent"])
@pytest.mark.parametrize("seed", range(5))
def test_both_variants_find_the_most_evolvable_genome(preset: str, seed: int, tiny: Callable[..., Config]) -> None:
    settings = ("population.size=500", "run.generations=2000", "noise.size=1048576", f"run.seed={seed}")
    genomes: list[float] = []
    trained(tiny(preset, *settings), lambda record: genomes.append(float(record.arrays["mean"][0, 0])))
    assert abs(np.mean(genomes[-100:]) - OPTIMUM) < 0.2
