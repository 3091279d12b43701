"""Fit the model of `ees_mpi.generation.scaling` on few ranks, check it on more, and predict many."""

import json
import math
import os
import statistics
from pathlib import Path

import numpy as np
from ees_mpi.generation.scaling import NETWORK, Network, Work, predict
from thousand_parts.collectives import CALLS, sizes

from ees_mpi.generation.costs import Costs

FITTED = 16  # ranks, at most
Row = dict[str, float]


def main(words: list[str]) -> None:
    """Print the fit, the errors and the predictions; `words`: files of `measure`, or of `network`."""
    rows = [json.loads(line) for word in words for line in Path(word).read_text().splitlines()]
    whole = sorted((row for row in rows if "evaluate" in row), key=lambda row: row["ranks"])
    if whole:
        check(whole, *fit([row for row in whole if row["ranks"] <= FITTED]))
        paper()
    network = [row for row in rows if "latency" in row]
    if network:
        check_network(network)


def fit(rows: list[Row]) -> tuple[Network, Costs]:
    """Return the costs of a processor: least squares of relative errors, over the ranks that are fitted."""
    gathers = [[row["gathers"] * (row["ranks"] > 1), row["bytes"]] for row in rows]
    message, byte = _relative(gathers, [row["in_gathers"] for row in rows])
    work = [row["processor"] - row["in_gathers"] for row in rows]
    shared, fixed = _relative([[1 / row["ranks"], 1.0] for row in rows], work)
    alone = rows[0]
    split = alone["update"] - fixed
    each = (shared - split) / alone["individuals"]  # of a processor, beside the sleep
    print(f"message {message * 1e6:.0f} us, byte {byte * 1e9:.2f} ns; of the update {fixed * 1e3:.1f} ms fixed,")
    print(f"{split * 1e3:.0f} ms split; {each * 1e6:.0f} us to make an individual and to sleep")
    costs = Costs(alone["rollout"], split, fixed, alone["commit"], 0, lambda rows: 0, 0, "", each)
    return Network(message=message, byte=byte), costs


def _relative(columns: list[list[float]], values: list[float]) -> tuple[float, float]:
    a, b = np.array(columns) / np.array(values)[:, None], np.ones(len(values))
    first, second = np.linalg.lstsq(a, b, rcond=None)[0]
    return max(float(first), 0.0), max(float(second), 0.0)


def check(rows: list[Row], network: Network, costs: Costs) -> None:
    """Print measured and predicted seconds: of the processor on each rank, and of the generation."""
    errors, cores = [], os.cpu_count()
    print("ranks   start  processor of a rank      generation        error")
    for row in rows:
        work = Work(costs, int(row["individuals"]), int(row["bytes"]), row["slowest"])
        found = predict(int(row["ranks"]), 1, work, network, cores)
        busy = max(1.0, row["ranks"] / (cores or 1))
        processor = (found.gather + found.update) / busy
        taken = sum(row[phase] for phase in found._fields)
        error = found.generation / taken - 1
        if row["ranks"] > FITTED:
            errors.append(abs(error))
        cells = f"{row['processor'] * 1e3:9.1f} {processor * 1e3:8.1f} ms {taken:8.2f} {found.generation:8.2f} s"
        print(
            f"{row['ranks']:5.0f}{row['opened']:6.1f} s{cells}{error:9.0%}{'' if row['ranks'] > FITTED else '  fitted'}"
        )
    if errors:
        print(f"median error on ranks that were not fitted: {statistics.median(errors):.0%}")


def check_network(rows: list[Row]) -> None:
    """Fit the costs of a processor on two hosts; print measured and predicted milliseconds of each gather."""
    known = [(row, name) for row in rows for name in CALLS]

    def wire(row: Row, name: str) -> float:
        """Return the seconds of the network alone; more than 64 kB also wait for the receiver's consent."""
        hops, volume = math.ceil(math.log2(row["nodes"])), sizes(int(row["ranks"]))[name]
        return CALLS[name] * hops * row["latency"] + volume / row["bandwidth"]

    small = [(row, name) for row, name in known if row["nodes"] == 2]
    columns = [[CALLS[name], sizes(int(row["ranks"]))[name]] for row, name in small]
    values = [max(row[name] - wire(row, name), 1e-5) for row, name in small]
    scale = np.array([row[name] for row, name in small])
    message, byte = np.maximum(np.linalg.lstsq(np.array(columns) / scale[:, None], values / scale, rcond=None)[0], 0.0)
    print(f"between hosts: message {message * 1e6:.0f} us, byte {byte * 1e9:.2f} ns, with the switch on the same cores")
    print("hosts  latency  " + "".join(f"{name:>18}" for name in CALLS))
    errors = []
    for row in rows:
        busy = max(1.0, row["ranks"] / (os.cpu_count() or 1)) / max(1.0, 4 / (os.cpu_count() or 1))
        cells = ""
        for name, calls in CALLS.items():
            volume = sizes(int(row["ranks"]))[name]
            found = wire(row, name) + busy * (calls * message + byte * volume)
            cells += f"{row[name] * 1e3:9.2f} {found * 1e3:8.2f}"
            if row["nodes"] > 2:
                errors.append(abs(found / row[name] - 1))
        print(f"{row['nodes']:5.0f}  {row['latency'] * 1e3:5.2f} ms {cells}")
    if errors:
        print(f"median error on hosts that were not fitted: {statistics.median(errors):.0%}")


def paper() -> None:
    """Print predictions at the paper's sizes: N = 10,000, D = 75,272, rollouts of 0.238 s, 64 ranks on a node.

    The update: 0.67 s are shared, as `plan ant-maxent` measured; 20 ms are not, and 20 ms of commit are assumed.
    """
    costs = Costs(0.238, 0.67, 0.02, 0.02, 0, lambda rows: 0, 0, "")
    received = 8 * (10_000 * (5 + 2 + 2) + 75_272)
    print("ranks  evaluate    gather    update    commit  generation  efficiency   slowest x3   slow node x2")
    alone = predict(1, 1, Work(costs, 10_000, received)).generation
    for ranks in (64, 256, 1000, 2000, 5000, 10_000):
        nodes = -(-ranks // 64)
        found, slow, node = (
            predict(ranks, nodes, Work(costs, 10_000, received, *more), NETWORK) for more in ((), (3.0,), (1.0, 2.0))
        )
        cells = "".join(f"{value:10.4f}" for value in found)
        share = alone / ranks / found.generation
        print(f"{ranks:5}{cells}  {found.generation:10.4f}{share:12.0%}{slow.generation:13.3f}{node.generation:13.3f}")
