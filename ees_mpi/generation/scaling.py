"""A model of the seconds of a generation on many ranks, from costs that one process measures.

    predict(ranks, nodes, work, network) -> Phases(evaluate, gather, update, commit) in seconds; `.generation`: the sum

    evaluate   W = ceil(N / P) t. The slowest rollout takes r t and begins at a random time u in [0, W - t], so the
               phase takes the mean over u of max(W, u + r t). A node that takes s times as long soon gets fewer
               individuals: times nodes / (nodes - 1 + 1 / s), and at least s t.
    gather     G (m + latency ceil(log2 nodes)) + b bytes + bytes / bandwidth, for G gathers
    update     fixed + each ceil(N / P) + split / min(P, N / 16)
    commit     rank 0 alone: the same for any number of ranks

m and b are times of a processor. Ranks that share a core (P / nodes > cores) multiply the gather's m and b, and the
update; rollouts that compute need a core for each rank. m and b were fitted to measurements;
`ees-mpi docs thousand-ranks` has them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from ees_mpi.density import ROWS
from ees_mpi.generation.costs import Costs


@dataclass(frozen=True)
class Network:
    """The costs of a gather. The first two are assumed; the last two were fitted on 1, 4 and 16 ranks."""

    latency: float = 30e-6  # seconds of a message between nodes
    bandwidth: float = 1e9  # bytes per second into a node
    message: float = 460e-6  # seconds of a processor for each gather, on every rank
    byte: float = 2e-9  # seconds of a processor for each byte that a rank receives


NETWORK = Network()
GATHERS = 12  # in a generation of MaxEnt with observations
ERROR = 0.2  # of the model on 64, 128 and 256 ranks, which were not fitted: the largest, rounded


class Work(NamedTuple):
    """A generation: its size, and the costs that one process measured."""

    costs: Costs
    individuals: int
    received: int  # bytes that every rank receives
    slowest: float = 1.0  # seconds of the slowest rollout, over those of the mean one
    slow_node: float = 1.0  # how many times as long the slowest node takes for the same work


class Phases(NamedTuple):
    """The seconds of a generation on some number of ranks, by phase."""

    evaluate: float
    gather: float
    update: float
    commit: float

    @property
    def generation(self) -> float:
        """Seconds of a generation."""
        return sum(self)


def predict(ranks: int, nodes: int, work: Work, network: Network = NETWORK, cores: int | None = None) -> Phases:
    """Return the seconds of a generation; `cores`: of a node, if there are fewer than ranks."""
    costs, busy = work.costs, max(1.0, ranks / nodes / cores) if cores else 1.0
    rounds = -(-work.individuals // (nodes * costs.gpus or ranks))
    shift = nodes / (nodes - 1 + 1 / work.slow_node)
    evaluate = costs.rollout * max(shift * _last_rollout(rounds, work.slowest), work.slow_node)
    waits = (busy * network.message if ranks > 1 else 0.0) + network.latency * math.ceil(math.log2(nodes))
    on_network = work.received / network.bandwidth if nodes > 1 else 0.0
    on_node = busy * network.byte * work.received if ranks > 1 else 0.0
    split = costs.split / min(ranks, max(work.individuals // ROWS, 1))
    update = busy * (costs.fixed + rounds * costs.per_row + split)
    return Phases(evaluate, GATHERS * waits + on_node + on_network, update, costs.commit)


def _last_rollout(rounds: int, slowest: float) -> float:
    """Return the mean over u in [0, rounds - 1] of max(rounds, u + slowest), in mean rollouts."""
    span = rounds - 1.0
    if slowest >= rounds:
        return span / 2 + slowest
    late = min(slowest - 1, span)  # the part of [0, span] from which on the slowest rollout ends last
    return rounds + (late * late / 2 / span if span else 0.0)
