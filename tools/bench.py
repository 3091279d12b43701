#!/usr/bin/env python3
"""Measure costs. Each is also a ratio to a reference that is timed in the same run, because machines differ.

    tools/bench.py rollout     whole rollouts, against their physics and against pybullet_envs_gymnasium
    tools/bench.py generation  a generation at paper scale with short rollouts: time and memory of its parts
    tools/bench.py gather      a gather on 2, 16 and 48 ranks of this machine: processor time, a gather and a byte
    tools/bench.py gpu         whole batches on a GPU, against their physics alone; bench_parts/gpu.py has its options

tools/bench_parts/ has one file per benchmark. jobs/scaling.py measures whole
generations on 1, 2, 4, ... ranks.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

try:
    from ees_mpi import machine
except ImportError:  # no environment is active: use the one of this checkout
    os.execv(python := str(Path(__file__).parents[1] / ".venv/bin/python"), [python, *sys.argv])

BENCHMARKS = ("rollout", "generation", "gather", "gpu")


def main() -> None:
    """Run the named benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options, more = parser.parse_known_args()
    machine.pin_threads()
    module = importlib.import_module(f"bench_parts.{options.benchmark}")
    if options.worker:
        importlib.import_module("bench_parts.on_ranks").work(module.worker)
    if more and not hasattr(module, "options"):
        parser.error(f"unknown options: {' '.join(more)}")
    module.show(getattr(module, options.benchmark)(*([more] if hasattr(module, "options") else [])))


if __name__ == "__main__":
    main()
