#!/usr/bin/env python3
"""Disturb training jobs in every way a cluster knows, and see that nothing is lost but the generation in flight.

    tools/chaos.py                          every disturbance, three times each: a table of what came of it
    tools/chaos.py --only ulfm-random --times 20 --ranks 4-6
    tools/chaos.py --kills 30 --ranks 3     one run, killed and resumed again and again

Whatever is done, the file must open, must never lose a committed generation, and must end with the bits of an
undisturbed run: unaided, where the others go on without the dead (ULFM) or nothing is in the way; else by running the
same command again. A job that does not end by itself counts as hung. What is done is in tools/disturbances.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

try:
    from ees_mpi import open_run
except ImportError:  # no environment is active: take the checkout's own
    os.execv(python := str(Path(__file__).parents[1] / ".venv/bin/python"), [python, *sys.argv])

sys.path.insert(0, str(Path(__file__).parent / "disturbances"))
import job
from rows import ROWS, Row, Trial
from torment import torment


@dataclass
class Result:
    """What came of one trial."""

    code: int
    hung: bool
    unaided: bool
    lost: int  # generations that were committed and are not any more
    same: bool
    dead: int  # ranks without which the others went on


def attempt(row: Row, out: Path, ranks: int, generations: int, reference: Path, chance: random.Random) -> Result:
    """Disturb one job, see what is left, finish it where it did not finish by itself, and compare bits."""
    folder = reference.parent
    stall = {"run.stall_minutes": job.STALL_MINUTES} if row.stall else {}
    line = job.words(out, ranks, generations, row.ulfm, **stall)
    plan = row.deaths(chance, ranks)
    log = (folder / f"{out.stem}.log").open("w")
    process = subprocess.Popen(line, stdout=log, stderr=log, env=job.environment(folder, plan))
    trial = Trial(out, process, chance, generations)
    try:
        row.disturb(trial)
        hung = not job.ended(out, process)
        kept = job.count(out)
    finally:
        log.close()
        for undo in reversed(trial.undo):
            undo()
    unaided = job.complete(out)
    if not unaided:
        job.finish(out, 2, generations, folder)
    with open_run(out) as run, open_run(reference) as undisturbed:
        same = not job.differences(run, undisturbed)
    dead = len(set(re.findall(r"rank \d+ on", " ".join(re.findall(r"^lost .*", Path(log.name).read_text(), re.M)))))
    return Result(process.returncode, hung, unaided, max(0, trial.committed - kept), same, dead)


def attempts(name: str, row: Row, times: int, ranks: range, generations: int, folder: Path, seed: int) -> list[Result]:
    """Try one row of the table, in a file system of its own where it needs one."""
    results = []
    for number in range(times):
        place = folder / f"{name}-{number}"
        place.mkdir()
        if name == "disk-full":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(place)], check=True)
        chance = random.Random(f"{seed}/{name}/{number}")
        try:
            size = chance.choice(ranks)
            result = attempt(row, place / f"{name}-{number}.h5", size, generations, folder / "whole.h5", chance)
        finally:
            if name == "disk-full":
                subprocess.run(["umount", "-l", str(place)], check=True)
        results.append(result)
        if problem := verdict(row, result):
            log = folder / f"{name}-{number}.log"
            print(f"  {name} {number} ({size} ranks): {problem}\n{log.read_text()[-3000:]}", flush=True)
    return results


def verdict(row: Row, result: Result) -> str:
    """Say what is wrong with a result; nothing if all is well."""
    if result.hung:
        return "HUNG"
    if result.lost or not result.same:
        return f"LOST {result.lost} generations; {'the same' if result.same else 'OTHER'} bits"
    if 0 in row.codes and result.unaided and not result.dead:
        return "nobody died"
    # Where the others should have gone on, and did not, an end with any other code than 0 is counted by `enough`.
    given_up = 0 in row.codes and result.code != 0 and not result.unaided
    if result.code not in row.codes and not given_up:
        return f"exit code {result.code}; expected {' or '.join(map(str, row.codes))}"
    return ""


def enough(row: Row, results: list[Result]) -> bool:
    """Tell whether as many went on unaided as should: all but one in twenty."""
    unaided = sum(result.unaided for result in results)
    return 0 not in row.codes or unaided >= len(results) - len(results) // 20


def matrix(names: list[str], times: int, ranks: range, generations: int, seed: int, folder: Path) -> bool:
    """Try everything and print the table; return whether all was well."""
    job.finish(folder / "whole.h5", 2, generations, folder)
    print(f"{'what was done':62} tries  dead  unaided  resumed  hung  lost  bits   exit codes", flush=True)
    well = True
    for name in names:
        row = ROWS[name]
        if why := row.needs():
            print(f"{row.what:62} not tried: {why}", flush=True)
            continue
        results = attempts(name, row, times, ranks, generations, folder, seed)
        unaided = sum(result.unaided for result in results)
        hung, lost = sum(result.hung for result in results), sum(result.lost for result in results)
        same = all(result.same for result in results)
        codes = ", ".join(f"{code} x{n}" for code, n in sorted(Counter(r.code for r in results).items()))
        dead = sum(result.dead for result in results) or ""
        line = f"{len(results):5}  {dead:4}  {unaided:7}  {len(results) - unaided:7}  {hung:4}  {lost:4}"
        print(f"{row.what:62} {line}  {'same' if same else 'OTHER':5}  {codes}", flush=True)
        well = well and enough(row, results) and not any(verdict(row, result) for result in results)
    return well


def kill_again_and_again(kills: int, ranks: int, generations: int, seed: int, folder: Path) -> bool:
    """Torment one run, finish it, and compare it with an undisturbed one."""
    start = time.monotonic()
    out, whole = folder / "tormented.h5", folder / "whole.h5"
    done = torment(out, ranks, generations, kills, random.Random(seed))
    reached = job.count(out)
    print(f"{reached} generations were committed under fire")
    for path in (out, whole):
        job.finish(path, ranks, reached + 20, folder)
    with open_run(out) as tormented, open_run(whole) as undisturbed:
        differ = job.differences(tormented, undisturbed)
    for what, times in sorted(done.items()):
        print(f"{times:4d}  {what}")
    print(f"{reached + 20} generations, {kills} kills, {time.monotonic() - start:.0f} s: ", end="")
    print("the same bits as an undisturbed run" if not differ else f"DIFFERS in {', '.join(differ)}")
    return not differ


def main() -> None:
    """Read the command line and disturb."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--times", type=int, default=3, help="how often each is tried")
    parser.add_argument("--kills", type=int, help="kill and resume one run so often, in place of the table")
    parser.add_argument("--ranks", default="4", help="a number, or a range as 4-6 to choose from")
    parser.add_argument("--generations", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    options = parser.parse_args()
    low, _, high = options.ranks.partition("-")
    ranks = range(int(low), int(high or low) + 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.kills:
            well = kill_again_and_again(options.kills, ranks[0], options.generations or 20_000, options.seed, folder)
        else:
            well = matrix(options.only, options.times, ranks, options.generations or 400, options.seed, folder)
    sys.exit(not well)


if __name__ == "__main__":
    main()
