#!/usr/bin/env python3
"""Damage run files in thousands of ways, run one command on each, and count the outcomes.

A case is a fresh copy of small files, one damage and one command, all chosen from a seed. Every command must either
give the right bits, or refuse with exit code 2 or 3 and a sentence (`verify` may also say with 1 that bits differ).
A traceback, a warning of Python, a control character, a crash, a call of more than 20 s, wrong bits, or a change of
any other file is a fault.

    tools/fuzz.py                        2,000 cases
    tools/fuzz.py --cases 200 --seed 7   others, or more
    tools/fuzz.py --kinds journal        only damages whose names contain this word
    tools/fuzz.py --repeat SEED TEMPLATE KIND    one case again
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]

try:
    from ees_mpi import machine
except ImportError:  # no environment is active: use the one of this checkout
    os.execv(python := str(CHECKOUT / ".venv/bin/python"), [python, *sys.argv])

OLDER = CHECKOUT / "tests/data/interference.h5.gz"
OUTCOMES = ("right bits", "refused", "no fault", "fault")


def main() -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--seed", default="0")
    parser.add_argument(
        "--patience", type=float, default=20.0, help="seconds until a call hangs; more if cores are busy"
    )
    parser.add_argument("--kinds", default="", help="a word in the names of the damages")
    parser.add_argument("--without", default=None, help="a word in the names of damages that are left out")
    parser.add_argument("--repeat", nargs=3, metavar=("SEED", "TEMPLATE", "KIND"))
    options = parser.parse_args()
    machine.pin_threads()
    from fuzz_parts import trial
    from fuzz_parts.damages import DAMAGES

    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # thousands of files need no disk
    with tempfile.TemporaryDirectory(prefix="fuzz", dir=memory) as name:
        folder = Path(name)
        trial.preload()
        trial.make_templates(folder, OLDER)
        sound = trial.references(folder)
        if options.repeat:
            seed, template, kind = options.repeat
            print(trial.case(folder, template, kind, seed, sound, options.patience))
            return 0
        kinds = [kind for kind in (*DAMAGES, "options") if options.kinds in kind]
        kinds = [kind for kind in kinds if options.without is None or options.without not in kind]
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        slowest = dict.fromkeys(kinds, 0.0)
        begin = time.monotonic()
        for number in range(options.cases):
            if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                break
            kind = kinds[number % len(kinds)]
            template = "killed" if kind.startswith("journal") else trial.TEMPLATES[number // len(kinds) % 3]
            verdict = trial.case(folder, template, kind, f"{options.seed}/{number}", sound, options.patience)
            counts[kind][verdict.outcome] += 1
            slowest[kind] = max(slowest[kind], verdict.seconds)
            if verdict.fault:
                print(f"{verdict.fault}\n", flush=True)
    print("| damage | cases | right bits | refused | not judged by bits | faults | slowest |")
    print("|---|---|---|---|---|---|---|")
    for kind, count in counts.items():
        cells = " | ".join(str(count[outcome]) for outcome in OUTCOMES)
        print(f"| {kind} | {sum(count.values())} | {cells} | {slowest[kind]:.1f} s |")
    total = sum(counts.values(), Counter())
    cells = " | ".join(str(total[outcome]) for outcome in OUTCOMES)
    print(f"| all | {sum(total.values())} | {cells} | {max(slowest.values()):.1f} s |")
    return int(total["fault"] > 0)


if __name__ == "__main__":
    sys.exit(main())
