"""Whole batches of rollouts on a GPU, against the physics alone for as many robots in one graph.

Robots: cheetah and ant are Gymnasium's in MuJoCo Warp, paper-cheetah and paper-ant are the replicas of Bullet's.

Options: --individuals 10000, --steps 300, --robots paper-cheetah paper-ant.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.generation import Batch
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco.engine import lacking, toolkit
from ees_mpi.tasks.mujoco.gpu_robots import GpuSetup, Recorder
from ees_mpi.tasks.mujoco.gpu_rollouts import GpuRollouts
from ees_mpi.tasks.mujoco.physics import Buffers, measured_buffers
from ees_mpi.tasks.mujoco.replica.robots import replica_model
from ees_mpi.tasks.mujoco.robot_model import Toolkit

TABLE = 1 << 26
STD = 0.02
DRIVEN_STEPS, STRENGTH = 10, 0.3  # steps in a graph of physics alone, and the standard deviation of its controls
REPEAT = 20
PARTS = ("physics", "policies", "observations", "notes")  # of a step
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


def main(words: list[str]) -> None:
    """Measure every robot, and print the results."""
    chosen, problem = options(words), lacking()
    if problem:
        raise SystemExit(f"tools/bench.py gpu: {problem}")
    tools, rows = toolkit(say), []
    table = np.random.default_rng(0).standard_normal(TABLE, dtype=np.float32)
    table.flags.writeable = False
    for robot in chosen.robots:
        task, robot_model = task_and_model(robot, chosen.steps)
        buffers = measured_buffers(robot_model)
        alone = physics_alone(tools, robot_model, buffers, chosen.individuals, chosen.steps)
        row = {"robot": robot, "individuals": chosen.individuals, "physics_alone_ms": alone}
        row |= bench_batches(tools, task, robot_model, buffers, table, chosen.individuals)
        row["ratio_to_physics"] = row["step_ms"] / alone
        row["rest_ms"] = row["step_ms"] - sum(row[f"{part}_ms"] for part in PARTS)
        rows.append(row)
        say(f"{robot}: {row['steps_per_second']:,.0f} env steps/s")
    show(rows)


def task_and_model(robot: str, steps: int) -> tuple[Any, Any]:
    """Return the task and the compiled robot of a name."""
    if robot.startswith("paper-"):
        name = robot.removeprefix("paper-")
        task = TASKS.build({"name": name, "engine": "mujoco", "device": "cuda", "steps": steps})
        return task, replica_model(name)
    task = TASKS.build({"name": "mujoco", "model": robot, "device": "cuda", "steps": steps})
    return task, task.robot_model()


def physics_alone(tools: Toolkit, robot_model: Any, buffers: Buffers, individuals: int, steps: int) -> float:
    """Return the milliseconds of one step of so many robots that are moved by random controls."""
    recorder = Recorder(tools)
    with recorder.on_stream():
        physics = robot_model.many(tools, individuals, buffers)
        physics.reset(*(part[None].astype(np.float32) for part in robot_model.start(0)))
        launch = driven(tools, recorder, physics)
        return timed(tools, recorder, launch, max(1, steps // DRIVEN_STEPS)) / DRIVEN_STEPS


def driven(tools: Toolkit, recorder: Recorder, physics: Any) -> Callable[[], None]:
    """Return a graph of several steps of physics with random controls."""
    controls = STRENGTH * tools.torch.randn((DRIVEN_STEPS, *physics.ctrl.shape), device=tools.device)

    def steps() -> None:
        for control in controls:
            physics.ctrl.copy_(control)
            physics.step()

    steps()
    recorder.synchronize()
    return recorder.captured(steps)


def timed(tools: Toolkit, recorder: Recorder, launch: Callable[[], None], repeat: int) -> float:
    """Return the milliseconds of one launch on the stream of its recorder."""
    tools.torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        with recorder.on_stream():
            launch()
    tools.torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeat * 1e3


def bench_batches(tools: Toolkit, task: Any, robot_model: Any, buffers: Buffers, table: Any, individuals: int) -> Row:
    """Evaluate a batch twice, and time the second; then time the parts of a step."""
    torch, before = tools.torch, tools.torch.cuda.mem_get_info()[0]
    rollouts = GpuRollouts(GpuSetup(tools, task, robot_model, 0, buffers), table, individuals // 2 + 1, 2)
    batch, size = batch_of(task, individuals), task.observation_dim
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        outcomes = rollouts.evaluate_batch(batch, np.zeros(size), np.ones(size))
        seconds.append(time.perf_counter() - start)
    data = getattr(rollouts.physics, "data", None)  # of MuJoCo Warp; replicas have none
    iterations = data.solver_niter.numpy() if data else np.zeros(1, np.int32)
    row = {
        "invalid": sum(not each.valid for each in outcomes),
        "distance": float(np.nanmean([np.hypot.reduce(each.behavior) for each in outcomes])),
        "first_batch_s": seconds[0],
        "step_ms": seconds[1] / task.steps * 1e3,
        "steps_per_second": len(outcomes) * task.steps / seconds[1],
        "memory_gb": (before - torch.cuda.mem_get_info()[0]) / 1e9,
        "iterations_mean": float(iterations.mean()),
        "iterations_max": int(iterations.max()),
        "constraints_max": int(data.nefc.numpy().max()) if data else 0,
        "constraints": buffers.constraints,
        "contacts": buffers.contacts,
    }
    recorder = rollouts.recorder
    with recorder.on_stream():
        graphs = {"physics": driven(tools, recorder, rollouts.physics)}
        graphs |= {name: recorder.captured(part) for name, part in parts(rollouts).items()}
    row |= {f"{name}_ms": timed(tools, recorder, graph, REPEAT) for name, graph in graphs.items()}
    row["physics_ms"] /= DRIVEN_STEPS
    rollouts.close()
    return row


def parts(rollouts: GpuRollouts) -> dict[str, Callable[[], None]]:
    """Return the parts of a step besides physics."""
    return {"observations": rollouts.observe, "policies": rollouts.act, "notes": rollouts.results.note}


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
    print(
        "robot          env steps/s   ms/step  physics  policies  observe  notes   rest  physics alone  ratio  memory"
    )
    for r in rows:
        print(
            f"{r['robot']:13} {r['steps_per_second']:12,.0f} {r['step_ms']:9.3f} {r['physics_ms']:8.3f} "
            f"{r['policies_ms']:9.3f} {r['observations_ms']:8.3f} {r['notes_ms']:6.3f} "
            f"{r['rest_ms']:6.3f} {r['physics_alone_ms']:14.3f} {r['ratio_to_physics']:6.2f} {r['memory_gb']:6.2f}G"
        )
    for r in rows:
        print(
            f"{r['robot']:13} invalid {r['invalid']}, mean distance {r['distance']:.3f}, "
            f"first batch {r['first_batch_s']:.1f} s, iterations of the solver "
            f"{r['iterations_mean']:.2f} (at most {r['iterations_max']}), constraints at most {r['constraints_max']} "
            f"of {r['constraints']}, contacts {r['contacts']}"
        )
