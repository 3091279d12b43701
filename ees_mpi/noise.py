"""Random streams, and the noise table of standard normal floats: every perturbation is a slice of it.

Every random number of a run comes from a stream (seed, purpose, generation). It is drawn as part of a whole vector, the
same on every rank, so that no number depends on the number of ranks or on earlier draws.

Salimans et al. 2017 (arXiv:1703.03864). The table consists of fixed blocks, each from its own counter-based random
stream, so its bits depend on seed and size only. The ranks of a node fill it together; a reader of a run file
generates only the blocks that it needs.
"""

import hashlib
import weakref

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ees_mpi.arrays import Singles
from ees_mpi.ranks import Ranks

BLOCK = 1 << 18
KEPT = 8  # blocks, by a reader


def stream(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """Return the Philox generator for one purpose; `counter`: for example the generation."""
    name = f"{seed}/{purpose}/{counter}".encode()
    key = np.frombuffer(hashlib.blake2b(name, digest_size=16).digest(), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key))


class Noise:
    """The noise table, generated block by block when it is read."""

    def __init__(self, seed: int, size: int):
        self.seed = seed
        self.size = size
        self._blocks: dict[int, Singles] = {}  # those used last; a cache of functools would keep a table alive

    def _make_block(self, block: int) -> Singles:
        values = np.empty(min(BLOCK, self.size - block * BLOCK), np.float32)
        stream(self.seed, "noise", block).standard_normal(out=values, dtype=np.float32)
        return values

    def _block(self, block: int) -> Singles:
        values = self._blocks.pop(block, None)
        if values is None:
            values = self._make_block(block)
        self._blocks[block] = values
        if len(self._blocks) > KEPT:
            del self._blocks[next(iter(self._blocks))]
        return values

    def row(self, offset: int, count: int) -> Singles:
        """Return `count` values from `offset` on. Do not write to them."""
        first, last = offset // BLOCK, (offset + count - 1) // BLOCK
        blocks = [self._block(block) for block in range(first, last + 1)]
        values = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return values[offset - first * BLOCK :][:count]

    def rows(self, offsets: NDArray[np.int64], count: int) -> Singles:
        """Return a row of `count` values for each offset."""
        return np.stack([self.row(offset, count) for offset in offsets.tolist()])

    def digest(self) -> str:
        """Return a digest of three blocks, which differs if the generator, the seed or the size differs."""
        blocks = -(-self.size // BLOCK)
        digest = hashlib.sha256(f"{self.size} floats in blocks of {BLOCK}".encode())
        for block in sorted({0, blocks // 2, blocks - 1}):
            digest.update(self._block(block).tobytes())
        return digest.hexdigest()


class NoiseTable(Noise):
    """The whole table in the memory of the node, shared by its ranks."""

    def __init__(self, seed: int, size: int, ranks: Ranks, beside: int = 0):
        """Fill the table; `beside`: bytes that each rank of the node needs besides."""
        super().__init__(seed, size)
        self.table: Singles = ranks.shared_array(size, np.float32, beside)
        for block in range(ranks.node_rank, -(-size // BLOCK), ranks.node_size):
            self.table[block * BLOCK : (block + 1) * BLOCK] = self._make_block(block)
        ranks.node_barrier()
        self.table.flags.writeable = False

    def _block(self, block: int) -> Singles:
        return self.table[block * BLOCK : (block + 1) * BLOCK]

    def row(self, offset: int, count: int) -> Singles:
        return self.table[offset : offset + count]

    def rows(self, offsets: NDArray[np.int64], count: int) -> Singles:
        return sliding_window_view(self.table, count)[offsets]


_TABLES: "weakref.WeakValueDictionary[tuple[int, int], NoiseTable]" = weakref.WeakValueDictionary()


def shared_table(seed: int, size: int, ranks: Ranks, beside: int = 0) -> NoiseTable:
    """Return the table of this seed and size; while a part of this program uses it, others get the same one.

    It is called on all ranks together. Its memory is freed with the last object that uses it.
    """
    table = _TABLES.get((seed, size))
    if ranks.any(table is None) or table is None:  # ranks free it at different times: those that have it fill it anew
        table = _TABLES[seed, size] = NoiseTable(seed, size, ranks, beside)
    return table
