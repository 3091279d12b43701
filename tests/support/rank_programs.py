"""Programs that tests run under mpirun: `python rank_programs.py NAME ...`; every rank checks, rank 0 prints."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import machine, ranks
from ees_mpi.errors import ConfigError
from ees_mpi.noise import BLOCK, Noise, NoiseTable
from ees_mpi.ranks import Ranks, process


def gathers(world: Ranks) -> str:
    """Uneven parts, some of them empty, in rank order and in index order."""
    mine = np.full((world.rank % 3, 2), world.rank, np.float32)
    expected = [rank for rank in range(world.size) for _ in range(rank % 3)]
    np.testing.assert_array_equal(world.allgather(mine)[:, 0], expected)
    for count in (11, 0, 3, 40):
        index = np.array(list(world.hand_out(range(count))), np.int64)
        np.testing.assert_array_equal(world.allgather_by_index(index, index * 10, count), np.arange(count) * 10)
    cuts = world.cuts(5)
    mine = np.arange(*cuts[world.rank : world.rank + 2])
    np.testing.assert_array_equal(world.allgather(mine, np.diff(cuts)), np.arange(5))
    np.testing.assert_array_equal(world.each(world.rank), np.arange(world.size))
    np.testing.assert_array_equal(world.maximum(np.array([world.rank, -world.rank])), [world.size - 1, 0])
    assert world.any(world.rank == world.size - 1) and not world.any(False)
    assert world.broadcast(f"from {world.rank}".encode()) == b"from 0"
    assert len(world.hosts) == world.size
    return "ok"


def noise(world: Ranks) -> str:
    """One table per node, the same bits as made on demand."""
    size = 3 * BLOCK + 77
    table, lazy = NoiseTable(5, size, world), Noise(5, size)
    np.testing.assert_array_equal(table.row(0, size), lazy.row(0, size))
    if world.node_size > 1:  # no file would stay after a kill
        assert _segment_of(table.row(0, 1).ctypes.data).endswith("(deleted)")
    return f"{world.node_size} ranks share it"


def uneven_nodes(world: Any) -> str:
    """As if the last rank had a node for itself: it has a table of its own, and the ranks stay in step."""
    node = world._node
    world._node = node.Split(world.rank == world.size - 1)
    world.node_rank, world.node_size = world._node.rank, world._node.size
    row = NoiseTable(5, 2 * BLOCK, world).row(BLOCK, 1)
    np.testing.assert_array_equal(world.allgather(row), np.tile(Noise(5, 2 * BLOCK).row(BLOCK, 1), world.size))
    sizes = world.each(world.node_size).tolist()
    world._node.Free()
    world._node, world.node_rank, world.node_size = node, node.rank, node.size
    return f"{sizes}"


def one_table_per_node(world: Ranks) -> str:
    """The memory behind the table is one segment per node, the same for all of its ranks."""
    table = NoiseTable(5, 2 * BLOCK, world)
    segment = _segment_of(table.row(0, 1).ctypes.data)
    segments = world.each(np.array(segment, "S200"))
    return f"{world.nodes} nodes of {world.node_size} ranks, {len(set(segments.tolist()))} tables"


def _segment_of(address: int) -> str:
    """Name the mapped file, with its inode, that holds an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(end, 16) for end in line.split()[0].split("-"))
        if low <= address < high:
            return " ".join(line.split()[3:])
    raise RuntimeError("the address is not mapped")


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
    world.allgather(np.zeros(1))
    return "not reached"


def lost_rank(world: Any) -> str:
    """A rank is stopped: it cannot end itself, and the one that waits for it ends the job."""
    process.patience = lambda rank: 1.0 + 60.0 * rank  # on a busy machine the next one would tell it, too
    world.set_stall_limit(10.0)
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    world.allgather(np.zeros(1))
    return "not reached"


def main(world: Ranks) -> None:
    for name in sys.argv[1:]:
        said = globals()[name](world)
        if world.is_root:
            print(said, flush=True)


machine.pin_threads()
ranks.run(main)
