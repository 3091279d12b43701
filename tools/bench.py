#!/usr/bin/env python3
"""What things cost, each as a ratio to a yardstick timed in the same run, because machines differ.

    tools/bench.py commit      a commit, against a write and fsync of the same bytes
    tools/bench.py rollout     whole rollouts, against the physics in them and against ready-made environments
    tools/bench.py gradient    the gradient at paper scale, against a memcpy of the noise it reads
    tools/bench.py maxent      MaxEnt's weights at paper scale, against numpy's exp of as many entries
    tools/bench.py noise       the noise table, against one call of standard_normal
    tools/bench.py gather      the gathers of a generation at paper scale, against a memcpy of the same bytes
    tools/bench.py scaling     generations on 1, 2, ... ranks, strong and weak
    tools/bench.py generation  a generation at paper scale with short rollouts: where time and memory go
    tools/bench.py startup     8 ranks from mpirun to the first rollout, and how many files a rank opens
    tools/bench.py scg         MaxEnt's weights by a nested graph, against the closed form
    tools/bench.py maml        MAML: sampling by numpy or batched torch, a Hessian product against a forward pass
    tools/bench.py estimators  the variance of the population's and of the policy's gradient, side by side
    tools/bench.py large       peak memory of looking at a run file of 2 GB, against a limit of 500 MB

--json prints numbers for scripts. What is measured is in tools/benchmarks, a file each.
"""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

try:
    from ees_mpi import machine
except ImportError:  # no environment is active: take the checkout's own
    os.execv(python := str(Path(__file__).parents[1] / ".venv/bin/python"), [python, *sys.argv])

BENCHMARKS = (
    "commit",
    "rollout",
    "gradient",
    "maxent",
    "noise",
    "gather",
    "scaling",
    "generation",
    "startup",
    "scg",
    "estimators",
    "maml",
    "large",
)


def main() -> None:
    """Run the benchmark that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    machine.pin_threads()
    sys.path.insert(0, str(Path(__file__).parent))
    module = importlib.import_module(f"benchmarks.{options.benchmark}")
    if options.worker:
        importlib.import_module("benchmarks.parallel").work(module.worker)
    results = getattr(module, options.benchmark)()
    print(json.dumps(results)) if options.json else module.show(results)


if __name__ == "__main__":
    main()
