import numpy as np
import pytest
from support.outcomes import in_parts

from ees_mpi.ranks import Ranks
from ees_mpi.strategy.density import COLUMNS, ROWS, kernel_sums


@pytest.mark.parametrize("count", [1, 5, ROWS, ROWS + 1, COLUMNS + 9])
@pytest.mark.parametrize("dim", [1, 2])
def test_kernel_sums_match_a_direct_sum_in_double(count: int, dim: int) -> None:
    generator = np.random.default_rng(count)
    x, v = generator.normal(size=(count, dim)), generator.random(count) + 0.5
    rows = range(0, count, max(1, count // 7))
    direct = [(v * np.exp(-np.square(x[i] - x).sum(axis=1) / (2 * 0.7**2))).sum() for i in rows]
    np.testing.assert_allclose(kernel_sums(x, 0.7, Ranks(), v)[list(rows)], direct, rtol=1e-6)


def test_sums_are_the_same_bits_however_the_rows_are_shared_out() -> None:
    x = np.random.default_rng(0).normal(size=(3 * ROWS + 5, 2))
    np.testing.assert_array_equal(in_parts(lambda part: kernel_sums(x, 1.0, part)), kernel_sums(x, 1.0, Ranks()))
