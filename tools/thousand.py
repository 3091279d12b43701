#!/usr/bin/env python3
"""Measure what grows with the number of ranks, fit the model of `ees-mpi plan`, and kill ranks of a large job.

    tools/thousand.py measure 1 4 16 64 >>ranks.jsonl     generations with rollouts that sleep, on so many real ranks
    tools/thousand.py network >>network.jsonl             the gathers between 2, 4 and 8 hosts (namespaces; needs root)
    tools/thousand.py network slow                        generations on 4 hosts, of which one is half as fast
    tools/thousand.py dealing                             the model's rollouts, against simulations
    tools/thousand.py fit ranks.jsonl                     fits 1, 4 and 16 ranks, checks the others, predicts 1,000
    tools/thousand.py kill 256                            a rank and the launcher are killed; the bits stay the same

`ees-mpi docs thousand-ranks` explains the results. tools/thousand_parts/ has one file for each.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

try:
    from ees_mpi import machine
except ImportError:  # no environment is active: use the one of this checkout
    os.execv(python := str(Path(__file__).parents[1] / ".venv/bin/python"), [python, *sys.argv])

import mpirun

TOOLS = Path(__file__).parent
ONE_NODE = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"}  # other transports would be opened in vain


def environment() -> dict[str, str]:
    """Return the environment of ranks on this machine, which find `thousand_parts`."""
    paths = f"{TOOLS}:{TOOLS.parent}:{os.environ.get('PYTHONPATH', '')}"
    return mpirun.environment(PYTHONPATH=paths, STARTED=str(time.time()), **ONE_NODE)


def measure(counts: list[str]) -> None:
    """Print one line of JSON for each number of ranks."""
    for count in counts:
        words = [mpirun.MPIRUN, "-n", count, sys.executable, __file__, "worker", "generation"]
        subprocess.run(words, env=environment(), check=True)


def worker(names: list[str]) -> None:
    """Measure on this rank, together with the others; rank 0 prints."""
    machine.pin_threads()
    from ees_mpi import ranks

    module = importlib.import_module(f"thousand_parts.{names[0]}")

    def job(world: ranks.Ranks) -> None:
        found = module.measure(world)
        if world.is_root:
            print(
                json.dumps({name: round(each, 7) if isinstance(each, float) else each for name, each in found.items()}),
                flush=True,
            )

    ranks.run(job)


def part(name: str, words: list[str]) -> None:
    """Run another part."""
    importlib.import_module(f"thousand_parts.{name}").main(words)


if __name__ == "__main__":
    command, *words = sys.argv[1:] or ["help"]
    actions = {"measure": measure, "worker": worker}
    if command in actions:
        actions[command](words)
    elif command in ("network", "dealing", "fit", "kill"):
        part(command, words)
    else:
        print(__doc__)
