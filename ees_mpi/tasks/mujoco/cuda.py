"""Rollouts on a GPU: MuJoCo Warp moves the robots, torch their policies, and nothing travels between steps.

The robots are split into lanes, each with its own stream and CUDA graphs. A step is a chain of some 500 small kernels;
while the chain of one lane waits for a few slow robots, the kernels of the other lanes use the GPU.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Batch, Floats, Outcome, Singles
from ees_mpi.policies import MLP
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco import waiting
from ees_mpi.tasks.mujoco.batch import Seats, passes
from ees_mpi.tasks.mujoco.buffers import SCRATCH, Buffers, measured_buffers, missing_memory_is_refused, rows_that_fit
from ees_mpi.tasks.mujoco.gpu import Toolkit, toolkit
from ees_mpi.tasks.mujoco.graphs import WAYS
from ees_mpi.tasks.mujoco.lane import Lane
from ees_mpi.tasks.mujoco.physics import Physics
from ees_mpi.tasks.mujoco.plant import Plant
from ees_mpi.tasks.mujoco.policy import upload_table
from ees_mpi.tasks.mujoco.waiting import FirstSteps

LANES = 1  # more lanes were slower on an H200: 2.35 million env steps/s with 1, 2.23 with 2, 2.14 with 4 (cheetah)
MANY_WORLDS = 512  # fewer robots share one lane
FEW_WORLDS = 64  # robots from whose memory that of one is calculated


def open_batches(
    task: WalkingTask,
    plant: Plant,
    sizes: tuple[int, int],
    seed: int,
    noise_table: Singles,
    wanted: int,
    device: int,
    say: Callable[[str], Any],
    antithetic: bool = True,
    lanes: int | None = None,
) -> "GpuRollouts":
    """Make `wanted` robots on GPU number `device`, or as many as fit into its memory.

    `sizes`: contacts and constraints of a robot that fit into buffers; 0: measured.
    """
    if type(task.network()) is not MLP:
        raise ConfigError('task.device: a GPU evaluates the built-in network only; use device = "cpu"')
    tools = toolkit(device, say)
    torch, width, start = tools.torch, 2 if antithetic else 1, time.perf_counter()
    say(f"preparing GPU {device} ({torch.cuda.get_device_name(device)}); the first time kernels compile for a minute")
    buffers = measured_buffers(plant, *sizes)
    with missing_memory_is_refused(), torch.cuda.device(device), tools.warp.ScopedDevice(tools.device):
        with waiting.kernels(tools.warp, say):
            per_row = width * _bytes_of_a_world(tools, plant, buffers)
        per_row += 4 * task.parameters + width * 4 * 4 * sum(task.layers)
        free = torch.cuda.mem_get_info(device)[0]
        rows = rows_that_fit(wanted, width, free, noise_table.nbytes, per_row)
        count = lanes or (LANES if rows * width >= MANY_WORLDS else 1)
        say(f"copying the noise table to GPU {device}: {noise_table.nbytes / 1e9:.2f} GB")
        evaluator = GpuRollouts(
            tools, task, plant, seed, noise_table, -(-rows // count), width, buffers, count, say=say
        )
    say(f"GPU {device} is ready for {evaluator.capacity} robots after {time.perf_counter() - start:.0f} s")
    return evaluator


def _bytes_of_a_world(tools: Toolkit, plant: Plant, buffers: Buffers) -> int:
    """Return the memory of one robot, calculated from a few; also compiles the kernels."""
    few = Physics(tools, plant, FEW_WORLDS, buffers)
    few.step()
    tools.warp.synchronize_device(tools.device)
    return -(-(1 + SCRATCH) * few.bytes() // FEW_WORLDS)


class GpuRollouts:
    """Evaluates batches of individuals, all worlds in step."""

    def __init__(
        self,
        tools: Toolkit,
        task: WalkingTask,
        plant: Plant,
        seed: int,
        noise_table: Singles,
        rows: int,
        width: int,
        buffers: Buffers,
        lanes: int = 1,
        ways: tuple[str, ...] = WAYS,
        fused: bool = True,
        say: Callable[[str], Any] = lambda line: None,
    ):
        """Take all memory now; `rows`: of one lane; `ways`: how steps may be launched; `fused`: policies by Warp."""
        self._tools, self._task, self._rows, self._width = tools, task, rows, width
        table = upload_table(noise_table, tools.device)
        self.lanes = [Lane(tools, task, plant, seed, table, rows, width, buffers, ways, fused) for _ in range(lanes)]
        self.capacity = sum(lane.worlds for lane in self.lanes)
        self._components, self._say = 0, say
        self._first: FirstSteps | None = FirstSteps(say, task.steps)

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        """Roll all individuals of a batch out; return the outcomes in the order of the batch."""
        outcomes: dict[int, Outcome] = {}
        with missing_memory_is_refused():
            if self._components != len(batch.means):
                self._prepare(len(batch.means))
            for seated in self._rounds(batch):
                used = self.lanes[: len(seated)]
                for lane, seats in zip(used, seated, strict=True):
                    lane.load(batch, seats, observation_mean, observation_std)
                self._run(used)
                self._first = None
                for lane in used:
                    outcomes |= lane.read(batch)
        return [outcomes[place] for place in range(len(batch.index))]

    def close(self) -> None:
        """Release the memory of the device."""
        self.lanes, self._components = [], 0
        if self._tools.device != "cpu":
            self._tools.torch.cuda.empty_cache()

    def _prepare(self, components: int) -> None:
        """Make the policies and graphs of one lane after the other: nothing else may run during a capture."""
        with waiting.kernels(self._tools.warp, self._say):
            for lane in self.lanes:
                lane.prepare(components)
        self._components = components

    def _rounds(self, batch: Batch) -> list[list[Seats]]:
        """Seat a batch: in each round at most one pass for every lane."""
        every = list(passes(batch, self._rows, self._width, self.lanes[0].sampled))
        count = len(self.lanes)
        return [every[first : first + count] for first in range(0, len(every), count)]

    def _run(self, lanes: Sequence[Lane]) -> None:
        """Do all steps of the rollouts, the lanes in turns; returns before the device is done."""
        several, rest = divmod(self._task.steps, lanes[0].steps_per_launch)
        for number in range(several):
            for lane in lanes:
                lane.launch()
            if self._first:
                self._first.done((number + 1) * lanes[0].steps_per_launch, lanes[0].recorder.synchronize)
        for _ in range(rest):
            for lane in lanes:
                lane.launch_one()
