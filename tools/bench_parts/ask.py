"""`ees_mpi.Strategy` at N = 10,000, D = 75,000, MaxEnt: `ask` and `tell`, against the same work without the object.

The reference of `ask` makes the same individuals one by one, as training does. The reference of `tell` is the update,
the metrics and the digest of the state. Times are CPU seconds of one process, the smallest of five.
"""

import time
from collections.abc import Callable

import numpy as np
from bench_parts.on_ranks import Measurement, table

import ees_mpi
from ees_mpi.generation.results import metrics
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy import Update

N, D, ROUNDS, CHUNK = 10_000, 75_000, 5, 64


def seconds(action: Callable[[], object]) -> float:
    """Return the CPU seconds of an action."""
    start = time.process_time()
    action()
    return time.process_time() - start


def ask() -> Measurement:
    """Measure each part in turn, so that a slow moment of the machine hits all of them."""
    es = ees_mpi.Strategy(np.zeros(D), "maxent", size=N, std=0.02)
    behavior, whole = np.random.default_rng(0).normal(size=(N, 2)), np.ones(N, np.bool_)
    update, ranks = Update.of(es.config, NoiseTable(0, es.config.noise.size, Ranks())), Ranks()

    def make() -> None:
        drawn = update.ask(es.state)
        rows = np.empty((CHUNK, D), np.float32)
        for index in range(N):
            rows[index % CHUNK] = update.population.individual(es.state.learned, drawn, index, update.noise)

    def learn() -> None:
        outcomes = Outcomes(behavior, np.zeros(N), whole.astype(np.int64), whole, np.zeros((0, 1)))
        following, _ = update.tell(es.state, update.ask(es.state), outcomes, ranks)
        metrics(outcomes, 1.0, ranks)
        following.digest()

    found: dict[str, list[float]] = {"make_s": [], "ask_s": [], "learn_s": [], "tell_s": []}
    for _ in range(ROUNDS):
        found["make_s"].append(seconds(make))
        found["ask_s"].append(seconds(lambda: [None for _ in es.ask(chunk=CHUNK)]))
        found["learn_s"].append(seconds(learn))
        es.ask(chunk=CHUNK)
        found["tell_s"].append(seconds(lambda: es.tell(behavior)))
    best = {name: min(times) for name, times in found.items()}
    return {**best, "ask_ratio": best["ask_s"] / best["make_s"], "tell_ratio": best["tell_s"] / best["learn_s"]}


def show(r: Measurement) -> None:
    """Print the results for reading."""
    table(
        [
            (f"N = {N:,}, D = {D:,}, one process", "CPU s"),
            ("all individuals, made one by one", f"{r['make_s']:.3f}"),
            (f"es.ask(chunk={CHUNK})", f"{r['ask_s']:.3f}"),
            ("update, metrics and digest", f"{r['learn_s']:.3f}"),
            ("es.tell", f"{r['tell_s']:.3f}"),
        ]
    )
    print(f"ask takes {r['ask_ratio']:.2f} times as long as its reference, tell {r['tell_ratio']:.2f} times")
