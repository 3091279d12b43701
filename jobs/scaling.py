#!/usr/bin/env python3
"""Measure strong and weak scaling with short runs, and draw them.

    scaling.py --engine mujoco        on this machine, with a rank for each core; in a job of SLURM, with all its ranks
    scaling_figure.py FILE.json       draws FILE.png again

Strong: the same individuals in all, on more ranks. Weak: the same individuals per rank. A point is a run of a few
generations; its times come from the run file, without the first generation. Every point is repeated. All
repetitions go into one JSON file, which is written after every point: the same command again measures only what is
missing, and another engine is added to the same file.

Exit codes: 0 all is measured; 1 some points failed, and are named; 2 nothing can be measured; 75 points are left.
"""

import argparse
import json
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    from scaling_figure import NAMES, STRONG, WEAK, Data, rate, save_figure, summarize, table

    import ees_mpi
    from ees_mpi import config as configs
    from ees_mpi import machine
    from ees_mpi.errors import ConfigError, EesError
except ImportError as missing:
    print(f"scaling: expected a python3 that can import ees_mpi: {missing}; activate its environment", file=sys.stderr)
    sys.exit(2)

RANKS = int(os.environ.get("SLURM_NTASKS") or len(os.sched_getaffinity(0)))
PER_RANK = 8  # individuals of strong scaling on the largest number of ranks, at least
MAX_INDIVIDUALS = 128  # individuals of a rank in strong scaling: with more, a point takes minutes


class Stopped(Exception):
    """The time is over, or a signal asks for the end."""


def stop(*_: object) -> None:
    """Handle a signal."""
    raise Stopped


def rank_counts(ranks: int) -> list[int]:
    """Return 1, 2, 4, ... and the number of ranks itself."""
    return [*(2**k for k in range(ranks.bit_length()) if 2**k < ranks), ranks]


def wanted(told: argparse.Namespace) -> list[Data]:
    """Return all points in the order of measurement: whole curves first, quick points before slow ones."""
    weak = [(WEAK, count, told.each * count) for count in rank_counts(told.ranks)]
    strong = [(STRONG, count, told.total) for count in rank_counts(told.ranks) if told.total <= told.most * count]
    keys = ("engine", "kind", "ranks", "individuals", "repetition")
    return [
        dict(zip(keys, (told.engine, *point, repetition), strict=True))
        for repetition in range(told.repeat)
        for point in (*weak, *reversed(strong))
    ]


def is_done(point: Data, points: Sequence[Data]) -> bool:
    """True if the points have this one."""
    return any(all(each[key] == value for key, value in point.items()) for each in points)


def words(told: argparse.Namespace, individuals: int) -> list[str]:
    """Return the settings of a run with some number of individuals."""
    # A GPU, an unperturbed mean or a table of a gigabyte would hide the costs of the ranks.
    own = [f"population.size={individuals}", f"task.steps={told.steps}", f"task.engine={told.engine}"]
    fixed = ["run.evaluate_mean_every=0", "noise.size=4194304", f"run.generations={1 + told.generations}"]
    return [*own, *fixed, *(["task.device=cpu"] if told.engine == "mujoco" else []), *told.set]


def measure(told: argparse.Namespace, point: Data) -> Data:
    """Train one short run; return the point with its times. Raises a RuntimeError if the run fails."""
    file = told.out.with_name(f"{told.out.stem}-point.h5")
    launch = [*shlex.split(os.environ.get("EES_LAUNCH", "mpirun --bind-to none")), "-n", str(point["ranks"])]
    if Path(launch[0]).name == "srun":  # otherwise it spreads few ranks over all nodes; mpirun fills a node first
        launch.append(f"--nodes={-(-point['ranks'] // told.per_node)}")
    settings = [f"--set={each}" for each in words(told, point["individuals"])]
    line = [*launch, "ees-mpi", "train", told.preset, *settings, "--seed", "0", "--out", str(file), "--overwrite"]
    try:
        with told.out.with_suffix(".log").open("w") as log:
            run_until(line, log, told.ends)
        return {**point, **read_times(file, point["ranks"])}
    except (OSError, EesError, RuntimeError) as error:
        said = told.out.with_suffix(".log").read_text(errors="replace").strip().splitlines()
        raise RuntimeError("\n".join([f"{shlex.join(line)}: {error}", *said[-12:]])) from None
    finally:
        for left in file.parent.glob(f"{file.name}*"):
            left.unlink(missing_ok=True)


def run_until(line: list[str], log: Any, ends: float) -> None:
    """Run a command; end it and raise Stopped when the time is over."""
    if time.monotonic() > ends:
        raise Stopped
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        code = process.wait(max(ends - time.monotonic(), 0))
    except (subprocess.TimeoutExpired, Stopped):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
        raise Stopped from None
    if code:
        raise RuntimeError(f"exit code {code}")


def read_times(file: Path, ranks: int) -> Data:
    """Return the steps and seconds of a run, of all generations but the first."""
    with ees_mpi.open_run(file) as run:
        session = run.sessions()[-1]
        if int(session["ranks"]) != ranks:
            raise RuntimeError(f"expected {ranks} ranks, but the run had {session['ranks']}")
        seconds = [float(each) for each in run["seconds_clock"][1:] - run["seconds_clock"][:-1]]
        steps = [int(each) for each in run["length"][1:].sum(axis=1)]
        phases = ("evaluate", "evaluate_mean", "evaluate_max", "gather", "update", "commit")
        medians = {f"{phase}_s": statistics.median(run[f"seconds_{phase}"][1:].tolist()) for phase in phases}
    return {"nodes": int(session["nodes"]), "steps": steps, "seconds": seconds, **medians}


