"""Placement and memory: pure functions."""

import numpy as np
import pytest

from ees_mpi.generation import Batch
from ees_mpi.tasks.mujoco.gpu_robots import watched_worlds
from ees_mpi.tasks.mujoco.gpu_rollouts import Placement, passes, rows_that_fit


def batch(
    offset: list[int], sign: list[int], parent: list[int] | None = None, observe: list[int] | None = None
) -> Batch:
    n = len(offset)
    return Batch(
        index=np.arange(n),
        means=np.zeros((2, 3), np.float32),
        std=0.1,
        offset=np.array(offset, np.int64),
        sign=np.array(sign, np.int8),
        parent=np.array(parent or [0] * n, np.int32),
        observe=np.array(observe or [0] * n, np.bool_),
    )


def check_placed(given: Batch, placed: Placement, width: int) -> None:
    """Check that every member sits where its own noise, sign and parent are."""
    assert len(set(placed.world.tolist())) == len(placed.member)
    for member, world in zip(placed.member, placed.world, strict=True):
        assert placed.sign[world] == given.sign[member] and placed.parent[world] == given.parent[member]
        if given.sign[member]:
            assert placed.offset[world // width] == given.offset[member]


@pytest.mark.parametrize(
    ("offset", "sign", "world"),
    [
        ([5, 5, 9, 9], [1, -1, 1, -1], [0, 1, 2, 3]),  # pairs share a row
        ([5, 5, 7, 0], [1, -1, -1, 0], [0, 1, 2, 3]),  # so do a lone individual and the mean
        ([4, 5, 5, 6, 6], [-1, 1, -1, 1, -1], [0, 2, 3, 4, 5]),  # a missing one does not shift the others
    ],
)
def test_individuals_with_the_same_noise_share_a_row(offset: list[int], sign: list[int], world: list[int]) -> None:
    given = batch(offset, sign, [0, 0, 1, 1, 1][: len(sign)])
    (placed,) = passes(given, rows=3, width=2, sampled=8)
    check_placed(given, placed, 2)
    assert sorted(placed.world.tolist()) == world


@pytest.mark.parametrize("width", [1, 2])
def test_a_batch_that_does_not_fit_is_run_in_several_passes(width: int) -> None:
    generator = np.random.default_rng(0)
    offset = np.repeat(generator.integers(0, 99, 20), 2)
    given = batch(offset.tolist(), [1, -1] * 20, observe=generator.integers(0, 2, 40).tolist())
    parts = list(passes(given, rows=4, width=width, sampled=3))
    for placed in parts:
        check_placed(given, placed, width)
        assert given.observe[placed.member].sum() <= 3 and len(placed.offset) == 4
    assert sorted(np.concatenate([placed.member for placed in parts]).tolist()) == list(range(40))


def test_rows_are_as_many_as_wanted_and_one_more_where_memory_allows() -> None:
    assert rows_that_fit(10_000, 2, free=10**12, fixed=0, per_row=10**6) == 5001
    assert rows_that_fit(10_001, 2, free=10**12, fixed=0, per_row=10**6) == 5002
    assert rows_that_fit(10_000, 2, free=10**9, fixed=10**8, per_row=10**6) == 800


def test_there_is_room_for_the_sampled_rollouts() -> None:
    assert watched_worlds(1.0, 10) == 10 and watched_worlds(0.0, 10_000) == 8
    draws = np.random.default_rng(0).binomial(10_000, 0.01, 10_000)
    assert draws.max() <= watched_worlds(0.01, 10_000) < 200
