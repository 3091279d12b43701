"""One share of the robots of a GPU, on a stream of its own: lanes run side by side and fill each other's gaps."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import TaskError
from ees_mpi.outcomes import Batch, Floats, Outcome
from ees_mpi.tasks.locomotion import WalkingTask, along
from ees_mpi.tasks.mujoco.batch import Seats
from ees_mpi.tasks.mujoco.buffers import Buffers, overflow_message, refuse_missing_memory, watched_worlds
from ees_mpi.tasks.mujoco.gpu import Toolkit
from ees_mpi.tasks.mujoco.graphs import WAYS, Recorder, Step
from ees_mpi.tasks.mujoco.physics import Physics
from ees_mpi.tasks.mujoco.plant import Plant
from ees_mpi.tasks.mujoco.policy import BatchPolicy, gather_rows, noise_rows

if TYPE_CHECKING:
    from ees_mpi.tasks.mujoco.ledger import Notes

STEPS_PER_GRAPH = 10


class Lane:
    """Robots that step together: their physics, their policies, and the notes on their rollouts."""

    def __init__(
        self,
        tools: Toolkit,
        task: WalkingTask,
        plant: Plant,
        seed: int,
        table: Any,
        rows: int,
        width: int,
        buffers: Buffers,
        ways: tuple[str, ...] = WAYS,
        fused: bool = True,
    ):
        """Take all memory now; `table`: the noise on the device; `ways`: how steps may be launched (see `graphs`)."""
        from ees_mpi.tasks.mujoco.ledger import Ledger  # imports Warp

        torch, device = tools.torch, tools.device
        self._tools, self._task, self._seed, self._table, self._buffers = tools, task, seed, table, buffers
        self._rows, self._width, self._ways, self._fused = rows, width, ways, fused
        self._plant, self.worlds = plant, rows * width
        self.way = ""  # how steps are launched; known from `prepare` on
        self.failures: list[str] = []  # of other ways
        with tools.warp.ScopedDevice(device):
            self.physics = Physics(tools, plant, self.worlds, buffers)
        self.sampled = max(width, watched_worlds(task.observation_share, self.worlds))
        terminates = task.terminate == "environment"
        self._ledger = Ledger(plant, self.physics, task.marks, terminates, self.sampled)
        self._noise = noise_rows(rows, task.parameters, device)
        self._low, self._high = (torch.from_numpy(bound).to(device) for bound in (plant.low, plant.high))
        self._seats: Seats
        self._watched: NDArray[np.int64]  # places in the batch of the rollouts whose observations are summed up
        self._policy: BatchPolicy  # and the recorder and graphs below: made by `prepare`
        self.recorder: Recorder
        self._launch: Step  # several steps
        self._launch_one: Step

    @property
    def steps_per_launch(self) -> int:
        """The number of steps that `launch` does."""
        return min(STEPS_PER_GRAPH, self._task.steps)

    def prepare(self, components: int) -> None:
        """Make the policies around so many means, and find the best way to launch steps."""
        self._policy = self._policies(components)
        failures = []
        for way in self._ways:
            self.recorder = Recorder(self._tools)
            try:
                with self.recorder.on_stream():
                    self._record(way)
            except (RuntimeError, AttributeError, TypeError) as error:  # of versions that cannot do it this way
                refuse_missing_memory(error)
                failures.append(f"{way}: {' '.join(str(error).split())}")
                continue
            self.way, self.failures = way, failures
            return
        raise TaskError(f"steps cannot be launched on {self._tools.device} ({'; '.join(failures)})")

    def load(self, batch: Batch, seats: Seats, observation_mean: Floats, observation_std: Floats) -> None:
        """Bring individuals and starts to the device."""
        with self.recorder.on_stream():
            self._policy.normalise(observation_mean, observation_std)
            self._policy.load(batch.means, batch.std if batch.stds is None else 1.0, seats)
            offset = self._tools.torch.from_numpy(seats.offset).to(self._tools.device)
            gather_rows(self._table, offset, self._noise, batch.stds)
            sampled = batch.observe[seats.member]
            seeds = None if batch.reset_seed is None else (seats.world, batch.reset_seed[seats.member])
            self._reset(seats.world[sampled], seeds)
        self._seats, self._watched = seats, seats.member[sampled]

    def launch(self) -> None:
        """Do `steps_per_launch` steps; returns before the device is done."""
        with self.recorder.on_stream():
            self._launch()

    def launch_one(self) -> None:
        """Do one step; returns before the device is done."""
        with self.recorder.on_stream():
            self._launch_one()

    def read(self, batch: Batch) -> dict[int, Outcome]:
        """Wait for the device; return the outcomes by place in the batch."""
        with self.recorder.on_stream():
            notes = self._ledger.read()
            self._refuse_overflow(notes, self._seats.world)
        return self._outcomes(batch, notes)

    def _refuse_overflow(self, notes: "Notes", worlds: NDArray[np.int64]) -> None:
        """Raise a TaskError if the GPU has dropped contacts or constraints of a valid rollout of these worlds."""
        together = int(np.bitwise_or.reduce(self.physics.overflow()[worlds][notes.valid[worlds]], initial=0))
        message = overflow_message(together, self._tools.mujoco_warp.OverflowType, self._buffers)
        if message:
            raise TaskError(message)

    def parts(self) -> dict[str, Step]:
        """Return the parts of a step, for measuring each; call them inside `on_stream`; `rules`: of the physics."""
        return {
            **self.physics.parts(),
            "observations": self._observe,
            "policies": self._act,
            "notes": self._note,
        }

    def _policies(self, components: int) -> BatchPolicy:
        kind: type[BatchPolicy] = BatchPolicy
        if self._fused:
            from ees_mpi.tasks.mujoco.fused import FusedPolicy  # imports Warp

            kind = FusedPolicy
        policies = kind(self._task.layers, self._rows, self._width, components, self._noise)
        self._ledger.watch_actions(policies.action)
        return policies

    def _record(self, way: str) -> None:
        """Record several steps and one step, and try both."""
        parts, several = (self._observe_and_act, self.physics.step, self._note), self.steps_per_launch
        self._launch = self.recorder.record(way, *parts, repeat=several)
        rest = self._task.steps % several
        self._launch_one = self.recorder.record(way, *parts, repeat=1) if rest else self._launch
        self._reset(np.empty(0, np.int64), None)
        self._launch()
        self._launch_one()
        done = several + (1 if rest else several)
        self.recorder.synchronize()
        simulated = done * self._plant.step_seconds
        noted = int(self._ledger.step)
        if noted != done or not math.isclose(self.physics.seconds(), simulated, rel_tol=1e-3):
            raise RuntimeError(
                f"{done} steps were launched, {noted} were noted, and {self.physics.seconds():.3f} s "
                f"instead of {simulated:.3f} s simulated"
            )

    def _observe(self) -> None:
        """Observe, and add observations to their sums."""
        self.physics.observe()
        self._ledger.add_observations()

    def _observe_and_act(self) -> None:
        self._observe()
        self._act()

    def _act(self) -> None:
        """Write the actions to the controls."""
        action = self._policy.act(self.physics.observation)
        self._tools.torch.clamp(action, self._low, self._high, out=self.physics.ctrl)

    def _note(self) -> None:
        """Note the state after a step."""
        self._ledger.note()

    def _reset(self, watched: NDArray[np.int64], seeds: tuple[Any, Any] | None) -> None:
        """Put all worlds to the start of the task; the worlds of `seeds` (worlds, seeds) start from their seeds."""
        qpos, qvel = (np.tile(part, (self.worlds, 1)) for part in self._plant.start(self._seed))
        if seeds is not None:
            starts = {seed: self._plant.start(seed) for seed in set(seeds[1].tolist())}
            for world, seed in zip(seeds[0].tolist(), seeds[1].tolist(), strict=True):
                qpos[world], qvel[world] = starts[seed]
        self.physics.reset(qpos.astype(np.float32), qvel.astype(np.float32))
        self._ledger.reset(watched)

    def _outcomes(self, batch: Batch, notes: "Notes") -> dict[int, Outcome]:
        """Turn the notes into outcomes, by place in the batch."""
        direction, broken = self._task.direction, (math.nan,) * self._task.behavior_dim
        member, world = self._seats.member, self._seats.world
        behavior, position = notes.behavior.reshape(self.worlds, -1)[world], notes.position[world]
        valid = notes.valid[world] & np.isfinite(behavior).all(axis=1) & np.isfinite(position).all(axis=1)
        sums = {place: notes.sums[row] for row, place in enumerate(self._watched.tolist())}
        rows = (member, batch.index[member], valid, notes.length[world], behavior, position)
        outcomes = {}
        for place, index, sound, length, where, last in zip(*(row.tolist() for row in rows), strict=True):
            if sound:
                outcomes[place] = Outcome(index, tuple(where), along(direction, *last), length, True, sums.get(place))
            else:
                outcomes[place] = Outcome(index, broken, math.nan, length, valid=False)
        return outcomes
