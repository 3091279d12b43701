"""The closed forms against numerical derivatives of what they claim to be the derivative of."""

from collections.abc import Callable

import numpy as np
import pytest
from support.outcomes import outcomes

from ees_mpi.arrays import Floats, Normalization
from ees_mpi.config.methods import Evolution
from ees_mpi.generation import centred_ranks
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.density import width
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.maxent import MaxEnt
from ees_mpi.strategy.objectives.maxvar import MaxVar

SECTIONS = {
    "blend": {"name": "blend", "parts": [{"name": "fitness", "share": 1}, {"name": "maxent", "share": 1}]},
    "custom": {"name": "custom", "function": "ees_mpi.strategy.scg.surrogates:maxent"},
    "weights": {"name": "weights", "function": f"{__name__}:squares"},
    "ranked maxvar": {"name": "maxvar", "normalization": "ranks"},
    "ranked maxent": {"name": "maxent", "normalization": "ranks"},
}


def squares(behaviors: Floats, fitness: Floats) -> Floats:
    return np.asarray(np.square(behaviors).sum(axis=1))


def derivative(objective: Callable[[Floats], float], count: int) -> Floats:
    """Central differences with respect to every likelihood ratio, at 1."""
    step = 1e-5
    plus = [objective(np.ones(count) + step * row) for row in np.eye(count)]
    minus = [objective(np.ones(count) - step * row) for row in np.eye(count)]
    return (np.array(plus) - np.array(minus)) / (2 * step)


def centred(weights: Floats) -> Floats:
    return weights - weights.mean()


@pytest.mark.parametrize("normalization", ["whiten", "ranks"])
def test_maxvar_is_the_derivative_of_the_trace_of_the_covariance(normalization: Normalization) -> None:
    given = outcomes()
    b = given.normalised(normalization)

    def trace(r: Floats) -> float:
        mean = (r[:, None] * b).mean(axis=0)  # the nested expectation, with ratios of its own
        return float((r[:, None] * (b - mean) ** 2).mean(axis=0).sum())

    weights = MaxVar(normalization=normalization).weights(given, {}, Ranks())
    np.testing.assert_allclose(weights, centred(derivative(trace, 40)), atol=1e-8)


@pytest.mark.parametrize("normalization", ["whiten", "ranks"])
@pytest.mark.parametrize(("dim", "bandwidth"), [(1, 1.0), (2, 1.0), (3, 0.4)])
def test_maxent_is_the_derivative_of_kernel_entropy(dim: int, bandwidth: float, normalization: Normalization) -> None:
    given = outcomes(dim=dim)
    b = given.normalised(normalization)
    kernel = np.exp(-np.square(b[:, None] - b[None]).sum(axis=2) / (2 * bandwidth**2))

    def entropy(r: Floats) -> float:
        return float(-(r * np.log((kernel * r).mean(axis=1))).mean())

    weights = MaxEnt(bandwidth=bandwidth, normalization=normalization).weights(given, {}, Ranks())
    np.testing.assert_allclose(weights, centred(derivative(entropy, 40)), atol=2e-7)


def by_hand(x: Floats, unit: float = 1.0) -> float:
    """Scott's rule for components [N, d] that vary; `unit`: their standard deviation."""
    low, high = np.percentile(x, [25, 75], axis=0)
    parts = [(iqr / unit) / 1.349 for iqr in high - low if iqr > 0]
    return float(len(x) ** (-1 / (x.shape[1] + 4)) * min([1.0, *parts]) * unit)


def test_scotts_rule_narrows_for_outliers_and_passes_over_constant_components_and_ranges_of_zero() -> None:
    given = outcomes(60, 2, invalid=(3, 5))
    assert width(given, "scott") == by_hand(given.whitened) < 58 ** (-1 / 6)  # cubes have long tails
    given = outcomes(60, 3, invalid=(3, 5))
    given.behavior[:, 1] = 1 / 3
    assert width(given, "scott") == by_hand(given.whitened[:, [0, 2]])
    given = outcomes(60, 2)
    given.behavior[:] = np.arange(60)[:, None]
    given.behavior[6:, 1] = 7.0  # nine of ten are equal: the range between the quartiles is 0
    assert width(given, "scott") == by_hand(given.whitened) == pytest.approx(60 ** (-1 / 6))
    given = outcomes(60, 2)
    given.behavior[:] = 0.1
    assert width(given, "scott") == 60 ** (-1 / 4)


