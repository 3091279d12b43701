"""An iteration of MAML on a GPU, against the physics of as many robots alone in one graph.

Options: --iterations 2, --size 40 (tasks), --rollouts 10, --steps 1000. Start it several times at once for several runs
side by side.
"""

import argparse
import sys
import time
from typing import Any

from bench_parts.gpu import driven, timed

from ees_mpi import config
from ees_mpi.generation.state import first_state
from ees_mpi.maml.training import MamlJob
from ees_mpi.ranks import Ranks
from ees_mpi.tasks.mujoco.gpu import lacking
from ees_mpi.tasks.mujoco.graphs import Recorder

GRAPHS = 20  # of physics alone, ten steps each


def options(words: list[str]) -> argparse.Namespace:
    """Read the options of this benchmark."""
    parser = argparse.ArgumentParser(prog="tools/bench.py maml_gpu")
    for name, default in (("iterations", 2), ("size", 40), ("rollouts", 10), ("steps", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args(words)


def maml_gpu(words: list[str]) -> dict[str, Any]:
    """Return the seconds of an iteration and of its parts, the best of a few."""
    chosen, problem = options(words), lacking()
    if problem:
        raise SystemExit(f"tools/bench.py maml_gpu: {problem}")
    sizes = (f"population.size={chosen.size}", f"maml.rollouts={chosen.rollouts}", f"task.steps={chosen.steps}")
    more = ("task.engine=mujoco", "task.device=cuda", "run.evaluate_mean_every=0")
    job = MamlJob.open(config.load("cheetah-maml", (*sizes, *more)), Ranks())
    walks: Any = job.work._walks
    torch, state, found = walks._tools.torch, first_state(job.config), []
    for number in range(1 + chosen.iterations):
        start = time.perf_counter()
        record, state = job.advance(state)
        found.append({"seconds": time.perf_counter() - start, **record.seconds})
        print(f"iteration {number}: {found[-1]}", file=sys.stderr, flush=True)
    best = min(found[1:], key=lambda each: each["seconds"])
    memory = torch.cuda.max_memory_allocated() / 1e9
    recorder = Recorder(walks._tools)
    with recorder.on_stream():
        launch = driven(walks._tools, recorder, walks.physics)
        physics = timed(walks._tools, recorder, launch, GRAPHS) / 10
    best |= {"robots": walks.worlds, "memory_gb": memory}
    return best | {"step_ms": best["evaluate"] / (2 * chosen.steps) * 1e3, "physics_alone_ms": physics}


def show(found: dict[str, Any]) -> None:
    """Print the result for reading."""
    parts = f"rollouts {found['evaluate']:.2f}, update {found['update']:.2f}"
    print(f"an iteration            {found['seconds']:.2f} s: {parts}")
    print(f"an env step             {found['step_ms']:.2f} ms of {found['robots']} robots")
    print(f"physics of them alone   {found['physics_alone_ms']:.2f} ms")
    print(f"memory of torch         {found['memory_gb']:.1f} GB")
