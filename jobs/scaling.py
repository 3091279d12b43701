#!/usr/bin/env python3
"""Measure how a preset scales on this allocation: one table, and one line to send back.

    sbatch --nodes=4 --ntasks-per-node=40 --exclusive --time=1:00:00 scaling.py
    python scaling.py --set population.size=500               on one machine, with a rank for each core

Strong: the population of the preset, on more and more nodes. Weak: the same number of individuals for each rank,
within a node and beyond. Every point starts from a trained mean, is launched twice, and three generations of each
launch are timed. An efficiency is the steps per second of a rank against those of a rank of one full node.

Every launch adds a line to --out. The same command again measures what is missing, and an allocation of another size
adds its points to the same curve.
"""

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ees_mpi
from ees_mpi import machine

LAUNCHES, TIMED = 2, 3  # of each point; generations of each launch, after a first one
PHASES = ("evaluate_max", "gather", "update", "commit")  # the first: of the slowest rank
Point = dict[str, Any]


def points(nodes: int, per_node: int, each: int) -> list[Point]:
    """Return what is to be measured: full nodes first, because all else is compared with them."""
    counts = [nodes_used * per_node for nodes_used in doubled(nodes)]
    within = [ranks for ranks in doubled(per_node) if ranks < per_node]
    strong = [{"kind": "strong", "ranks": ranks} for ranks in counts]
    return strong + [{"kind": "weak", "ranks": ranks, "each": each} for ranks in counts + within]


def doubled(most: int) -> list[int]:
    """Return 1, 2, 4, ... and `most` itself."""
    return [*(2**k for k in range(most.bit_length()) if 2**k < most), most]


def measure(told: argparse.Namespace, point: Point) -> Point:
    """Train a short run; return the point with its times. Raises a CalledProcessError if the run fails."""
    ranks = point["ranks"]
    launch = [*shlex.split(os.environ.get("EES_LAUNCH", "mpirun --bind-to none")), "-n", str(ranks)]
    if "srun" in launch[0]:  # it would spread few ranks over all nodes; mpirun fills a node first
        launch.append(f"--nodes={-(-ranks // told.per_node)}")
    settings = [*told.set, f"run.generations={1 + TIMED}"]
    settings += [f"population.size={point['each'] * ranks}"] if "each" in point else []
    words = [word for setting in settings for word in ("--set", setting)]
    with tempfile.TemporaryDirectory(dir=told.out.absolute().parent) as folder:
        file = Path(folder) / "point.h5"
        start = ["--from", told.start] if told.start else []
        line = ["ees-mpi", "train", told.preset, *words, *start, "--seed", "0", "--out", str(file)]
        launched = time.time()
        subprocess.run([*launch, *line], check=True, stdout=subprocess.DEVNULL)
        return {**point, **times(file, launched)}


def times(file: Path, launched: float) -> Point:
    """Return the seconds and steps of a run's generations but the first, and how long it took to start."""
    with ees_mpi.open_run(file) as run:
        session, clock = run.sessions()[-1], run["seconds_clock"][:]
        phases = {phase: statistics.median(run[f"seconds_{phase}"][1:].tolist()) for phase in PHASES}
        return {
            "nodes": int(session["nodes"]),
            "library": session["machine"]["mpi"],
            "individuals": run.config.population.size,
            "seconds": [float(seconds) for seconds in clock[1:] - clock[:-1]],
            "steps": [int(steps) for steps in run["length"][1:].sum(axis=1)],
            "start": float(session["start"]) - launched,
            **phases,
        }


def summary(lines: Sequence[Point]) -> list[Point]:
    """Return a row for each point: the rate of its median generation with its range, and the efficiency."""
    rows: dict[tuple[str, int], Point] = {}
    for kind, ranks in sorted({(line["kind"], line["ranks"]) for line in lines}):
        mine = [line for line in lines if (line["kind"], line["ranks"]) == (kind, ranks)]
        rates = [steps / taken for line in mine for steps, taken in zip(line["steps"], line["seconds"], strict=True)]
        middle = {key: statistics.median(line[key] for line in mine) for key in (*PHASES, "start")}
        seconds = statistics.median(taken for line in mine for taken in line["seconds"])
        place = {name: mine[0][name] for name in ("kind", "ranks", "nodes", "individuals")}
        per_rank = {"rate": statistics.median(rates) / ranks, "low": min(rates) / ranks, "high": max(rates) / ranks}
        rows[kind, ranks] = {**place, "timed": len(rates), "seconds": seconds, **per_rank, **middle}
    for (kind, _), row in rows.items():
        full = max((r for r in rows.values() if (r["kind"], r["nodes"]) == (kind, 1)), key=lambda r: r["ranks"])
        row["efficiency"] = [row["rate"] / full["rate"], row["low"] / full["high"], row["high"] / full["low"]]
    return list(rows.values())


