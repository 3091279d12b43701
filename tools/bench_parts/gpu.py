"""Whole batches of rollouts on a GPU, against MuJoCo Warp's physics alone for as many robots in one graph.

Options: --individuals 10000, --steps 300, --robots cheetah ant, --lanes 1 2 4 (each is measured), --contacts,
--constraints (0: as measured by the task), --torch (policies without Warp's kernels).
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.outcomes import Batch
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco import cuda
from ees_mpi.tasks.mujoco.buffers import measured_buffers
from ees_mpi.tasks.mujoco.gpu import Toolkit, lacking, toolkit
from ees_mpi.tasks.mujoco.graphs import Recorder
from ees_mpi.tasks.mujoco.physics import Physics

TABLE = 1 << 26
STD = 0.02
DRIVEN_STEPS, STRENGTH = 10, 0.3  # steps in a graph of physics alone, and the standard deviation of its controls
REPEAT = 20
Row = dict[str, Any]


def options(words: list[str]) -> argparse.Namespace:
    """Read the options of this benchmark."""
    parser = argparse.ArgumentParser(prog="tools/bench.py gpu")
    parser.add_argument("--individuals", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--robots", nargs="+", default=["cheetah", "ant"])
    parser.add_argument("--lanes", nargs="+", type=int, default=[cuda.LANES])
    parser.add_argument("--contacts", type=int, default=0)
    parser.add_argument("--constraints", type=int, default=0)
    parser.add_argument("--torch", action="store_true")
    return parser.parse_args(words)


def say(line: str) -> None:
    """Print progress, apart from the results."""
    print(line, file=sys.stderr, flush=True)


def gpu(words: list[str]) -> list[Row]:
    """Measure every robot with every number of lanes."""
    chosen, problem = options(words), lacking()
    if problem:
        raise SystemExit(f"tools/bench.py gpu: {problem}")
    tools, rows = toolkit(0, say), []
    table = np.random.default_rng(0).standard_normal(TABLE, dtype=np.float32)
    table.flags.writeable = False
    for robot in chosen.robots:
        sizes = {"contacts": chosen.contacts, "constraints": chosen.constraints, "steps": chosen.steps}
        task = TASKS.build({"name": "mujoco", "model": robot, "device": "cuda", **sizes})
        alone = physics_alone(tools, task, chosen.individuals)
        for lanes in chosen.lanes:
            row = {"robot": robot, "lanes": lanes, "individuals": chosen.individuals, "physics_alone_ms": alone}
            rows.append(row | bench_batches(tools, task, table, row["individuals"], lanes, not chosen.torch))
            row = rows[-1]
            row["ratio_to_physics"] = row["step_ms"] / alone
            row["rest_ms"] = row["step_ms"] - row["physics_ms"] - row["policies_ms"] - row["notes_ms"]
            say(f"{robot} in {lanes} lanes: {row['steps_per_second']:,.0f} env steps/s")
    return rows


def physics_alone(tools: Toolkit, task: Any, individuals: int) -> float:
    """Return the milliseconds of one step of so many robots that are moved by random controls."""
    recorder = Recorder(tools)
    buffers = measured_buffers(task.plant(), task.contacts, task.constraints)
    with recorder.on_stream():
        physics = Physics(tools, task.plant(), individuals, buffers, task.frame_skip)
        physics.reset(*(part[None].astype(np.float32) for part in task.plant().start(0)))
        launch = driven(tools, recorder, physics)
        return timed(tools, [recorder], [launch], max(1, task.steps // DRIVEN_STEPS)) / DRIVEN_STEPS


def driven(tools: Toolkit, recorder: Recorder, physics: Physics) -> Callable[[], None]:
    """Return a graph of several steps of physics with random controls."""
    controls = STRENGTH * tools.torch.randn((DRIVEN_STEPS, *physics.ctrl.shape), device=tools.device)

    def steps() -> None:
        for control in controls:
            physics.ctrl.copy_(control)
            physics.step()

    steps()
    recorder.synchronize()
    return recorder.captured_by_warp(steps)


def timed(tools: Toolkit, recorders: list[Recorder], launches: list[Callable[[], None]], repeat: int) -> float:
    """Return the milliseconds of one round of launches, each on the stream of its recorder."""
    tools.torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        for recorder, launch in zip(recorders, launches, strict=True):
            with recorder.on_stream():
                launch()
    tools.torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeat * 1e3


def bench_batches(tools: Toolkit, task: Any, table: Any, individuals: int, lanes: int, fused: bool) -> Row:
    """Evaluate a batch twice, and time the second; then time the parts of a step."""
    torch, before = tools.torch, tools.torch.cuda.mem_get_info()[0]
    buffers, rows = measured_buffers(task.plant(), task.contacts, task.constraints), -(-(individuals // 2 + 1) // lanes)
    rollouts = cuda.GpuRollouts(tools, task, 0, table, rows, 2, buffers, lanes, fused=fused)
    batch, size = batch_of(task, individuals), task.observation_dim
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        outcomes = rollouts.evaluate_batch(batch, np.zeros(size), np.ones(size))
        seconds.append(time.perf_counter() - start)
    iterations = np.concatenate([lane.physics.solver_iterations() for lane in rollouts.lanes])
    row = {
        "way": " ".join(sorted({lane.way for lane in rollouts.lanes})),
        "failures": [failure for lane in rollouts.lanes for failure in lane.failures],
        "invalid": sum(not each.valid for each in outcomes),
        "distance": float(np.nanmean([np.hypot.reduce(each.behavior) for each in outcomes])),
        "first_batch_s": seconds[0],
        "step_ms": seconds[1] / task.steps * 1e3,
        "steps_per_second": len(outcomes) * task.steps / seconds[1],
        "memory_gb": (before - torch.cuda.mem_get_info()[0]) / 1e9,
        "iterations_mean": float(iterations.mean()),
        "iterations_max": int(iterations.max()),
        "constraints_max": int(max(lane.physics.constraints().max() for lane in rollouts.lanes)),
        "constraints": buffers.constraints,
        "contacts": buffers.contacts,
    }
    row |= {f"{name}_ms": part_of_a_step(tools, rollouts.lanes, name) for name in ("policies", "notes", "physics")}
    rollouts.close()
    return row


def part_of_a_step(tools: Toolkit, lanes: list[Any], name: str) -> float:
    """Return the milliseconds of one part of a step: policies, physics or notes of all lanes in turns."""
    recorders, launches = [lane.recorder for lane in lanes], []
    for lane, recorder in zip(lanes, recorders, strict=True):
        with recorder.on_stream():
            if name == "physics":
                launches.append(driven(tools, recorder, lane.physics))
            else:
                launches.append(recorder.captured_by_warp(lane.parts()[name]))
    return timed(tools, recorders, launches, REPEAT) / (DRIVEN_STEPS if name == "physics" else 1)


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
    print("robot    lanes  env steps/s   ms/step  physics  policies  notes   rest  physics alone  ratio  memory")
    for r in rows:
        print(
            f"{r['robot']:8} {r['lanes']:5} {r['steps_per_second']:12,.0f} {r['step_ms']:9.3f} {r['physics_ms']:8.3f} "
            f"{r['policies_ms']:9.3f} {r['notes_ms']:6.3f} {r['rest_ms']:6.3f} {r['physics_alone_ms']:14.3f} "
            f"{r['ratio_to_physics']:6.2f} {r['memory_gb']:6.2f}G"
        )
    for r in rows:
        print(
            f"{r['robot']:8} {r['lanes']:5} way {r['way']}, failed {r['failures'] or 'none'}, invalid {r['invalid']}, "
            f"mean distance {r['distance']:.3f}, first batch {r['first_batch_s']:.1f} s, iterations of the solver "
            f"{r['iterations_mean']:.2f} (at most {r['iterations_max']}), constraints at most {r['constraints_max']} "
            f"of {r['constraints']}, contacts {r['contacts']}"
        )
