#!/usr/bin/env python3
"""Disturb training jobs as a cluster may, and check that at most the unfinished generation is lost.

    tools/chaos.py                          every disturbance, three times each; prints a table of the results
    tools/chaos.py --only kill-instant --times 20 --ranks 3
    tools/chaos.py --kills 30 --ranks 3     one run, killed and resumed 30 times
    tools/chaos.py --kills 20 --moment "while starting"

After every disturbance the run file must open, must hold every committed generation, and must end with the bits of an
undisturbed run, after the same command is run again. A job that does not end counts as hung.

tools/chaos_parts/ holds the disturbances.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    from ees_mpi import machine, open_run
except ImportError:  # no environment is active: use the one of this checkout
    os.execv(python := str(Path(__file__).parents[1] / ".venv/bin/python"), [python, *sys.argv])

machine.pin_threads()

from chaos_parts import job  # noqa: E402
from chaos_parts.disturbances import DISTURBANCES, Disturbance, Trial  # noqa: E402
from chaos_parts.repeated_kills import MOMENTS, kill_repeatedly  # noqa: E402


@dataclass
class Result:
    """The result of one trial."""

    code: int
    hung: bool
    unaided: bool
    lost: int  # committed generations that are missing now
    same: bool
    seconds: float  # from the disturbance to the end of the job


def attempt(
    disturbance: Disturbance, out: Path, ranks: int, generations: int, reference: Path, chance: random.Random
) -> Result:
    """Disturb one job, count its generations, complete it if it did not complete unaided, and compare bits."""
    folder = reference.parent
    stall = {"run.stall_minutes": job.STALL_MINUTES} if disturbance.stall else {}
    line = job.words(out, ranks, generations, **stall)
    gate = folder / f"{out.stem}.gate"
    middle = chance.randint(1, max(1, generations // 2))  # a generation of the first half
    stop = [{"rank": 0, "gate": str(gate), "after": middle}] if disturbance.waits else []
    plan = disturbance.deaths(chance, ranks) + stop
    log = (folder / f"{out.stem}.log").open("w")
    process = subprocess.Popen(line, stdout=log, stderr=log, env=job.environment(folder, plan))
    trial = Trial(out, process, chance, gate, middle)
    try:
        disturbance.disturb(trial)
        disturbed = time.monotonic()
        hung = not job.ended(out, process)
        seconds = time.monotonic() - disturbed
        kept = job.count(out)
    finally:
        log.close()
        for undo in reversed(trial.undo):
            undo()
    unaided = job.complete(out)
    if not unaided:
        job.finish(out, generations)
    with open_run(out) as run, open_run(reference) as undisturbed:
        same = not job.differences(run, undisturbed)
    return Result(process.returncode, hung, unaided, max(0, trial.committed - kept), same, seconds)


def attempts(name: str, times: int, ranks: int, generations: int, folder: Path, seed: int) -> list[Result]:
    """Try one disturbance several times; a full disk is tried on a small file system."""
    disturbance, results = DISTURBANCES[name], []
    for number in range(times):
        place = folder / f"{name}-{number}"
        place.mkdir()
        if name == "disk-full":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(place)], check=True)
        chance = random.Random(f"{seed}/{name}/{number}")
        try:
            out = place / f"{name}-{number}.h5"
            result = attempt(disturbance, out, ranks, generations, folder / "whole.h5", chance)
        finally:
            if name == "disk-full":
                subprocess.run(["umount", "-l", str(place)], check=True)
        results.append(result)
        if problem := verdict(disturbance, result):
            log = folder / f"{name}-{number}.log"
            print(f"  {name} {number}: {problem}\n{log.read_text()[-3000:]}", flush=True)
    return results


def verdict(disturbance: Disturbance, result: Result) -> str:
    """Return the fault of a result; empty if there is none."""
    if result.hung:
        return "HUNG"
    if result.lost or not result.same:
        return f"LOST {result.lost} generations; {'the same' if result.same else 'OTHER'} bits"
    return f"exit code {result.code}; expected {disturbance.code}" if result.code != disturbance.code else ""


def matrix(names: list[str], times: int, ranks: int, generations: int, seed: int, folder: Path) -> bool:
    """Try the disturbances and print the table; return whether there was no fault."""
    job.finish(folder / "whole.h5", generations)
    print(f"{'disturbance':62} tries  unaided  resumed  hung  lost  bits   ended in  exit codes", flush=True)
    good = True
    for name in names:
        disturbance = DISTURBANCES[name]
        if why := disturbance.needs():
            print(f"{disturbance.title:62} not tried: {why}", flush=True)
            continue
        results = attempts(name, times, ranks, generations, folder, seed)
        unaided = sum(result.unaided for result in results)
        hung, lost = sum(result.hung for result in results), sum(result.lost for result in results)
        same = all(result.same for result in results)
        codes = ", ".join(f"{code} x{n}" for code, n in sorted(Counter(r.code for r in results).items()))
        line = f"{len(results):5}  {unaided:7}  {len(results) - unaided:7}  {hung:4}  {lost:4}"
        slowest = max((result.seconds for result in results if not result.unaided), default=0.0)
        print(f"{disturbance.title:62} {line}  {'same' if same else 'OTHER':5}  {slowest:6.0f} s  {codes}", flush=True)
        good = good and not any(verdict(disturbance, result) for result in results)
    return good


def one_run(kills: int, moments: Sequence[str], ranks: int, generations: int, seed: int, folder: Path) -> bool:
    """Kill and resume one run many times, complete it, and compare it with an undisturbed run."""
    start = time.monotonic()
    out, whole = folder / "killed.h5", folder / "whole.h5"
    done = kill_repeatedly(out, ranks, generations, kills, random.Random(seed), moments)
    reached = job.count(out)
    print(f"{reached} generations were committed between the kills")
    for path in (out, whole):
        job.finish(path, reached + 20)
    with open_run(out) as killed, open_run(whole) as undisturbed:
        differ = job.differences(killed, undisturbed)
    for what, times in sorted(done.items()):
        print(f"{times:4d}  {what}")
    print(f"{reached + 20} generations, {kills} kills, {time.monotonic() - start:.0f} s: ", end="")
    print("the same bits as an undisturbed run" if not differ else f"DIFFERS in {', '.join(differ)}")
    return not differ


def main() -> None:
    """Read the command line and run the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(DISTURBANCES)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--times", type=int, default=3, help="the number of trials of each disturbance")
    parser.add_argument("--kills", type=int, help="kill and resume one run this many times, instead of the table")
    parser.add_argument("--moment", choices=sorted(set(MOMENTS)), help="of the kills; default: all of them, in turn")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--generations", type=int)
    parser.add_argument("--seed", type=int, default=0, help="the random seed of the trials")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.kills:
            moments = [options.moment] if options.moment else MOMENTS
            good = one_run(options.kills, moments, options.ranks, options.generations or 20_000, options.seed, folder)
        else:
            good = matrix(options.only, options.times, options.ranks, options.generations or 400, options.seed, folder)
    sys.exit(not good)


if __name__ == "__main__":
    main()
