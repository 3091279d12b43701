"""NSR-ES and NSRA-ES: the population `chosen` with the objective `nsr`."""

from typing import Any

import numpy as np
from support.small_runs import job_of

from ees_mpi import load_config
from ees_mpi.config import Config
from ees_mpi.generation.state import State, first_state
from ees_mpi.noise import Noise, stream
from ees_mpi.objectives.nsr import NoveltyReward
from ees_mpi.outcomes import Draw, Outcomes
from ees_mpi.ranks import Ranks

K, SIZE, D, STD, LR = 3, 11, 4, 0.3, 0.05


def task(z: Any) -> tuple[Any, float]:
    return np.sin(3 * z[:2]) + z[2:], float(z[0] - z[1] ** 2)


def config_of(**objective: Any) -> Config:
    return load_config(
        {
            "run": {"generations": 8, "seed": 4, "evaluate_mean_every": 0},
            "task": {"name": "function", "function": task, "parameters": D, "behavior_dim": 2, "start": 0.1},
            "population": {"name": "chosen", "size": SIZE, "std": STD, "components": K},
            "objective": {"name": "nsr", "neighbors": 2, **objective},
            "optimizer": {"name": "adam", "lr": LR},
            "noise": {"size": 1000},
        }
    )


def begin(config: Config) -> State:
    """Return a first state whose means differ."""
    first = first_state(config)
    means = np.random.default_rng(1).normal(size=(K, D)).astype(np.float32)
    return State(0, {"mean": means}, first.moments, first.observations)


def ranks_of(values: Any) -> Any:
    return np.argsort(np.argsort(values)) / (len(values) - 1) - 0.5


def novelty(behavior: Any, archive: list[Any]) -> float:
    return float(np.mean(sorted(np.linalg.norm(behavior - other) for other in archive)[:2]))


def test_the_updates_are_those_of_a_few_lines_with_a_loop_over_the_paper() -> None:
    config = config_of(share=1.0, change=0.25, patience=2)
    job, state, noise = job_of(config), begin(config), Noise(config.noise_seed, 1000)
    means, archive, moved, share, best, waited = state.mean.astype(float), [], None, 1.0, -np.inf, 0
    chances, moments = np.full(K, 1 / K), [(np.zeros(D), np.zeros(D), 0) for _ in range(K)]
    shares = []
    for generation in range(8):
        before = state
        record, state = job.advance(state)
        placed = [task(mean.astype(np.float32)) for mean in means]
        if moved is None:
            archive = [behavior for behavior, _ in placed]
        else:
            archive.append(placed[moved][0])
            waited += 1
            if placed[moved][1] > best:
                share, best, waited = min(1.0, share + 0.25), placed[moved][1], 0
            elif waited >= 2:
                share, waited = max(0.0, share - 0.25), 0
        shares.append(share)
        moved = int(stream(4, "choose", generation).choice(K, p=chances))
        assert record["parent"].tolist() == [*range(K), *[moved] * (SIZE - K)]
        eps = [
            sign * noise.row(offset, D) for offset, sign in zip(record["offset"], record["sign"], strict=True) if sign
        ]
        found = [task((means[moved] + STD * each).astype(np.float32)) for each in eps]
        weight = share * ranks_of([f for _, f in found]) + (1 - share) * ranks_of(
            [novelty(b, archive) for b, _ in found]
        )
        gradient = sum(w * each for w, each in zip(weight, eps, strict=True)) / (len(eps) * STD)
        first, second, steps = moments[moved]
        first, second, steps = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2, steps + 1
        moments[moved] = first, second, steps
        scale = np.sqrt(second / (1 - 0.999**steps)) + 1e-8
        novelties = np.array([novelty(behavior, archive) for behavior, _ in placed])
        chances = novelties / novelties.sum()
        means[moved] += LR * first / (1 - 0.9**steps) / scale
        np.testing.assert_allclose(state.mean, means, rtol=1e-4, atol=1e-5)
        means = state.mean.astype(float)
        others = [k for k in range(K) if k != moved]  # they keep their bits and their moments
        np.testing.assert_array_equal(state.mean[others], before.mean[others])
        for name, array in state.moments.items() if generation else ():
            np.testing.assert_array_equal(array[others], before.moments[name][others])
    assert len(set(shares)) > 1 and state.moments["steps"].sum() == 8 and (state.moments["steps"] > 0).sum() > 1


def test_the_archive_has_means_only_and_forgets_the_oldest() -> None:
    objective, memory = NoveltyReward(archive_size=4), {}
    draw = Draw(np.zeros(6, int), np.array([0, 0, 0, 1, -1, 1], np.int8), np.array([0, 1, 2, 1, 1, 1], np.int32))
    behaviors = np.random.default_rng(0).normal(size=(3, 6, 2))
    for behavior in behaviors:
        given = Outcomes(behavior, behavior[:, 0], np.ones(6, int), np.ones(6, bool), np.zeros((0, 1)), draw=draw)
        weights, memory = objective.weights(given, memory, Ranks())
        assert not weights[:3].any() and weights[3:].any()
    np.testing.assert_array_equal(memory["archive"], [*behaviors[0, 1:3], behaviors[1, 1], behaviors[2, 1]])


def test_a_mean_whose_rollout_failed_has_no_chance_and_is_not_archived() -> None:
    draw = Draw(np.zeros(6, int), np.array([0, 0, 0, 1, -1, 1], np.int8), np.array([0, 1, 2, 1, 1, 1], np.int32))
    behavior, valid = np.random.default_rng(0).normal(size=(6, 2)), np.array([True, False, True, True, True, True])
    behavior[1] = np.nan
    given = Outcomes(behavior, behavior[:, 0], np.ones(6, int), valid, np.zeros((0, 1)), draw=draw)
    weights, memory = NoveltyReward().weights(given, {}, Ranks())
    assert memory["chances"][1] == 0 and len(memory["archive"]) == 2 and np.isfinite(weights).all()


def test_fitness_that_cancels_novelty_moves_nothing_and_huge_behaviours_leave_finite_chances() -> None:
    draw = Draw(np.zeros(7, int), np.array([0, 1, -1, 1, -1, 1, -1], np.int8), np.zeros(7, np.int32))
    behavior = -np.arange(7.0)[:, None]
    given = Outcomes(behavior, behavior[:, 0], np.ones(7, int), np.ones(7, bool), np.zeros((0, 1)), draw=draw)
    assert not NoveltyReward(neighbors=1).weights(given, {}, Ranks())[0].any()
    huge = np.array([[1e200], [-1e200]])
    assert np.isfinite(NoveltyReward()._chances(huge, np.ones(2, bool), huge)).all()
