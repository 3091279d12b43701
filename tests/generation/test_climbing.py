"""ES-MAML: its update is that of a few lines, and it counts its inner rollouts."""

from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from support.program import done, info, sets
from support.small_runs import job_of
from tqdm import tqdm

from ees_mpi import open_run
from ees_mpi.analysis import replay
from ees_mpi.commands.requests import ReplayRequest
from ees_mpi.config import Climbing, load
from ees_mpi.generation.climbing import climb, directions
from ees_mpi.generation.rollouts import adapted, rollouts_of
from ees_mpi.generation.state import first_state
from ees_mpi.noise import Noise, stream
from ees_mpi.outcomes import Outcome

SMALL = ("population.size=6", "climbing.queries=3", "task.steps=8", "task.hidden=[4]", "noise.size=9000")


def rolled(task: Any, z: Any) -> float:
    evaluator = task.open(0)
    outcome = evaluator.evaluate(0, z, np.zeros(task.observation_dim), np.ones(task.observation_dim), False)
    evaluator.close()
    return float(outcome.fitness)


def test_the_update_is_that_of_a_few_lines_with_a_loop_over_queries() -> None:
    off = ("task.observation_share=0.0", "optimizer.name=ascent", "optimizer.lr=0.5", "optimizer.l2=0.0")
    config = load("cheetah-es-maml", [*SMALL, *off])
    task, state, noise = config.task, first_state(config), Noise(config.noise_seed, 9000)
    record, following = job_of(config).advance(state)
    mean, values, eps = state.mean[0], [], []
    for index in range(6):
        eps.append(record["sign"][index] * noise.row(record["offset"][index], mean.size))
        best, sign = mean + np.float32(0.02) * eps[-1], directions(0, 0, 6, True)[index]
        value, generator = sign * rolled(task, best), stream(0, f"climb/{index}")
        for _ in range(3):
            tried = best + np.float32(0.02) * generator.standard_normal(mean.size, np.float32)
            if sign * rolled(task, tried) > value:
                best, value = tried, sign * rolled(task, tried)
        values.append(value)
    np.testing.assert_allclose(record["fitness"], values, rtol=1e-6)
    assert (record["length"] == 8 * 4).all() and len(set(values)) == 6
    ranks = np.argsort(np.argsort(values)) / 5 - 0.5
    gradient = sum(rank * each for rank, each in zip(ranks, eps, strict=True)) / (6 * 0.02)
    np.testing.assert_allclose(following.mean[0] - mean, 0.5 * gradient, rtol=1e-3, atol=1e-5)


def test_half_of_the_pairs_have_each_direction_and_generations_differ() -> None:
    drawn = [directions(0, generation, 20, True) for generation in range(20)]
    assert all((each[0::2] == each[1::2]).all() and each.sum() == 0 for each in drawn)
    assert len({each.tobytes() for each in drawn}) > 10


def test_failed_rollouts_are_never_better_and_their_steps_count() -> None:
    def evaluate(z: Any) -> Outcome:
        calls.append(z)
        return Outcome(0, (1.0,), float(z[0]), 5, valid=len(calls) in (2, 4))

    calls: list[Any] = []
    found, outcome = climb(evaluate, 1, np.zeros(2, np.float32), Climbing(queries=4, query_std=1.0), stream(0, "x"))
    assert outcome.valid and outcome.length == 25 and any(found is call for call in (calls[1], calls[3]))


def test_adapt_climbs_and_samples_do_not(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    done("train", "cheetah-es-maml", *sets(*SMALL, "run.generations=1"), "--out", path)
    assert info(path)["evaluations"] == 6 * 4 and info(path)["steps"] == 6 * 4 * 8  # with those of the climbs
    done("verify", path, "--updates")
    said = done("adapt", path, "--direction", "left", "--evaluations", 2, "--out", tmp_path / "a.h5").stdout
    assert "3 mutations, one after the other" in said
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["method"] == b"climbing" and file.attrs["adaptation_steps"] == 4 * 8
    said = done("adapt", path, "--direction", "left", "--mutations", 5, "--out", tmp_path / "b.h5").stdout
    assert "best of 5 mutations" in said
    done("sample", path, "--count", 3, "--out", tmp_path / "s.h5")
    with open_run(tmp_path / "s.h5") as sample:
        assert sample.config.method.name == "ees" and (sample["length"][0] == 8).all()
    done("measure", path, "--std", 0.02, "--count", 3, "--out", tmp_path / "m.h5")
    with open_run(tmp_path / "m.h5") as measured:
        assert (measured["length"][0] == 8).all()


def test_a_film_shows_the_rollout_after_the_adaptation(tmp_path: Path) -> None:
    done("train", "cheetah-es-maml", *sets(*SMALL, "run.generations=1"), "--out", tmp_path / "run.h5")
    with open_run(tmp_path / "run.h5") as file:
        evaluator, statistics = file.config.task.open(file.config.run.seed), file.observation_statistics(0)

        def limbs(z: Any) -> Any:
            evaluator.on_step = None
            evaluator.evaluate(0, z, *statistics, False)
            return evaluator.limbs()

        before = [file.individual(0, index) for index in range(6)]
        rollouts = [partial(rollouts_of, evaluator, file.config, 0, index, statistics, False) for index in range(6)]
        after = [adapted(rollouts[i], file.config, 0, i, z)[0] for i, z in enumerate(before)]
        climbed = [index for index in range(6) if (before[index] != after[index]).any()]
        assert climbed
        together = ReplayRequest(together=True)
        for index in climbed:
            place = replay.Choice(0, index)
            shown, replayed = replay._recorded(file, evaluator, place, together, 1, tqdm(disable=True))
            assert replayed.again.same and len(shown) == 9
            np.testing.assert_array_equal(shown[-1], limbs(after[index]))
            assert (shown[-1] != limbs(before[index])).any()