def table(rows: Sequence[Point]) -> list[str]:
    """Return the summary as lines of text."""
    lines = ["kind   nodes ranks individuals  seconds  efficiency (range)     slowest rank  gather  update  start"]
    for row in rows:
        middle, low, high = row["efficiency"]
        place = f"{row['kind']:6} {row['nodes']:5} {row['ranks']:5} {row['individuals']:11,} {row['seconds']:8.3f}"
        phases = f"{row['evaluate_max']:12.3f} {row['gather']:7.3f} {row['update']:7.3f} {row['start']:6.1f}"
        lines.append(f"{place}  {f'{middle:.0%} ({low:.0%} to {high:.0%})':22} {phases}")
    return lines


def options(line: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line, and the shape of the allocation from SLURM."""
    parser = argparse.ArgumentParser(prog="scaling.py", description=(__doc__ or "").partition("\n")[0])
    each = re.match(r"\d+", os.environ.get("SLURM_TASKS_PER_NODE", ""))  # of the first node: "40(x2),8"
    cores = int(each[0]) if each else len(os.sched_getaffinity(0))
    parser.add_argument("preset", nargs="?", default="ant-maxent", help="a preset or config file [%(default)s]")
    parser.add_argument(
        "--from", dest="start", default="shelf:ant-maxent-whitened-seed7", help="'': none [%(default)s]"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all runs")
    parser.add_argument("--each", type=int, default=16, help="individuals per rank of weak scaling [%(default)s]")
    parser.add_argument("--nodes", type=int, default=int(os.environ.get("SLURM_JOB_NUM_NODES", 1)))
    parser.add_argument("--per-node", type=int, default=cores, help="ranks of a full node [%(default)s]")
    parser.add_argument("--out", type=Path, default=Path("scaling.jsonl"), help="[%(default)s]")
    return parser.parse_args(line)


def main() -> None:
    """Measure what is missing in the file; print the table and the line."""
    told = options()
    what = {"preset": told.preset, "from": told.start, "set": told.set, "version": machine.commit()}
    what |= {"cpu": machine.fingerprint()["cpu"], "per_node": told.per_node}
    found: list[Point] = []
    for line in told.out.read_text().splitlines() if told.out.exists() else ():
        of, measured = json.loads(line)
        if of != what:
            sys.exit(f"scaling: {told.out} has measurements of {of}; expected {what}: give another --out")
        found.append(measured)
    for repetition in range(1, LAUNCHES + 1):
        for point in points(told.nodes, told.per_node, told.each):
            if sum(point.items() <= line.items() for line in found) < repetition:
                found.append(measure(told, point))
                with told.out.open("a") as file:
                    file.write(json.dumps([what, found[-1]]) + "\n")
    rows = summary(found)
    print(f"{told.preset} {' '.join(told.set)} from {told.start}; {what['cpu']}; {found[-1]['library']}")
    print(*table(rows), sep="\n")
    print(
        f"The range is that of {LAUNCHES * TIMED} generations: a 97 % interval of the median, if they are independent."
    )
    print(
        f"Weak: {told.each} individuals a rank. With P ranks, its rollouts and its sums over the noise stay the same;"
    )
    print("its kernel sums (MaxEnt) grow like P, and so does what every rank does with all results (part of `update`).")
    print("send:", json.dumps({**what, "library": found[-1]["library"], "rows": rounded(rows)}))


def rounded(rows: Any) -> Any:
    """Return rows with four digits of each number."""
    return json.loads(json.dumps(rows), parse_float=lambda text: float(f"{float(text):.4g}"))


if __name__ == "__main__":
    main()
