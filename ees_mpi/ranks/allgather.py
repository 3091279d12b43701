"""An allgather in three steps: to the leader of each node, between the leaders, and back to the ranks of each node.

The non-blocking allgather of MPI sends a message from every rank to every other rank: P (P - 1) messages. Here a node
sends and receives ceil(log2(nodes)) messages, and its network carries the data once instead of once for each rank. The
leaders exchange their data as in Bruck et al. 1997 (IEEE Trans. Parallel Distrib. Syst. 8, 1143).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

TAG = 4  # of the messages between leaders
Bytes = NDArray[np.uint8]


class Allgather:
    """Gathers bytes of all ranks on every rank; made on all ranks together."""

    def __init__(self, comm: Any, node: Any, leaders: NDArray[np.int64], wait: Callable[[Any], None]):
        """Note the nodes; `leaders` [P]: the lowest rank on the node of each rank."""
        self._comm, self._node, self._wait = comm, node, wait
        self._leaders = np.unique(leaders)
        self._by_node = np.argsort(leaders, kind="stable")  # the ranks of the first node, of the second node, ...
        self._node_of = np.searchsorted(self._leaders, leaders)  # [P]
        self._here = int(self._node_of[comm.rank])
        self._requests: list[Any] = []  # keeps the buffers alive: MPI may write to them after the death of a rank

    def __call__(self, mine: Bytes, sizes: NDArray[np.int64]) -> Bytes:
        """Return the bytes of all ranks, in rank order; `sizes` [P]: those of each rank."""
        everything = np.empty(sizes.sum(), np.uint8)
        node_sizes = np.bincount(self._node_of, sizes, len(self._leaders)).astype(np.int64)
        if self._node.rank == 0:
            place = int(node_sizes[: self._here].sum())
            own = everything[place : place + int(node_sizes[self._here])]
            self._to_leader(mine, own, sizes)
            if len(self._leaders) > 1:
                everything = self._between_leaders(own, node_sizes)
        else:
            self._to_leader(mine, None, sizes)
        if self._node.size > 1:
            self._finish(self._node.Ibcast(everything, 0))
        return self._in_rank_order(everything, sizes)

    def _finish(self, *requests: Any) -> None:
        self._requests = list(requests)
        for request in requests:
            self._wait(request)

    def _to_leader(self, mine: Bytes, own: Bytes | None, sizes: NDArray[np.int64]) -> None:
        if self._node.size == 1 and own is not None:
            own[:] = mine
            return
        counts = sizes[self._node_of == self._here].tolist()
        self._finish(self._node.Igatherv(mine, None if own is None else [own, counts], 0))

    def _between_leaders(self, own: Bytes, node_sizes: NDArray[np.int64]) -> Bytes:
        """Return the bytes of all nodes. After a round, a leader has those of twice as many nodes, from its own on."""
        nodes = len(node_sizes)
        ends = np.concatenate([[0], np.cumsum(np.roll(node_sizes, -self._here))]).tolist()
        ring = np.empty(ends[-1], np.uint8)
        ring[: len(own)] = own
        have = 1
        while have < nodes:
            more = min(have, nodes - have)
            after, before = (int(self._leaders[(self._here + step) % nodes]) for step in (have, -have))
            receive = self._comm.Irecv(ring[ends[have] : ends[have + more]], after, TAG)
            self._finish(receive, self._comm.Isend(ring[: ends[more]], before, TAG))
            have += more
        return np.roll(ring, int(node_sizes[: self._here].sum()))

    def _in_rank_order(self, everything: Bytes, sizes: NDArray[np.int64]) -> Bytes:
        if (self._by_node[1:] > self._by_node[:-1]).all():
            return everything
        parts = np.split(everything, np.cumsum(sizes[self._by_node])[:-1])
        return np.concatenate([parts[place] for place in np.argsort(self._by_node)])
