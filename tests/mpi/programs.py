"""What the tests run under mpirun: `python programs.py NAME`; every rank checks, rank 0 prints."""

import sys

import numpy as np

from ees_mpi import machine, ranks
from ees_mpi.errors import ConfigError
from ees_mpi.noise import BLOCK, Noise, NoiseTable
from ees_mpi.ranks import Ranks


def gathers(world: Ranks) -> str:
    """Uneven parts, some of them empty, in rank order and in index order."""
    mine = np.full((world.rank % 3, 2), world.rank, np.float32)
    expected = [rank for rank in range(world.size) for _ in range(rank % 3)]
    np.testing.assert_array_equal(world.gather(mine)[:, 0], expected)
    for count in (11, 0, 3, 40):
        index = np.array(list(world.deal(count)), np.int64)
        np.testing.assert_array_equal(world.gather_by_index(index, index * 10, count), np.arange(count) * 10)
    counts = [len(share) for share in world.shares(5)]
    blocks = np.array(world.shares(5)[world.rank], np.int64)
    np.testing.assert_array_equal(world.gather(blocks, counts), np.arange(5))
    assert world.any(world.rank == world.size - 1) and not world.any(False)
    assert world.from_first(f"from {world.rank}".encode()) == b"from 0"
    assert len(world.hosts) == world.size
    return "ok"


def noise(world: Ranks) -> str:
    """One table per node, the same bits as made on demand."""
    size = 3 * BLOCK + 77
    table, lazy = NoiseTable(5, size, world), Noise(5, size)
    np.testing.assert_array_equal(table.row(0, size), lazy.row(0, size))
    return f"{world.node_size} ranks share it"


def together(world: Ranks) -> str:
    """An error of the last rank's is everyone's, with its class and text."""
    try:
        with world.together():
            if world.rank == world.size - 1:
                raise ConfigError(f"only rank {world.rank} saw this")
    except ConfigError as error:
        assert str(error) == f"only rank {world.size - 1} saw this" and error.collective
        return "ok"
    raise RuntimeError("no error came")


def out_of_step(world: Ranks) -> str:
    """One rank with other bits is named, on every rank, as an error that ends the job."""
    world.check_same(b"same" * 8, "the state")
    world.check_same(b"odd." * 8 if world.rank == 1 else b"same" * 8, "the state after generation 7")
    return "not reached"


def not_alike(world: Ranks) -> str:
    """One rank with another BLAS is named."""
    mine = machine.fingerprint()
    world.check_alike(mine)
    world.check_alike({**mine, "blas": "another BLAS"} if world.rank == 2 else mine)
    return "not reached"


def lonely_error(world: Ranks) -> str:
    """One of our errors on one rank only, outside `together`: the job ends with it."""
    if world.rank == 1:
        raise ConfigError("only rank 1 knows")
    world.gather(np.zeros(1))
    return "not reached"


def main(world: Ranks) -> None:
    said = globals()[sys.argv[1]](world)
    if world.first:
        print(said, flush=True)


machine.pin_threads()
ranks.run(main)