def test_scotts_rule_counts_ranks_in_their_standard_deviation_which_outliers_do_not_change() -> None:
    given = outcomes(60, 2)
    ranks = given.normalised("ranks")
    assert width(given, "scott", "ranks") == pytest.approx(60 ** (-1 / 6) * ranks[:, 0].std())
    given = outcomes(60, 1)
    given.behavior[10:, 0] = np.repeat([1.0, 2.0], [40, 10])
    ranks = given.normalised("ranks")
    assert width(given, "scott", "ranks") == pytest.approx(by_hand(ranks, ranks.std()))


def test_maxent_and_a_blend_have_scotts_width_unless_one_is_given() -> None:
    given = outcomes(60, 2)
    expected = MaxEnt(bandwidth=width(given, "scott")).weights(given, {}, Ranks())
    np.testing.assert_array_equal(MaxEnt().weights(given, {}, Ranks()), expected)
    sections = {"objective": SECTIONS["blend"], "optimizer": {"name": "adam"}}
    assert Evolution.build(sections).bandwidth == MaxEnt().bandwidth == "scott"
    parts = [{"name": "maxvar", "share": 1}, {"name": "maxent", "share": 0, "bandwidth": 0.3}]
    sections["objective"] = {"name": "blend", "parts": parts}
    assert Evolution.build(sections).bandwidth == 0.3  # of the first part with a kernel, which the logged entropy has


def test_fitness_ranks_are_symmetric_and_ties_share_their_mean_rank() -> None:
    np.testing.assert_allclose(centred_ranks(np.array([3.0, 1.0, 2.0])), [0.5, -0.5, 0.0])
    np.testing.assert_allclose(centred_ranks(np.array([1.0, 2.0, 2.0, 9.0])), [-0.5, 0.0, 0.0, 0.5])
    np.testing.assert_allclose(centred_ranks(np.array([5.0, 5.0, 5.0])), 0.0)
    assert centred_ranks(np.array([4.0])) == 0.0
    ranks = centred_ranks(np.random.default_rng(0).integers(0, 9, 50).astype(float))
    assert abs(ranks.sum()) < 1e-12


@pytest.mark.parametrize("name", [*OBJECTIVES, "ranked maxvar", "ranked maxent"])
def test_weights_have_mean_zero_and_invalid_rollouts_have_none_and_change_no_other(name: str) -> None:
    objective = OBJECTIVES.build(SECTIONS.get(name, {"name": name}))
    given = outcomes(40, 2, invalid=(0, 7, 39))
    keep = given.valid
    alone = given.at(np.flatnonzero(keep))
    weights = objective.weights(given, {}, Ranks())
    reference = objective.weights(alone, {}, Ranks())
    np.testing.assert_array_equal(weights[keep], reference)
    assert (weights[~keep] == 0).all() and abs(weights.sum()) < 1e-12


@pytest.mark.parametrize("name", [*OBJECTIVES, "ranked maxvar", "ranked maxent"])
def test_weights_are_exactly_zero_if_all_individuals_are_alike(name: str) -> None:
    objective = OBJECTIVES.build(SECTIONS.get(name, {"name": name}))
    for size in (100, 1000):
        alike = outcomes(size, 2)
        alike.behavior[:] = alike.fitness[:] = alike.by_start[:] = 0.1
        assert not objective.weights(alike, {}, Ranks()).any(), size


def test_a_constant_component_is_zero_whitened_and_ranked() -> None:
    given = outcomes()
    given.behavior[:, 1] = 1e6 / 3
    assert (given.whitened[:, 1] == 0).all() and (given.normalised("ranks")[:, 1] == 0).all()
    np.testing.assert_allclose(given.whitened[:, 0].std(), 1.0)
    np.testing.assert_allclose(given.whitened[:, 0].mean(), 0.0, atol=1e-12)
