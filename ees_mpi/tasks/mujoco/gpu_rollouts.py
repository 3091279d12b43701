"""Rollouts on a GPU: robots and their policies advance step by step there, and nothing travels between steps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.errors import TaskError
from ees_mpi.generation import Batch, Outcome, Outcomes
from ees_mpi.tasks.mujoco.gpu_robots import GpuRobots, GpuSetup, missing_memory_is_refused
from ees_mpi.tasks.mujoco.policy import BatchPolicy, gather_rows, noise_rows, upload_table

FREE_SHARE = 0.9  # of the free memory of the device, that is taken at most
FEW_WORLDS = 64  # robots from whose memory that of one is calculated


def bytes_of_a_row(setup: GpuSetup, width: int) -> int:
    """Return the memory of `width` robots with their noise, calculated from a few robots; also compiles the kernels.

    Whether the noise will be copied, for a std of each parameter, is not known yet: there must be room for it.
    """
    tools, task = setup.tools, setup.task
    few = setup.robot_model.many(tools, FEW_WORLDS, setup.buffers)
    few.step()
    tools.warp.synchronize_device(tools.device)
    of_a_world = -(-few.bytes() // FEW_WORLDS) + 4 * 4 * sum(task.layers)
    return width * of_a_world + 4 * task.parameters


def rows_that_fit(wanted: int, width: int, free: int, fixed: int, per_row: int) -> int:
    """Return how many rows of `width` worlds to make for `wanted` individuals: fewer if the memory is short.

    `free`: bytes that are free; `fixed`: bytes taken once; `per_row`: bytes of the worlds and the noise of a row. One
    more row than needed holds the unperturbed mean.
    """
    rows = -(-wanted // width) + 1
    possible = int(FREE_SHARE * free - fixed) // per_row
    if possible < 1:
        need = (fixed + per_row) / FREE_SHARE
        raise TaskError(
            f"out of GPU memory: one robot and the noise table need {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free; "
            "lower noise.size, or free the GPU"
        )
    return min(rows, possible)


class GpuRollouts(GpuRobots):
    """Evaluates batches of individuals, all worlds in step."""

    def __init__(self, setup: GpuSetup, noise_table: Singles, rows: int, width: int):
        """Take all memory now; `width`: 2 for antithetic pairs, else 1."""
        tools = setup.tools
        self._table = upload_table(noise_table, tools.device)
        super().__init__(setup, rows, width)
        self._offset = tools.torch.zeros(rows, dtype=tools.torch.int64, device=tools.device)
        self.capacity, self._prepared = self.worlds, (0, False)

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        with missing_memory_is_refused():
            if self._prepared != (wanted := (len(batch.means), batch.stds is not None)):
                self._prepared = wanted
                self._prepare(len(batch.means))
            for placed in passes(batch, self._rows, self._width, self._sampled):
                with self.recorder.on_stream():
                    self._policy.normalise(observation_mean, observation_std)
                    self._load(batch, placed)
                    results = self._run(placed.world)
                outcomes |= self._outcomes(batch, placed, results)
        return [outcomes[place] for place in range(len(batch.index))]

    def _policies(self, components: int) -> BatchPolicy:
        from ees_mpi.tasks.mujoco.fused import FusedPolicy  # imports Warp

        sizes = self._task.layers, self._rows, self._width, components
        if self._prepared[1]:  # each parameter has a std of its own, so the noise is copied
            self._noise = noise_rows(self._rows, self._task.parameters, self._tools.device)
            return FusedPolicy(*sizes, self._noise)
        return FusedPolicy(*sizes, self._table[None], self._offset)

    def _load(self, batch: Batch, placed: "Placement") -> None:
        """Bring individuals and starts to the device."""
        std = np.float32(batch.std if batch.stds is None else 1.0)
        self._policy.load(batch.means, placed.sign * std, placed.parent)
        self._offset.copy_(self._tools.torch.from_numpy(placed.offset))
        if batch.stds is not None:
            gather_rows(self._table, self._offset, self._noise, batch.stds)
        seeds = None if batch.reset_seed is None else (placed.world, batch.reset_seed[placed.member])
        self._reset(placed.world[batch.observe[placed.member]], seeds)

    def _outcomes(self, batch: Batch, placed: "Placement", done: Outcomes) -> dict[int, Outcome]:
        """Return the outcomes of placed individuals, by place in the batch."""
        watched = placed.member[batch.observe[placed.member]].tolist()
        sums = dict(zip(watched, done.observations, strict=False))  # there is room for more
        broken = (math.nan,) * self._task.behavior_dim
        rows = (placed.member, batch.index[placed.member], done.valid, done.length, done.behavior, done.fitness)
        outcomes = {}
        for place, index, valid, length, behavior, fitness in zip(*(row.tolist() for row in rows), strict=True):
            if valid:
                outcomes[place] = Outcome(index, tuple(behavior), fitness, length, True, sums.get(place))
            else:
                outcomes[place] = Outcome(index, broken, math.nan, length, valid=False)
        return outcomes


@dataclass(frozen=True)
class Placement:
    """One pass over the device: which individual of the batch is in which world.

    An individual is means[parent] + sign * std * noise[offset : offset + D]. The worlds of a row, one or two, share one
    noise vector, so an antithetic pair reads its noise once. The unperturbed mean (sign 0) needs no noise and takes any
    free world.
    """

    member: NDArray[np.int64]  # [m] places in the batch
    world: NDArray[np.int64]  # [m] row * width + column
    offset: NDArray[np.int64]  # [rows] start of the noise vector of each row
    sign: Singles  # [rows * width]; 0 in unused worlds
    parent: NDArray[np.int64]  # [rows * width]


def passes(batch: Batch, rows: int, width: int, sampled: int) -> Iterator[Placement]:
    """Place a batch in as few passes as its order allows: at most `rows` rows and `sampled` observed rollouts each."""
    waiting: list[Sequence[int]] = []
    observed, observe = 0, batch.observe.tolist()
    for row in _rows(batch.offset.tolist(), batch.sign.tolist(), width):
        more = sum(observe[i] for i in row)
        if waiting and (len(waiting) == rows or observed + more > sampled):
            yield _place(batch, waiting, rows, width)
            waiting, observed = [], 0
        waiting.append(row)
        observed += more
    if waiting:
        yield _place(batch, waiting, rows, width)


def _rows(offset: Sequence[int], sign: Sequence[int], width: int) -> list[Sequence[int]]:
    """Group individuals into rows: neighbours with the same noise together, unperturbed means into free worlds."""
    if width == 1:
        return [(i,) for i in range(len(offset))]
    rows: list[list[int]] = []
    for i, direction in enumerate(sign):
        if direction and rows and len(rows[-1]) == 1 and offset[rows[-1][0]] == offset[i]:
            rows[-1].append(i)
        elif direction:
            rows.append([i])
    free = [row for row in reversed(rows) if len(row) == 1]
    for i, direction in enumerate(sign):
        if not direction:
            if not free:
                rows.append([])
                free = [rows[-1]] * 2
            free.pop().append(i)
    return list(rows)


def _place(batch: Batch, filled: Sequence[Sequence[int]], rows: int, width: int) -> Placement:
    member = np.array([i for row in filled for i in row], np.int64)
    world = np.array(
        [number * width + column for number, row in enumerate(filled) for column in range(len(row))], np.int64
    )
    sign, parent = np.zeros(rows * width, np.float32), np.zeros(rows * width, np.int64)
    sign[world], parent[world] = batch.sign[member], batch.parent[member]
    offset = np.zeros(rows, np.int64)
    perturbed = batch.sign[member] != 0
    offset[world[perturbed] // width] = batch.offset[member[perturbed]]
    return Placement(member, world, offset, sign, parent)
