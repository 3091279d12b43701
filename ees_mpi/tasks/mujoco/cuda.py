"""Rollouts on a GPU: MuJoCo Warp moves the robots, torch their policies, and nothing travels between steps."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import ConfigError, TaskError
from ees_mpi.outcomes import Batch, Floats, Outcome, Singles
from ees_mpi.policies import MLP
from ees_mpi.tasks.locomotion import along
from ees_mpi.tasks.mujoco.batch import Seats, passes
from ees_mpi.tasks.mujoco.buffers import (
    SCRATCH,
    Buffers,
    measured_buffers,
    overflow_message,
    rows_that_fit,
    watched_worlds,
)
from ees_mpi.tasks.mujoco.graphs import WAYS, Recorder, Step
from ees_mpi.tasks.mujoco.ledger import Ledger, Notes
from ees_mpi.tasks.mujoco.physics import Physics
from ees_mpi.tasks.mujoco.policy import BatchPolicy, gather_rows, upload_table
from ees_mpi.tasks.mujoco.settings import Settings

STEPS_PER_GRAPH = 10
FEW_WORLDS = 64  # robots from whose memory that of one is calculated


def open_batches(
    task: Settings,
    seed: int,
    noise_table: Singles,
    wanted: int,
    device: int,
    say: Callable[[str], Any],
    antithetic: bool = True,
) -> "GpuRollouts":
    """Make `wanted` robots on GPU number `device`, or as many as fit into its memory."""
    from ees_mpi.tasks.mujoco.gpu import libraries

    if type(task.policy()) is not MLP:
        raise ConfigError('task.device: a GPU evaluates the built-in network only; use device = "cpu"')
    torch, warp, mujoco_warp = libraries(device, say)
    name, width, start = f"cuda:{device}", 2 if antithetic else 1, time.perf_counter()
    say(f"preparing GPU {device} ({torch.cuda.get_device_name(device)}); the first time kernels compile for a minute")
    plant = task.plant()
    buffers = measured_buffers(plant, task.contacts, task.constraints)
    try:
        with torch.cuda.device(device), warp.ScopedDevice(name):
            few = Physics(warp, mujoco_warp, plant, FEW_WORLDS, buffers, task.frame_skip)
            few.step()
            warp.synchronize_device(name)
            per_world = -(-(1 + SCRATCH) * few.bytes() // FEW_WORLDS)
            del few
            free = torch.cuda.mem_get_info(device)[0]
            per_row = width * per_world + 4 * task.parameters + width * 4 * 4 * sum(task.layers)
            rows = rows_that_fit(wanted, width, free, noise_table.nbytes, per_row)
            evaluator = GpuRollouts(torch, warp, mujoco_warp, task, seed, noise_table, rows, width, buffers, name)
    except torch.cuda.OutOfMemoryError:
        raise TaskError("out of GPU memory; lower noise.size or population.size, or free the GPU") from None
    say(f"GPU {device} is ready for {evaluator.capacity} robots after {time.perf_counter() - start:.0f} s")
    return evaluator


class GpuRollouts:
    """Evaluates batches of individuals, all worlds in step."""

    def __init__(
        self,
        torch: Any,
        warp: Any,
        mujoco_warp: Any,
        task: Settings,
        seed: int,
        noise_table: Singles,
        rows: int,
        width: int,
        buffers: Buffers,
        device: str,
        ways: tuple[str, ...] = WAYS,
    ):
        """Take all memory now; `ways`: how steps may be launched (see `graphs`)."""
        self._torch, self._warp, self._task, self._seed = torch, warp, task, seed
        self._rows, self._width, self._buffers, self._device, self._ways = rows, width, buffers, device, ways
        self._overflow_kinds = mujoco_warp.OverflowType
        self._plant, worlds = task.plant(), rows * width
        self.capacity = worlds
        self.way = ""  # in which steps are launched; known from the first batch on
        with warp.ScopedDevice(device):
            self._physics = Physics(warp, mujoco_warp, self._plant, worlds, buffers, task.frame_skip)
        self._sampled = max(width, watched_worlds(task.observation_share, worlds))
        terminates = task.terminate == "environment"
        self._ledger = Ledger(self._plant, task.marks, terminates, worlds, self._sampled, device)
        self._table = upload_table(noise_table, device)
        self._noise = torch.zeros((rows, task.parameters), dtype=torch.float32, device=device)
        self._low, self._high = (torch.from_numpy(bound).to(device) for bound in (self._plant.low, self._plant.high))
        self._policy: BatchPolicy  # and the recorder and graphs below: made for the first batch
        self._recorder: Recorder
        self._launch: Step  # several steps
        self._launch_one: Step
        self._components = 0

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        """Roll all individuals of a batch out; return the outcomes in the order of the batch."""
        if self._components != len(batch.means):
            self._prepare(len(batch.means))
        outcomes: dict[int, Outcome] = {}
        for seats in passes(batch, self._rows, self._width, self._sampled):
            with self._recorder.on_stream():
                self._policy.normalise(observation_mean, observation_std)
                watched = self._load(batch, seats)
                self._run()
                notes, overflow = self._ledger.read(), self._physics.overflow()
            self._refuse_overflow(overflow[seats.world], notes.valid[seats.world])
            outcomes |= self._outcomes(batch, seats, notes, watched)
        return [outcomes[place] for place in range(len(batch.index))]

    def close(self) -> None:
        """Release the memory of the device."""
        for name in ("_policy", "_physics", "_ledger", "_table", "_noise", "_launch", "_launch_one", "_recorder"):
            self.__dict__.pop(name, None)
        self._components = 0
        if self._device != "cpu":
            self._torch.cuda.empty_cache()

    def _prepare(self, components: int) -> None:
        """Make the policies for so many means, and find the best way to launch steps."""
        layers = self._task.layers
        self._policy = BatchPolicy(layers, self._rows, self._width, components, self._noise)
        failures = []
        for way in self._ways:
            self._recorder = Recorder(self._torch, self._warp, self._device)
            try:
                with self._recorder.on_stream():
                    self._record(way)
            except (RuntimeError, AttributeError, TypeError) as error:  # of versions that cannot do it this way
                failures.append(f"{way}: {' '.join(str(error).split())}")
                continue
            self.way, self.failures, self._components = way, failures, components
            return
        raise TaskError(f"steps cannot be launched on {self._device} ({'; '.join(failures)})")

    def _record(self, way: str) -> None:
        """Record several steps and one step, and try both."""
        parts = (self._act, self._physics.step, self._note)
        several = min(STEPS_PER_GRAPH, self._task.steps)
        self._launch = self._recorder.record(way, *parts, repeat=several)
        rest = self._task.steps % several
        self._launch_one = self._recorder.record(way, *parts, repeat=1) if rest else self._launch
        self._reset(np.empty(0, np.int64), None)
        self._launch()
        self._launch_one()
        done = several + (1 if rest else several)
        self._recorder.synchronize()
        simulated = done * self._task.frame_skip * float(self._plant.model.opt.timestep)
        if int(self._ledger.step) != done or not math.isclose(self._physics.seconds(), simulated, rel_tol=1e-3):
            raise RuntimeError(
                f"{done} steps were launched, {int(self._ledger.step)} were noted, and {self._physics.seconds():.3f} s "
                f"instead of {simulated:.3f} s simulated"
            )

    def _act(self) -> None:
        """Observe, and write the actions to the controls."""
        physics = self._physics
        action = self._policy.act(self._ledger.observe(physics.qpos, physics.qvel))
        self._torch.clamp(action, self._low, self._high, out=physics.ctrl)

    def _note(self) -> None:
        """Note the state after a step."""
        physics = self._physics
        physics.restart(self._ledger.note(physics.qpos, physics.qvel, self._policy.action, physics.position))

    def _run(self) -> None:
        """Do all steps of the rollouts; returns before the device is done."""
        several, rest = divmod(self._task.steps, min(STEPS_PER_GRAPH, self._task.steps))
        for _ in range(several):
            self._launch()
        for _ in range(rest):
            self._launch_one()

    def _load(self, batch: Batch, seats: Seats) -> NDArray[np.int64]:
        """Bring individuals and starts to the device; return the places in the batch that are watched."""
        self._policy.load(batch.means, batch.std, seats)
        gather_rows(self._table, self._torch.from_numpy(seats.offset).to(self._device), self._noise)
        sampled = batch.observe[seats.member]
        seeds = None if batch.reset_seed is None else (seats.world, batch.reset_seed[seats.member])
        self._reset(seats.world[sampled], seeds)
        return seats.member[sampled]

    def _reset(self, watched: NDArray[np.int64], seeds: tuple[Any, Any] | None) -> None:
        """Put all worlds to the start of the task; the worlds of `seeds` (worlds, seeds) start from their seeds."""
        qpos, qvel = (np.tile(part, (self.capacity, 1)) for part in self._plant.start(self._seed))
        if seeds is not None:
            starts = {seed: self._plant.start(seed) for seed in set(seeds[1].tolist())}
            for world, seed in zip(seeds[0].tolist(), seeds[1].tolist(), strict=True):
                qpos[world], qvel[world] = starts[seed]
        self._physics.reset(qpos.astype(np.float32), qvel.astype(np.float32))
        self._ledger.reset(watched)

    def _refuse_overflow(self, flags: Any, valid: Any) -> None:
        """Raise an error if contacts or constraints of a valid rollout did not fit into memory."""
        together = int(np.bitwise_or.reduce(flags[valid], initial=0))
        message = overflow_message(together, self._overflow_kinds, self._buffers)
        if message:
            raise TaskError(message)

    def _outcomes(self, batch: Batch, seats: Seats, notes: Notes, watched: NDArray[np.int64]) -> dict[int, Outcome]:
        """Return the outcomes of one pass, by place in the batch."""
        direction, broken = self._task.direction, (math.nan,) * self._task.behavior_dim
        behavior, position = notes.behavior.reshape(self.capacity, -1), notes.position
        valid = notes.valid & np.isfinite(behavior).all(axis=1) & np.isfinite(position).all(axis=1)
        sums = {place: notes.sums[row] for row, place in enumerate(watched.tolist())}
        rows = (seats.member, batch.index[seats.member], *(each[seats.world] for each in (valid, notes.length)))
        outcomes = {}
        for place, index, sound, length, where, last in zip(
            *(row.tolist() for row in (*rows, behavior[seats.world], position[seats.world])), strict=True
        ):
            if sound:
                outcomes[place] = Outcome(index, tuple(where), along(direction, *last), length, True, sums.get(place))
            else:
                outcomes[place] = Outcome(index, broken, math.nan, length, valid=False)
        return outcomes
