"""Whole batches of rollouts on a GPU.

Robots: cheetah and ant are Gymnasium's, paper-cheetah and paper-ant are the replicas of Bullet's.

Options: --individuals 10000, --steps 300, --robots paper-cheetah paper-ant.
"""

import argparse
import sys
import time
from typing import Any

import numpy as np

from ees_mpi.outcomes import Batch
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco.gpu import lacking

TABLE = 1 << 26
STD = 0.02
Row = dict[str, Any]


def options(words: list[str]) -> argparse.Namespace:
    """Read the options of this benchmark."""
    parser = argparse.ArgumentParser(prog="tools/bench.py gpu")
    parser.add_argument("--individuals", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--robots", nargs="+", default=["paper-cheetah", "paper-ant", "cheetah", "ant"])
    return parser.parse_args(words)


def say(line: str) -> None:
    """Print progress, apart from the results."""
    print(line, file=sys.stderr, flush=True)


def gpu(words: list[str]) -> list[Row]:
    """Evaluate a batch of every robot twice, and time the second."""
    chosen, rows, problem = options(words), [], lacking()
    if problem:
        raise SystemExit(f"tools/bench.py gpu: {problem}")
    table = np.random.default_rng(0).standard_normal(TABLE, dtype=np.float32)
    table.flags.writeable = False
    for robot in chosen.robots:
        task = task_of(robot, chosen.steps)
        rollouts = task.open_batches(0, table, chosen.individuals, True, say)
        batch, size, seconds = batch_of(task, chosen.individuals), task.observation_dim, []
        for _ in range(2):
            start = time.perf_counter()
            outcomes = rollouts.evaluate_batch(batch, np.zeros(size), np.ones(size))
            seconds.append(time.perf_counter() - start)
        rollouts.close()
        rate = len(outcomes) * task.steps / seconds[1]
        invalid = sum(not each.valid for each in outcomes)
        rows.append({"robot": robot, "steps_per_second": rate, "first_batch_s": seconds[0], "invalid": invalid})
    return rows


def task_of(robot: str, steps: int) -> Any:
    """Return the task of a robot."""
    name = robot.removeprefix("paper-")
    which = {"name": name, "engine": "mujoco"} if name != robot else {"name": "mujoco", "model": robot}
    return TASKS.build({**which, "device": "cuda", "steps": steps})


def batch_of(task: Any, individuals: int) -> Batch:
    """Return antithetic pairs around one mean, and the mean itself."""
    pairs, generator = individuals // 2, np.random.default_rng(1)
    offset = np.append(np.repeat(generator.integers(0, TABLE - task.parameters, pairs), 2), 0)
    sign = np.append(np.tile([1, -1], pairs), 0).astype(np.int8)
    observe = generator.random(len(sign)) < task.observation_share
    mean = task.initial(generator)[None]
    return Batch(np.arange(len(sign)), mean, STD, offset, sign, np.zeros(len(sign), np.int32), observe)


def show(rows: list[Row]) -> None:
    """Print the results for reading."""
    print("robot          env steps/s  first batch  invalid")
    for r in rows:
        print(f"{r['robot']:13} {r['steps_per_second']:12,.0f} {r['first_batch_s']:10.1f} s {r['invalid']:8}")
