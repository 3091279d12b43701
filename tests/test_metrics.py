"""The metrics, beside independent references: scipy's kernel density, mutations made by hand."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from ees_mpi.generation import Outcomes
from ees_mpi.metrics import METRICS, Sample, Settings
from ees_mpi.ranks import Ranks
from ees_mpi.spread import Scale, directions, saturation
from ees_mpi.strategy import density

NORMAL = np.random.default_rng(0).normal(3, 2, (200, 1))


def made(place: object, parent: object = None, components: int = 1, cell: float = 1.0, radius: float = 5.0) -> Sample:
    place = np.asarray(place, float)
    n, axes = place.shape
    outcomes = Outcomes(place, place[:, 0], np.ones(n, np.int64), np.ones(n, bool), np.zeros((0, 1)))
    of = np.zeros(n, np.int32) if parent is None else np.asarray(parent, np.int32)
    scale = Scale(np.full(axes, cell), radius)
    return Sample(outcomes, Settings(axes, places=axes, components=components), Ranks(), of, scale)


def measured(name: str, sample: Sample, **lengths: float) -> float:
    metric = METRICS[name]
    assert metric.compute and not metric.lacks(sample.settings)
    return float(metric.compute(made(sample.place, sample.parent, sample.settings.components, **lengths)))


def plane(seed: int, n: int = 300) -> np.ndarray:
    """Points in the plane that are correlated and of unlike scales."""
    return np.random.default_rng(seed).normal(size=(n, 2)) @ np.array([[3.0, 1.0], [0.0, 0.2]]) + [5, -7]


@pytest.mark.parametrize("cell", [0.3, 2.0])
@pytest.mark.parametrize("points", [NORMAL, plane(1)], ids=["line", "plane"])
def test_the_fixed_entropy_is_that_of_scipys_kernel_density_one_cell_wide(points: np.ndarray, cell: float) -> None:
    kernel = scipy.stats.multivariate_normal(cov=cell**2 * np.eye(points.shape[1]))
    p = [kernel.pdf(points - x).mean() for x in points]
    assert measured("entropy_fixed", made(points), cell=cell) == pytest.approx(-np.log(p).mean(), abs=2e-6)


def test_the_fixed_entropy_falls_when_a_cloud_parts_into_clumps_and_the_wide_one_does_not() -> None:
    generator = np.random.default_rng(0)
    one = generator.uniform(-10, 10, 1000)
    two = np.where(np.arange(1000) % 2, 1, -1) * generator.normal(9, 0.3, 1000)
    one, two = made(one[:, None]), made(two[:, None])
    fixed, wide = (
        [measured("entropy_fixed", each) for each in (one, two)],
        [density.entropy(each.outcomes, 1.0, Ranks()) for each in (one, two)],
    )
    assert fixed[1] < fixed[0] - 0.5 and wide[1] > wide[0]


def test_a_wild_place_does_not_make_the_fixed_entropy_blind() -> None:
    calm = NORMAL.copy()
    wild = np.concatenate([calm, [[1e90]]])
    assert measured("entropy_fixed", made(wild)) == pytest.approx(measured("entropy_fixed", made(calm)), abs=0.1)


def test_a_saturated_cell_is_told_and_a_fitting_one_is_not() -> None:
    assert "neighbours of each other" in saturation(made(NORMAL, cell=40.0).neighbours)
    assert "hardly any of the" in saturation(made(NORMAL, cell=2e-4).neighbours)
    assert saturation(made(NORMAL, cell=0.6).neighbours) == ""


def test_distances_shares_and_cells_of_offspring_made_by_hand() -> None:
    offspring = made([[3, 4], [0, 1], [0, -1], [-6, -8], [0.2, 1.3]])
    distance = np.array([5, 1, 1, 10, np.hypot(0.2, 1.3)])
    assert measured("distance_mean", offspring) == pytest.approx(distance.mean())
    assert measured("distance_max", offspring) == 10
    assert measured("distance_variance", offspring) == pytest.approx(distance.var())
    assert measured("near_origin", offspring) == pytest.approx(3 / 5)  # less than 5, not 5
    assert measured("near_origin", offspring, radius=20.0) == 1
    assert measured("coverage", offspring) == 4  # (0, 1) and (0.2, 1.3) are in one cell
    assert measured("coverage", offspring, cell=100.0) == 3  # quadrants
    assert measured("coverage", offspring, cell=0.1) == 5


def test_left_and_right_are_balanced_or_not() -> None:
    assert measured("balance", made([[-6], [-7], [6], [90]])) == 1
    assert measured("balance", made([[-6], [6], [7], [8]])) == pytest.approx(0.5)
    assert measured("balance", made([[6], [7]])) == 0
    assert METRICS["balance"].lacks(made(plane(1)).settings) == "a place on a line"


def test_a_ring_is_uniform_and_one_direction_is_not() -> None:
    angle = np.radians(np.arange(0, 360, 5) + 1)
    ring = made(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert measured("direction_uniformity", ring, radius=0.5) == pytest.approx(1)
    assert measured("direction_uniformity", made([[6, 0.1], [9, -0.1]])) == 0
    assert measured("direction_uniformity", made([[6, 0], [-6, 0]])) == pytest.approx(np.log(2) / np.log(12))
    shares = directions(np.array([[6, 0.01], [6, -0.01], [0, 6], [-6, 0]]))
    assert shares.tolist() == pytest.approx([0.5, 0, 0, 0.25, 0, 0, 0.25, 0, 0, 0, 0, 0])


def test_the_correlation_sees_a_ring_that_is_stretched_along_a_diagonal() -> None:
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert measured("correlation", made(ring)) == pytest.approx(0, abs=1e-12)
    assert measured("correlation", made(ring @ [[1, -0.9], [-0.9, 1]])) == pytest.approx(-1.8 / 1.81)
    third = np.column_stack([ring, ring[:, 0] - 0.1 * ring[:, 1]])  # the strongest of three pairs
    assert measured("correlation", made(third)) == pytest.approx(1 / np.sqrt(1.01))
    assert np.isnan(measured("correlation", made([[1, 0], [2, 0]])))
    assert METRICS["correlation"].lacks(made([[1.0], [2.0]]).settings)


@pytest.mark.parametrize(
    ("shift", "fits"), [(0.0, lambda value: abs(value) < 0.05), (20.0, lambda value: value > 0.99)]
)
def test_components_are_specialized_if_behavior_tells_them_apart(shift: float, fits: Callable[[float], bool]) -> None:
    parent = np.arange(300) % 2
    offspring = made(np.random.default_rng(4).normal(size=(300, 2)) + shift * parent[:, None], parent, 2)
    assert fits(measured("specialization", offspring))
    assert METRICS["specialization"].lacks(made(plane(1)).settings)


def test_an_objective_of_the_user_never_has_the_name_of_a_metric() -> None:
    settings = Settings(2, own=("spread", "spread", "entropy"))
    assert settings.own_names == ["spread", "spread_2", "entropy_2"] and settings.headline == "spread"


def test_an_objective_of_the_user_takes_no_column_of_another_number() -> None:
    settings = Settings(2, own=("generation", "std", "invalid"))
    assert settings.own_names == ["generation_2", "std_2", "invalid_2"]
