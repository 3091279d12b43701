"""The objective `repeatable`: its closed form, and a task in which luck and skill pull in different directions."""

import numpy as np
import pytest

import ees_mpi
from ees_mpi.arrays import Floats
from ees_mpi.config import load
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives.repeatable import Repeatable, standardised

NOISE = {"noise": {"size": 200_000}}


def outcomes(starts: int, dim: int, common: bool, count: int = 60) -> Outcomes:
    """Return outcomes with a part of the mutation, a part of the start, and noise; some are invalid."""
    generator = np.random.default_rng(starts + dim)
    shape = (1, starts, dim) if common else (count, starts, dim)
    by_start = generator.normal(2.0, 3.0, (count, 1, dim)) + generator.normal(size=shape)
    by_start = by_start + generator.normal(size=(count, starts, dim))
    valid = generator.random(count) > 0.1
    by_start[~valid] = np.nan
    nothing = np.zeros((0, 1))
    return Outcomes(by_start.mean(axis=1), np.zeros(count), np.ones(count, int), valid, nothing, by_start, common)


@pytest.mark.parametrize("common", [False, True], ids=["own", "common"])
@pytest.mark.parametrize(("starts", "dim"), [(2, 1), (2, 2), (4, 3)])
def test_weights_are_the_derivative_of_the_covariance_between_starts(starts: int, dim: int, common: bool) -> None:
    given = outcomes(starts, dim, common)
    closed = Repeatable().weights(given, {}, Ranks())
    assert given.by_start is not None
    b = standardised(given.by_start[given.valid], common)
    pairs = [(s, t) for s in range(starts) for t in range(starts) if s != t]

    def covariance(r: Floats) -> float:
        mean = (r[:, None, None] * b).mean(axis=0 if common else (0, 1)) * np.ones((starts, dim))
        products = [(r[:, None] * (b[:, s] - mean[s]) * (b[:, t] - mean[t])).mean(axis=0).sum() for s, t in pairs]
        return float(np.mean(products))

    step = 1e-5
    moved = [[covariance(np.ones(len(b)) + sign * step * row) for row in np.eye(len(b))] for sign in (1, -1)]
    numerical = (np.array(moved[0]) - np.array(moved[1])) / (2 * step)
    np.testing.assert_allclose(closed, given.centred(numerical), atol=1e-8)


def test_one_start_is_refused() -> None:
    with pytest.raises(ees_mpi.ConfigError, match=r"two or more"):
        Repeatable().weights(Outcomes(np.ones((4, 1)), *3 * (np.ones(4, bool),), np.zeros((0, 1))), {}, Ranks())
    config = load("cheetah-maxvar", ["objective.name=repeatable", "task.rollouts=2", "task.starts=own"])
    config.method.check(config.task, config.population)


def luck_over_skill(objective: str) -> float:
    """Return y^2 / x^2 after some generations from x = y = 1; the behaviour is x^2 + 2 y^2 xi, xi = +1 or -1."""
    about = {"size": 500, "std": 0.5, "seed": 0, "rollouts": 2, "starts": "own"}
    ascent = {"name": "ascent", "lr": 0.1}
    with ees_mpi.Strategy(np.ones(2), objective, optimizer=ascent, config=NOISE, **about) as es:
        for _ in range(60):
            x, y = es.ask().T[:, :, None]
            behavior = x**2 + 2 * y**2 * np.where(es.seeds % 2, 1.0, -1.0)
            es.tell(behavior)
        return float(es.mean[1] ** 2 / es.mean[0] ** 2)


def test_maxvar_climbs_luck_and_repeatable_climbs_skill() -> None:
    assert luck_over_skill("maxvar") > 2
    assert luck_over_skill("repeatable") < 0.5