def keep(found: Data, path: Path) -> None:
    """Write the JSON file in one step: a kill leaves the old one or the new one."""
    path.with_suffix(".new").write_text(json.dumps({**found, "summary": summarize(found)}) + "\n")
    path.with_suffix(".new").replace(path)


def begin(told: argparse.Namespace) -> Data:
    """Return what the JSON file has so far; raise a ConfigError if it was measured otherwise, or on another CPU."""
    here = machine.fingerprint()
    settings = {name: getattr(told, name) for name in ("preset", "steps", "total", "each", "generations", "set")}
    settings["cpu"] = here["cpu"]
    if not told.out.exists():
        return {"settings": settings, "machine": here, "points": []}
    try:
        found: Data = json.loads(told.out.read_text())
        before = [(name, found["settings"].get(name), value) for name, value in settings.items()]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{told.out}: expected a file of this script; give another --out") from None
    if others := [f"{name}: {there} there, {here} here" for name, there, here in before if there != here]:
        raise ConfigError(f"{told.out} was measured with other settings ({'; '.join(others)}); give another --out")
    return found


def options(line: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="scaling", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("preset", nargs="?", default="cheetah-maxent", help="a preset or config file [%(default)s]")
    parser.add_argument("-n", "--ranks", type=int, default=RANKS, help="the largest number of ranks [%(default)s]")
    parser.add_argument("--engine", choices=NAMES, default="bullet", help="physics [%(default)s]")
    parser.add_argument("--repeat", type=int, default=3, help="times that each point is measured [%(default)s]")
    parser.add_argument("--minutes", type=float, default=10, help="write what there is after this time [%(default)s]")
    parser.add_argument("--steps", type=int, default=200, help="steps of a rollout [%(default)s]")
    parser.add_argument(
        "--total", type=int, help=f"individuals of strong scaling [{MAX_INDIVIDUALS}, or {PER_RANK} per rank]"
    )
    parser.add_argument("--each", type=int, default=32, help="individuals per rank of weak scaling [%(default)s]")
    parser.add_argument("--generations", type=int, default=3, help="timed generations of a run [%(default)s]")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further setting of the runs")
    parser.add_argument("--out", type=Path, default=Path("scaling.json"), help="the figure is beside it [%(default)s]")
    told = parser.parse_args(line)
    for name in ("ranks", "repeat", "minutes", "steps", "each", "generations", "total"):
        if getattr(told, name) is not None and getattr(told, name) <= 0:
            parser.error(f"--{name}: expected a positive number, got {getattr(told, name)}")
    told.most, told.total = told.total or MAX_INDIVIDUALS, told.total or max(MAX_INDIVIDUALS, PER_RANK * told.ranks)
    each = re.match(r"\d+", os.environ.get("SLURM_TASKS_PER_NODE", ""))  # of the first node: "40(x2),8"
    told.per_node = int(each[0]) if each else told.ranks
    told.ends = time.monotonic() + 60 * told.minutes
    return told


def measure_all(told: argparse.Namespace, missing: list[Data], found: Data) -> tuple[int, list[str]]:
    """Measure the points that are missing; return how many are left, and the failed ones."""
    failed: list[str] = []
    for place, point in enumerate(missing):
        name = f"{point['kind']}, {point['ranks']} ranks, repetition {point['repetition'] + 1} of {told.repeat}"
        try:
            measured = measure(told, point)
        except Stopped:
            return len(missing) - place, failed
        except RuntimeError as error:
            print(f"scaling: {name} failed: {error}", file=sys.stderr)
            failed.append(name)
            if len(failed) > place:  # nothing works here: one message is enough
                break
            continue
        found["points"].append(measured)
        keep(found, told.out)
        taken = statistics.median(measured["seconds"])
        print(f"scaling: {name}: {rate(measured):,.0f} steps/s, {taken:.3f} s a generation", flush=True)
    return 0, failed


def main() -> int:
    """Measure, and write the JSON file and the figure."""
    told = options()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, stop)
    told.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = begin(told)
        configs.load(told.preset, words(told, told.total))  # a wrong one is refused before anything is started
    except EesError as error:
        print(f"scaling: {error}", file=sys.stderr)
        return error.exit_code
    missing = [point for point in wanted(told) if not is_done(point, found["points"])]
    left, failed = measure_all(told, missing, found)
    if not found["points"]:
        if left:
            print(f"scaling: nothing was measured within {told.minutes:g} minutes; give more", file=sys.stderr)
        return 1 if failed else 75
    keep(found, told.out)
    print(*table(summarize(found)), sep="\n")
    save_figure(found, told.out)
    print(f"scaling: {told.out} and {told.out.with_suffix('.png')}")
    if left:
        print(f"scaling: {left} points are left. Run the same command again to continue")
    if failed:
        print(f"scaling: failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 75 if left else 0


if __name__ == "__main__":
    sys.exit(main())
