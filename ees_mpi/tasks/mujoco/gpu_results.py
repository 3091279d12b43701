"""Lengths, positions, validity and observation sums of all worlds, kept on the device while a batch runs; imports Warp.

Two kernels per action. All results go to memory taken at the start: CUDA graphs need fixed addresses.
"""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ees_mpi.generation import Outcomes
from ees_mpi.tasks.locomotion import FASTEST, FASTEST_COORDINATE, WalkingTask, along
from ees_mpi.tasks.mujoco.robot_model import ManyRobots, RobotModel

LIMIT = 1e10  # MuJoCo's own: a larger number in the state counts as an error
BLOCK = 32  # threads; larger blocks leave processors of the GPU without work
HIGHEST = 3e38  # stands for no limit of the height


class GpuResults:
    """Lengths, positions, validity and sums of observations of all worlds."""

    def __init__(self, robot_model: RobotModel, physics: ManyRobots, task: WalkingTask, sampled: int):
        """Take memory on the device of the physics; `sampled`: the worlds whose observations are summed up, at most."""
        import torch

        observation, share = physics.observation, wp.from_torch
        worlds, size = observation.shape
        device = wp.device_from_torch(observation.device)

        def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
            return torch.zeros(shape, dtype=dtype, device=observation.device)

        self._torch, self._task, marks = torch, task, task.marks
        self._alive, self._valid = (zeros(worlds, dtype=torch.bool) for _ in range(2))
        self._length, self._watched = (zeros(count, dtype=torch.int32) for count in (worlds, sampled))
        self._steps = zeros(worlds, dtype=torch.int64)
        self.step = self._steps[:1]  # the number of finished steps, on the device
        self._position, self._places = zeros(worlds, robot_model.axes), zeros(worlds, len(marks), robot_model.axes)
        self._sums = zeros(sampled, 1 + 2 * size, dtype=torch.float64)
        self._marks = torch.tensor(marks, dtype=torch.int32, device=observation.device)
        low, high = (task.terminate == "environment" and robot_model.height) or (-HIGHEST, HIGHEST)
        limits = [float(low), min(float(high), HIGHEST), FASTEST * robot_model.step_seconds]
        state = [*physics.start, physics.position, self._marks]
        kept = [self._steps, self._alive, self._valid, self._length, self._position, self._places]
        changed = [physics.qpos, physics.qvel, physics.memory]
        self._state, self._limits, self._kept = [*map(share, state)], limits, [*map(share, kept + changed)]
        self._device, self._worlds = device, worlds
        self._note_launch: Any = None  # recorded when the actions are known
        inputs = [share(observation), share(self._watched), share(self._alive)]
        self._add = wp.launch(
            add, dim=(sampled, size), inputs=inputs, outputs=[share(self._sums)], device=device, record_cmd=True
        )

    def reset(self, watched: NDArray[np.int64]) -> None:
        """Begin a batch in which the observations of the worlds `watched` are summed up."""
        self._watched.zero_()
        self._watched[: len(watched)] = self._torch.from_numpy(watched.astype(np.int32)).to(self._watched.device)
        self._alive.fill_(True)
        self._valid.fill_(True)
        for tensor in (self._steps, self._length, self._position, self._places, self._sums):
            tensor.zero_()

    def add_observations(self) -> None:
        """Add the observations of the watched worlds, as far as they are alive, to their sums."""
        self._add.launch()

    def watch_actions(self, action: Any) -> None:
        """Tell the tensor that holds the actions, float32[worlds, A]."""
        inputs = [wp.from_torch(action), *self._state, *self._limits]
        self._note_launch = wp.launch(
            note,
            dim=self._worlds,
            inputs=inputs,
            outputs=self._kept,
            device=self._device,
            record_cmd=True,
            block_dim=BLOCK,
        )

    def note(self) -> None:
        """Note the state after a step; put robots that are not sound back to their start."""
        self._note_launch.launch()

    def read(self, worlds: NDArray[np.int64]) -> Outcomes:
        """Return the results of some worlds, and all sums of observations [sampled, 1 + 2 O]; waits for the device."""
        position, behavior = (part.double().cpu().numpy()[worlds] for part in (self._position, self._places.flatten(1)))
        valid = self._valid.cpu().numpy()[worlds] & np.isfinite(np.hstack([position, behavior])).all(axis=1)
        fitness = np.array([along(self._task.direction, *place) for place in position.tolist()])
        sums = self._sums.cpu().numpy().copy()  # on the CPU, the array is the tensor itself
        return Outcomes(behavior, fitness, self._length.long().cpu().numpy()[worlds], valid, sums)


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def add(
    observation: wp.array2d[float],
    watched: wp.array[int],
    alive: wp.array[wp.bool],
    sums: wp.array2d[wp.float64],
) -> None:
    """Add one observation and its square to the sums of a watched world."""
    row, entry = wp.tid()
    world = watched[row]
    if not alive[world]:
        return
    value = wp.float64(observation[world, entry])
    if entry == 0:
        sums[row, 0] = sums[row, 0] + wp.float64(1.0)
    sums[row, 1 + entry] = sums[row, 1 + entry] + value
    place = 1 + observation.shape[1] + entry
    sums[row, place] = sums[row, place] + value * value


@wp.func  # type: ignore[untyped-decorator]
def within(values: wp.array2d[float], world: int, limit: float) -> bool:
    """Return whether all values of a world are within a limit; False for NaN."""
    for entry in range(values.shape[1]):  # noqa: SIM110 (Warp has no `all`)
        if not wp.abs(values[world, entry]) <= limit:
            return False
    return True


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def note(
    action: wp.array2d[float],
    start_qpos: wp.array2d[float],
    start_qvel: wp.array2d[float],
    position: wp.array2d[float],
    marks: wp.array[int],
    low: float,
    high: float,
    longest: float,
    steps: wp.array[wp.int64],
    alive: wp.array[wp.bool],
    valid: wp.array[wp.bool],
    length: wp.array[int],
    last: wp.array2d[float],
    places: wp.array3d[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    memory: wp.array2d[float],
) -> None:
    """Note the state of a world after a step; a robot that is not sound goes back to its start.

    The solver takes longest on NaN, and all worlds wait for it.
    """
    world = wp.tid()
    step = wp.int32(steps[world]) + 1
    steps[world] = wp.int64(step)
    sound = within(qpos, world, LIMIT) and within(action, world, LIMIT) and within(qvel, world, FASTEST_COORDINATE)
    for axis in range(last.shape[1]):
        if step > 1 and not wp.abs(position[world, axis] - last[world, axis]) <= longest:
            sound = False
    if alive[world]:
        length[world] = step
        for axis in range(last.shape[1]):
            last[world, axis] = position[world, axis]
        if not sound:
            valid[world] = False
            alive[world] = False
        elif low > -HIGHEST and not (qpos[world, 2] >= low and qpos[world, 2] <= high):
            alive[world] = False
    for mark in range(marks.shape[0]):
        if step <= marks[mark]:
            for axis in range(last.shape[1]):
                places[world, mark, axis] = last[world, axis]
    if not sound:
        for entry in range(qpos.shape[1]):
            qpos[world, entry] = start_qpos[world, entry]
        for entry in range(qvel.shape[1]):
            qvel[world, entry] = start_qvel[world, entry]
        for entry in range(memory.shape[1]):
            memory[world, entry] = 0.0
