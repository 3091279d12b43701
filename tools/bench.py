#!/usr/bin/env python3
"""What things cost, each as a ratio to a yardstick timed in the same run, because machines differ.

tools/bench.py commit [--json]     a commit, against an fsync of the same bytes
tools/bench.py scg                 MaxEnt's weights by a nested graph, against the closed form
tools/bench.py estimators          not a cost: the variance of the population's and of the policy's gradient
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ees_mpi import machine

machine.pin_threads()

import numpy as np  # noqa: E402

from ees_mpi import config as configs  # noqa: E402
from ees_mpi.noise import NoiseTable  # noqa: E402
from ees_mpi.outcomes import Outcomes  # noqa: E402
from ees_mpi.ranks import Ranks  # noqa: E402
from ees_mpi.store.writer import RunWriter  # noqa: E402
from ees_mpi.training import Job, advance, first_state, with_times  # noqa: E402

Row = dict[str, Any]


def seconds(action: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def commit() -> list[Row]:
    """Commit generations of the interference task, and write and fsync the same bytes in turns with it."""
    config = configs.load("interference-maxent")
    job = Job(config, config.task, NoiseTable(0, config.noise.size, Ranks()), Ranks())
    state = first_state(config)
    record, following = advance(job, state)
    arrays = with_times(record, following.digest(), 0.0, Ranks()).arrays
    commits, yardsticks = [], []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "run.h5")
        writer = RunWriter.create(path, config, state.arrays())
        writer.begin_session(0, 1, 1, machine.fingerprint())
        journal = Path(folder, "run.h5.journal")
        before = journal.stat().st_size
        writer.commit(0, arrays, following.arrays())
        size = journal.stat().st_size - before
        with open(Path(folder, "yardstick"), "wb", buffering=0) as file:
            for generation in range(1, 301):
                commits.append(seconds(lambda g=generation: writer.commit(g, arrays, following.arrays())))
                yardsticks.append(seconds(lambda: (file.write(bytes(size)), os.fsync(file))))
        fold = seconds(writer.close)
    return [
        _row("commit", "write and fsync of the same bytes", commits, yardsticks, bytes=size),
        {"what": "fold of 301 commits", "milliseconds": 1e3 * fold},
    ]


def scg(count: int = 2000, rounds: int = 15) -> list[Row]:
    """Make MaxEnt's weights of N individuals with B = 2 from the graph and in closed form, in turns, on one core."""
    import torch

    from ees_mpi.objectives.custom import Custom
    from ees_mpi.objectives.maxent import MaxEnt

    torch.set_num_threads(1)
    behavior = np.random.default_rng(0).normal(size=(count, 2))
    rest = behavior[:, 0], np.ones(count, int), np.ones(count, bool), np.zeros((0, 1))
    ours, theirs = Custom(function="ees_mpi.scg.surrogates:maxent"), MaxEnt()
    ours.weights(Outcomes(behavior, *rest), {}, Ranks())  # torch loads parts of itself at first use
    graphs, closed = [], []
    for _ in range(rounds):
        graphs.append(seconds(lambda: ours.weights(Outcomes(behavior, *rest), {}, Ranks())))
        closed.append(seconds(lambda: theirs.weights(Outcomes(behavior, *rest), {}, Ranks())))
    return [_row(f"maxent by scg, N = {count}", "the closed form", graphs, closed)]


def estimators(batches: int = 400, size: int = 1000) -> list[Row]:
    """Estimate a known gradient by the population's score and by the policy's, with more and less noise in each."""
    from ees_mpi.scg.estimators import Pushed, compare

    rows: list[Row] = []
    for std, action_std in ((0.3, 0.3), (0.05, 0.3), (0.3, 0.05)):
        problem = Pushed(std=std, action_std=action_std)
        rows += [
            {"what": f"{each.name}, std {std}, actions' {action_std}", "truth": problem.gradient(), **each._asdict()}
            for each in compare(problem, batches, size)
        ]
    return rows


def _row(what: str, yardstick: str, times: list[float], against: list[float], **more: Any) -> Row:
    measured, reference = statistics.median(times), statistics.median(against)
    return {
        "what": what,
        "milliseconds": 1e3 * measured,
        "yardstick": yardstick,
        "yardstick_milliseconds": 1e3 * reference,
        "ratio": measured / reference,
        **more,
    }


BENCHMARKS: dict[str, Callable[[], list[Row]]] = {"commit": commit, "scg": scg, "estimators": estimators}


def show(rows: list[Row]) -> None:
    """Print rows as a table."""
    for row in rows:
        if "truth" in row:
            known = f"gradient {row['truth']:.3f}, estimated {row['mean']:7.3f} +- {row['error']:.3f}"
            print(f"{row['what']:42} {known}, variance {row['variance']:.2e}")
            continue
        text = f"{row['what']:28} {row['milliseconds']:10.3f} ms"
        if "ratio" in row:
            text += f"   {row['ratio']:6.2f} x {row['yardstick']} ({row['yardstick_milliseconds']:.3f} ms)"
        if "bytes" in row:
            text += f", {row['bytes']} bytes"
        print(text)


def main() -> None:
    """Run the benchmarks that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = BENCHMARKS[options.benchmark]()
    print(json.dumps(rows)) if options.json else show(rows)


if __name__ == "__main__":
    main()
