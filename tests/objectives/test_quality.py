import numpy as np
import pytest
from support.outcomes import outcomes

from ees_mpi.noise import Noise, stream
from ees_mpi.objectives.quality import QualityEvolvability, fronts
from ees_mpi.outcomes import Floats
from ees_mpi.populations.normal import Normal
from ees_mpi.ranks import Ranks


def better(one: Floats, other: Floats) -> bool:
    return bool((one >= other).all() and (one > other).any())


def peeled(both: Floats) -> list[list[int]]:
    """Return the fronts, found by comparing all with all and taking away one front after the other."""
    left, found = set(range(len(both))), []
    while left:
        found.append([i for i in sorted(left) if not any(better(both[j], both[i]) for j in left)])
        left -= set(found[-1])
    return found


def reference_order(both: Floats) -> list[int]:
    """Return the individuals from worst to best, as NSGA-II orders them."""
    crowding = np.zeros(len(both))
    for front in peeled(both):
        for column in both.T:
            line = sorted(front, key=lambda i: column[i])
            crowding[[line[0], line[-1]]] = np.inf
            for before, here, after in zip(line, line[1:], line[2:], strict=False):
                crowding[here] += (column[after] - column[before]) / np.ptp(column)
    number = {i: place for place, front in enumerate(peeled(both)) for i in front}
    return sorted(range(len(both)), key=lambda i: (-number[i], crowding[i]))


@pytest.mark.parametrize("count", [5, 40, 200])
def test_the_update_is_the_noise_weighted_with_the_ranks_of_nsga_2(count: int) -> None:
    given, noise = outcomes(count), Noise(0, 1000)
    evolvability = ((given.behavior - given.behavior.mean(axis=0)) ** 2).sum(axis=1)
    both = np.stack([given.fitness, evolvability], axis=1)
    order = reference_order(both)
    rank = np.zeros(count)
    rank[order] = np.linspace(-0.5, 0.5, count)
    ends = [
        sorted({min(front, key=lambda i: both[i, 0]), max(front, key=lambda i: both[i, 0])}) for front in peeled(both)
    ]
    for tied in ends:  # both ends of a front are infinitely far from the others: they share their mean rank
        rank[tied] = rank[tied].mean()
    population = Normal(size=count, std=0.1, antithetic=False)
    draw = population.draw(stream(0, "draw"), noise, 7)
    weights, _ = QualityEvolvability().weights(given, {}, Ranks())
    gradient = population.gradient(weights, draw, {"mean": np.zeros((1, 7), np.float32)}, noise, Ranks())["mean"][0]
    expected = sum(rank[i] * noise.row(draw.offset[i], 7) for i in range(count)) / (count * 0.1)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_fronts_are_those_of_comparing_all_with_all_also_with_equal_numbers() -> None:
    points = np.unique(np.random.default_rng(0).integers(0, 9, (60, 2)).astype(float), axis=0)
    number = {i: place for place, front in enumerate(peeled(points)) for i in front}
    assert fronts(points).tolist() == [number[i] for i in range(len(points))]


def test_neither_the_unit_of_the_fitness_nor_that_of_the_behavior_matters() -> None:
    given, scaled = outcomes(), outcomes()
    scaled.fitness[:] *= 1024
    scaled.behavior[:] /= 32
    weights = [QualityEvolvability().weights(each, {}, Ranks())[0] for each in (given, scaled)]
    np.testing.assert_array_equal(*weights)


def test_individuals_with_equal_fitness_and_evolvability_have_equal_weights() -> None:
    given = outcomes()
    given.behavior[3], given.fitness[3] = given.behavior[17], given.fitness[17]
    weights, _ = QualityEvolvability().weights(given, {}, Ranks())
    assert weights[3] == weights[17] and len(np.unique(weights)) > 30
