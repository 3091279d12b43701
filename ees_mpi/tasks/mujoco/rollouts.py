"""Rollouts on the CPU, with the same bits every time."""

import math
from collections.abc import Callable

import numpy as np

from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.policies import observation_sums
from ees_mpi.tasks.locomotion import along
from ees_mpi.tasks.mujoco.model import library
from ees_mpi.tasks.mujoco.settings import Settings


class Simulation:
    """One robot: reset, then step by step."""

    def __init__(self, task: Settings, seed: int):
        mujoco, plant = library(), task.plant()
        self.plant, self.data = plant, mujoco.MjData(plant.model)
        self._start = plant.start(seed)
        self._mujoco, self._step, self._frame_skip = mujoco, mujoco.mj_step, task.frame_skip
        kinds = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC", "mjWARN_BADCTRL")
        self._warnings = [getattr(mujoco.mjtWarning, kind) for kind in kinds]
        self._height = plant.height if task.terminate == "environment" else None
        # Views of MuJoCo's memory, looked up once because each lookup costs a microsecond.
        self._qpos, self._qvel, self._ctrl = self.data.qpos, self.data.qvel, self.data.ctrl
        self._seen, self._root = self._qpos[plant.kept], self.data.xpos[plant.root][: plant.axes]
        self._is_view = isinstance(plant.kept, slice)

    def reset(self) -> Singles:
        """Go to the start, with no trace of earlier rollouts (warm start of the solver included), and observe."""
        model = self.plant.model
        self._mujoco.mj_resetData(model, self.data)
        self._qpos[:], self._qvel[:] = self._start
        self._mujoco.mj_forward(model, self.data)
        return self.observation()

    def step(self, action: Singles) -> bool:
        """Act for one time step; return whether the rollout is over."""
        np.maximum(np.minimum(action, self.plant.high), self.plant.low, out=self._ctrl)
        self._step(self.plant.model, self.data, self._frame_skip)
        return self._height is not None and not self._height[0] <= self._qpos[2] <= self._height[1]

    def observation(self) -> Singles:
        """Return the observation, float32[O]."""
        if not self._is_view:
            self._seen = self._qpos[self.plant.kept]
        return np.concatenate((self._seen, self._qvel), dtype=np.float32, casting="same_kind")

    @property
    def position(self) -> tuple[float, ...]:
        """The position of the root body, along the axes of the behaviour."""
        return tuple(self._root.tolist())

    @property
    def broken(self) -> bool:
        """Whether the state is not finite, or was not and MuJoCo therefore reset the robot by itself."""
        if any(self.data.warning[kind].number for kind in self._warnings):
            return True
        return not (np.isfinite(self._qpos).all() and np.isfinite(self._qvel).all())


class RobotWalker:
    """A robot that is controlled step by step, from the same start every time."""

    def __init__(self, task: Settings, seed: int):
        self._simulation = Simulation(task, seed)

    @property
    def position(self) -> tuple[float, ...]:
        """The position along the axes of the behaviour; NaN once the physics blew up."""
        place = self._simulation.position
        return (math.nan,) * len(place) if self._simulation.broken else place

    def reset(self) -> Singles:
        """Go back to the start and observe."""
        return self._simulation.reset()

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout is over."""
        done = self._simulation.step(action)
        return self._simulation.observation(), done

    def close(self) -> None:
        """Release nothing: MuJoCo's memory goes with the object."""


class Rollouts:
    """Evaluates individuals one after the other, each from the same start."""

    def __init__(self, task: Settings, seed: int):
        self._task = task
        self._simulation = Simulation(task, seed)
        self._policy = task.policy()
        self.on_step: Callable[[int], None] | None = None  # called with the number of steps done

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll one individual out; a rollout whose physics blows up is marked invalid."""
        task = self._task
        self._policy.load(parameters)
        self._policy.normalise(observation_mean, observation_std)
        seen: list[Singles] | None = [] if observe else None
        with np.errstate(all="ignore"):
            length, places = self._walk(seen)
        if self._simulation.broken:
            return Outcome(index, (math.nan,) * task.behavior_dim, math.nan, length, valid=False)
        last = self._simulation.position
        places += [last] * (len(task.marks) - len(places))  # the rollout ended before the later marks
        behavior = tuple(value for place in places for value in place)
        sums = observation_sums(seen) if seen else None
        return Outcome(index, behavior, along(task.direction, *last), length, True, sums)

    def _walk(self, seen: list[Singles] | None) -> tuple[int, list[tuple[float, ...]]]:
        """Step until the end; return the number of steps and the positions at the marks."""
        simulation, act, marks, on_step = self._simulation, self._policy.act, set(self._task.marks), self.on_step
        step, observe, places, length = simulation.step, simulation.observation, [], 0
        observation = simulation.reset()
        if on_step is not None:
            on_step(0)
        for length in range(1, self._task.steps + 1):
            if seen is not None:
                seen.append(observation)
            done = step(act(observation))
            observation = observe()
            if on_step is not None:
                on_step(length)
            if length in marks:
                places.append(simulation.position)
            if done:
                break
        return length, places

    def close(self) -> None:
        """Release nothing: MuJoCo's memory goes with the object."""
