import numpy as np

from ees_mpi.noise import stream


def test_a_stream_depends_on_seed_purpose_and_counter_only() -> None:
    first = stream(3, "draw", 5).integers(0, 1 << 40, 8)
    stream(3, "noise", 5).random(100)
    np.testing.assert_array_equal(first, stream(3, "draw", 5).integers(0, 1 << 40, 8))


def test_streams_differ_in_each_part_of_their_key() -> None:
    keys = [(3, "draw", 5), (4, "draw", 5), (3, "noise", 5), (3, "draw", 6)]
    assert len({stream(*key).integers(0, 1 << 62) for key in keys}) == len(keys)
