import numpy as np
import pytest
from support.outcomes import in_parts

from ees_mpi.generation import Draw
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.populations.normal import Normal
from ees_mpi.strategy.populations.weighted import WIDE, weighted_noise

D = WIDE + 100


def setting(antithetic: bool = True, size: int = 300) -> tuple[Normal, NoiseTable, Draw, dict[str, np.ndarray]]:
    population = Normal(size=size, std=0.02, antithetic=antithetic)
    noise = NoiseTable(1, 4 * D, Ranks())
    drawn = population.draw(stream(1, "draw"), noise, D)
    mean = np.random.default_rng(0).normal(size=(1, D)).astype(np.float32)
    return population, noise, drawn, {"mean": mean}


@pytest.mark.parametrize(("antithetic", "size"), [(True, 300), (False, 300), (True, 10_000)])
def test_the_gradient_is_the_weighted_sum_of_scores_within_a_millionth(antithetic: bool, size: int) -> None:
    population, noise, drawn, learned = setting(antithetic, size)
    weights, exact = np.random.default_rng(2).normal(size=size), np.zeros(D)
    for weight, sign, offset in zip(weights, drawn.sign, drawn.offset, strict=True):
        exact += weight * sign / population.std * noise.row(offset, D).astype(np.float64)
    gradient = population.gradient(weights, drawn, learned, noise, Ranks())["mean"]
    assert gradient.shape == (1, D)
    assert np.linalg.norm(gradient[0] - exact) < 1e-6 * np.linalg.norm(exact)


def test_offsets_reach_both_ends_of_the_table_and_not_beyond() -> None:
    population = Normal(size=2000, std=1.0)
    noise = NoiseTable(0, 10, Ranks())
    drawn = population.draw(stream(0, "draw"), noise, 3)
    assert drawn.offset.min() == 0 and drawn.offset.max() == 7


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 1500, 40_000])
def test_the_weighted_sum_has_the_same_bits_however_it_is_cut(size: int) -> None:
    noise = NoiseTable(3, 200_000, Ranks())
    generator = np.random.default_rng(size)
    offset, coefficient = generator.integers(0, noise.size - size, 150), generator.normal(size=150)
    whole = weighted_noise(coefficient, offset, size, noise, Ranks())
    assert whole.shape == (size,)
    for count in (2, 3, 30):
        parts = in_parts(lambda part: weighted_noise(coefficient, offset, size, noise, part), count)
        np.testing.assert_array_equal(parts, whole)
