from typing import Any

import numpy as np
import pytest

from ees_mpi.noise import BLOCK, Noise, NoiseTable, stream
from ees_mpi.ranks import Ranks


def test_the_table_and_the_blocks_made_on_demand_are_the_same_bits() -> None:
    size = 2 * BLOCK + 1000
    table, lazy = NoiseTable(7, size, Ranks()), Noise(7, size)
    for offset, count in [(0, 10), (BLOCK - 5, 10), (BLOCK - 5, BLOCK + 10), (size - 3, 3)]:
        np.testing.assert_array_equal(table.row(offset, count), lazy.row(offset, count))
        assert table.row(offset, count).size == count


class SecondOfTwo(Ranks):
    """A rank whose neighbour fills its part of the table late: at the barrier of the node."""

    node_rank, node_size = 1, 2

    def shared_array(self, count: int, dtype: Any, beside: int = 0) -> Any:
        self.array = np.zeros(count, dtype)
        return self.array

    def node_barrier(self) -> None:
        self.own = self.array[BLOCK : 2 * BLOCK].copy()
        self.array[:BLOCK] = Noise(7, self.array.size).row(0, BLOCK)


def test_a_table_is_read_after_all_ranks_of_the_node_have_filled_it() -> None:
    ranks, size = SecondOfTwo(), 2 * BLOCK
    np.testing.assert_array_equal(NoiseTable(7, size, ranks).row(0, size), Noise(7, size).row(0, size))
    np.testing.assert_array_equal(ranks.own, Noise(7, size).row(BLOCK, BLOCK))  # the others may read it from then on


def test_bits_depend_on_the_seed_and_digest_tells_seed_and_size() -> None:
    digests = {Noise(seed, size).digest() for seed, size in [(1, 1000), (2, 1000), (1, 1001)]}
    assert len(digests) == 3
    assert Noise(1, 1000).digest() == Noise(1, 1000).digest()


def test_noise_is_standard_normal() -> None:
    values = Noise(0, BLOCK).row(0, BLOCK)
    assert abs(values.mean()) < 0.01 and abs(values.std() - 1) < 0.01
    assert np.abs(values).max() > 4


def test_a_table_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        NoiseTable(0, 100, Ranks()).row(0, 10)[0] = 1


def test_a_stream_depends_on_seed_purpose_and_counter_only() -> None:
    first = stream(3, "draw", 5).integers(0, 1 << 40, 8)
    stream(3, "noise", 5).random(100)
    np.testing.assert_array_equal(first, stream(3, "draw", 5).integers(0, 1 << 40, 8))


def test_streams_differ_in_each_part_of_their_key() -> None:
    keys = [(3, "draw", 5), (4, "draw", 5), (3, "noise", 5), (3, "draw", 6)]
    assert len({stream(*key).integers(0, 1 << 62) for key in keys}) == len(keys)
