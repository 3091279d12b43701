#!/usr/bin/env python3
"""Damage run files in thousands of ways, run one command on each, and count the outcomes.

A case is a fresh copy of small files, one damage and one command, all chosen from a seed. Every command must either
give the right bits, or refuse with exit code 2 or 3 and a sentence (`verify` may also say with 1 that bits differ).
A traceback, a warning of Python, a control character, a crash, a call of more than 20 s, wrong bits, a change of any
other file, opening one (inotify of Linux tells, also for libraries in C), or more than 1 GB of memory in a command that
only reads is a fault.

    tools/fuzz.py                        2,000 cases
    tools/fuzz.py --cases 200 --seed 7   others, or more
    tools/fuzz.py --kinds journal        only damages whose names contain this word
    tools/fuzz.py --repeat SEED TEMPLATE KIND    one case again
"""

import argparse
import os
import resource
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

OLDER = CHECKOUT / "tests/data/format2/interference.h5.gz"
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
    parser.add_argument("--without", action="append", default=[], help="a word in the names of damages to leave out")
    parser.add_argument("--repeat", nargs=3, metavar=("SEED", "TEMPLATE", "KIND"))
    options = parser.parse_args()
    machine.pin_threads()
    sys.path.append(str(CHECKOUT / "tests"))  # for `support.run_files`, which renews hashes
    from fuzz_parts import trial
    from fuzz_parts.catalog import KINDS, TEMPLATES

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
        kinds = [kind for kind in KINDS if options.kinds in kind and not any(word in kind for word in options.without)]
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
        slowest, largest = dict.fromkeys(kinds, 0.0), dict.fromkeys(kinds, 0)
        begin = time.monotonic()
        for number in range(options.cases):
            if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                break
            kind = kinds[number % len(kinds)]
            template = TEMPLATES.get(kind, trial.TEMPLATES[number // len(kinds) % len(trial.TEMPLATES)])
            verdict = trial.case(folder, template, kind, f"{options.seed}/{number}", sound, options.patience)
            counts[kind][verdict.outcome] += 1
            slowest[kind], largest[kind] = max(slowest[kind], verdict.seconds), max(largest[kind], verdict.memory)
            if verdict.fault:
                print(f"{verdict.fault}\n", flush=True)
    print("| damage | cases | right bits | refused | not judged by bits | faults | slowest | largest |")
    print("|---|---|---|---|---|---|---|---|")
    total = sum(counts.values(), Counter())
    for kind, count in (*counts.items(), ("all", total)):
        cells = " | ".join(str(count[outcome]) for outcome in OUTCOMES)
        slow, large = slowest.get(kind, max(slowest.values())), largest.get(kind, max(largest.values()))
        print(f"| {kind} | {sum(count.values())} | {cells} | {slow:.1f} s | {large >> 20} MB |")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"seed {options.seed}, {(used.ru_utime + used.ru_stime) / 3600:.2f} CPU hours")
    return int(total["fault"] > 0)


if __name__ == "__main__":
    sys.exit(main())
