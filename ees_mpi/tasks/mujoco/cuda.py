"""Rollouts on a GPU: MuJoCo Warp moves the robots, torch and Warp their policies, and nothing travels between steps."""

import math
import time

import numpy as np

from ees_mpi.contracts import Say
from ees_mpi.outcomes import Batch, Floats, Outcome, Outcomes, Singles
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco.batch import Seats, passes
from ees_mpi.tasks.mujoco.buffers import SCRATCH, Buffers, measured_buffers, missing_memory_is_refused, rows_that_fit
from ees_mpi.tasks.mujoco.gpu import Toolkit, preparing_kernels, toolkit
from ees_mpi.tasks.mujoco.physics import Physics
from ees_mpi.tasks.mujoco.plant import Plant
from ees_mpi.tasks.mujoco.policy import BatchPolicy, gather_rows, upload_table
from ees_mpi.tasks.mujoco.worlds import Worlds

FEW_WORLDS = 64  # robots from whose memory that of one is calculated


def open_batches(
    task: WalkingTask,
    plant: Plant,
    sizes: tuple[int, int],
    seed: int,
    noise_table: Singles,
    wanted: int,
    antithetic: bool,
    say: Say,
) -> "GpuRollouts":
    """Make `wanted` robots on the first visible GPU, or as many as fit into its memory.

    `sizes`: contacts and constraints of a robot that fit into buffers; 0: measured.
    """
    tools, start, width = toolkit(say), time.perf_counter(), 2 if antithetic else 1
    torch, buffers = tools.torch, measured_buffers(plant, *sizes)
    with missing_memory_is_refused(), torch.cuda.device(0), tools.warp.ScopedDevice(tools.device):
        with preparing_kernels(say):
            per_row = width * _bytes_of_a_world(tools, plant, buffers)
        per_row += 4 * task.parameters + width * 4 * 4 * sum(task.layers)
        rows = rows_that_fit(wanted, width, torch.cuda.mem_get_info(0)[0], noise_table.nbytes, per_row)
        say(f"copying the noise table to the GPU: {noise_table.nbytes / 1e9:.2f} GB")
        evaluator = GpuRollouts(tools, task, plant, seed, noise_table, rows, width, buffers, say)
    say(f"the GPU is ready for {evaluator.capacity} robots after {time.perf_counter() - start:.0f} s")
    return evaluator


def _bytes_of_a_world(tools: Toolkit, plant: Plant, buffers: Buffers) -> int:
    """Return the memory of one robot, calculated from a few; also compiles the kernels."""
    few = Physics(tools, plant, FEW_WORLDS, buffers)
    few.step()
    tools.warp.synchronize_device(tools.device)
    return -(-(1 + SCRATCH) * few.bytes() // FEW_WORLDS)


class GpuRollouts(Worlds):
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
        say: Say = lambda line: None,
    ):
        """Take all memory now; `width`: 2 for antithetic pairs, else 1."""
        self._table = upload_table(noise_table, tools.device)
        super().__init__(tools, task, plant, seed, rows, width, buffers)
        self.capacity, self._components, self._say = self.worlds, 0, say

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        with missing_memory_is_refused():
            if self._components != len(batch.means):
                with preparing_kernels(self._say):
                    self._prepare(len(batch.means))
                self._components = len(batch.means)
            for seats in passes(batch, self._rows, self._width, self._sampled):
                with self.recorder.on_stream():
                    self._policy.normalise(observation_mean, observation_std)
                    self._load(batch, seats)
                    results = self._run(seats.world)
                outcomes |= self._outcomes(batch, seats, results)
        return [outcomes[place] for place in range(len(batch.index))]

    def _policies(self, components: int) -> BatchPolicy:
        from ees_mpi.tasks.mujoco.fused import FusedPolicy  # imports Warp

        return FusedPolicy(self._task.layers, self._rows, self._width, components, self._noise)

    def _load(self, batch: Batch, seats: Seats) -> None:
        """Bring individuals and starts to the device."""
        std = np.float32(batch.std if batch.stds is None else 1.0)
        self._policy.load(batch.means, seats.sign * std, seats.parent)
        offset = self._tools.torch.from_numpy(seats.offset).to(self._tools.device)
        gather_rows(self._table, offset, self._noise, batch.stds)
        seeds = None if batch.reset_seed is None else (seats.world, batch.reset_seed[seats.member])
        self._reset(seats.world[batch.observe[seats.member]], seeds)

    def _outcomes(self, batch: Batch, seats: Seats, done: Outcomes) -> dict[int, Outcome]:
        """Return the outcomes of seated individuals, by place in the batch."""
        watched = seats.member[batch.observe[seats.member]].tolist()
        sums = dict(zip(watched, done.observations, strict=False))  # there is room for more
        broken = (math.nan,) * self._task.behavior_dim
        rows = (seats.member, batch.index[seats.member], done.valid, done.length, done.behavior, done.fitness)
        outcomes = {}
        for place, index, valid, length, behavior, fitness in zip(*(row.tolist() for row in rows), strict=True):
            if valid:
                outcomes[place] = Outcome(index, tuple(behavior), fitness, length, True, sums.get(place))
            else:
                outcomes[place] = Outcome(index, broken, math.nan, length, valid=False)
        return outcomes
