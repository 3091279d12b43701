"""Weights of MaxEnt for 2,000 behaviours in 2-D: by a nested graph and by the closed form, in turns, on one core."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_parts.on_ranks import Measurement, table

from ees_mpi.objectives.custom import CustomObjective
from ees_mpi.objectives.maxent import MaxEnt
from ees_mpi.outcomes import Outcomes
from ees_mpi.ranks import Ranks

N = 2000
ROUNDS = 15


def scg() -> Measurement:
    """Measure both, in turns."""
    behavior = np.random.default_rng(0).normal(size=(N, 2))
    valid = np.ones(N, np.bool_)

    def weigh(objective: Any) -> None:
        outcomes = Outcomes(behavior, behavior[:, 0], valid.astype(np.int64), valid, np.zeros((0, 1)))
        objective.weights(outcomes, {}, Ranks())

    graph, closed = CustomObjective(function="ees_mpi.scg.surrogates:maxent"), MaxEnt()
    weigh(graph)  # the first use of torch loads more of it
    times = [(seconds(lambda: weigh(graph)), seconds(lambda: weigh(closed))) for _ in range(ROUNDS)]
    graph_s, closed_s = (statistics.median(column) for column in zip(*times, strict=True))
    return {"graph_s": graph_s, "closed_s": closed_s, "ratio": graph_s / closed_s}


def seconds(action: Callable[[], None]) -> float:
    """Time one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def show(r: Measurement) -> None:
    """Print the result for reading."""
    values = (f"{1e3 * r['graph_s']:.1f} ms", f"{1e3 * r['closed_s']:.1f} ms", f"{r['ratio']:.2f}")
    table([("nested graph", "closed form", "ratio"), values])
