#!/usr/bin/env python3
"""Measure costs. Each is also a ratio to a reference that is timed in the same run, because machines differ.

    tools/bench.py rollout     whole rollouts, against their physics and against pybullet_envs_gymnasium
    tools/bench.py gpu         whole batches on a GPU, against their physics alone; bench_parts/gpu.py has its options
    tools/bench.py ranks       what one of 2 to 10,000 ranks computes in a generation, simulated in one process
    tools/bench.py start       what a rank asks of the file system when it starts

jobs/scaling.py measures whole generations on 1, 2, 4, ... ranks.
"""

import importlib
import os
import sys
from pathlib import Path

try:
    from ees_mpi import machine
except ImportError:  # no environment is active: use the one of this checkout
    os.execv(python := str(Path(__file__).parents[1] / ".venv/bin/python"), [python, *sys.argv])

if __name__ == "__main__":
    if sys.argv[1:2] not in (["rollout"], ["gpu"], ["ranks"], ["start"]):
        raise SystemExit(__doc__)
    machine.pin_threads()
    importlib.import_module(f"bench_parts.{sys.argv[1]}").main(sys.argv[2:])
