"""The paper's walking tasks on Bullet: the behaviour of a robot is its final position.

Gajewski et al. 2019, sections 5.2 and 5.3. `behavior_steps` adds the positions at other steps (supplement S1.2).
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.policies import observation_sums
from ees_mpi.registry import loaded
from ees_mpi.tasks.locomotion import Count, PolicyTask, across, along

if TYPE_CHECKING:
    from ees_mpi.tasks.bullet.robot import Robot


class Locomotion(PolicyTask, frozen=True):
    """A Bullet robot; `direction`: degrees from +x towards +y, in which distance is fitness."""

    terminate: Literal["never", "environment"] = "never"
    direction: float = 0.0
    behavior_steps: tuple[Count, ...] = ()  # steps at which the position is recorded; empty: the last step only

    sizes: ClassVar[tuple[int, int]]  # observations, actions
    axes: ClassVar[int]  # how many coordinates of the position are the behaviour
    robot_class: ClassVar[str]  # as "module:name", because pybullet is imported only when a robot is made

    walkable = True

    def __post_init__(self) -> None:
        marks = self.behavior_steps
        if sorted(set(marks)) != list(marks) or (marks and marks[-1] > self.steps):
            raise ValueError(f"task.behavior_steps: expected rising steps up to {self.steps}, got {list(marks)}")
        if across(self.direction, self.axes):
            raise ValueError(f"task.direction: this robot moves along x only; expected 0 or 180, got {self.direction}")

    @property
    def layers(self) -> tuple[int, ...]:
        """Return the sizes of the policy's layers, from observation to action."""
        return (self.sizes[0], *self.hidden, self.sizes[1])

    @property
    def heading(self) -> float:
        """Return the direction in which distance is fitness."""
        return self.direction

    @property
    def marks(self) -> tuple[int, ...]:
        """Return the steps at which the position is recorded."""
        return self.behavior_steps or (self.steps,)

    @property
    def behavior_dim(self) -> int:
        """Return the number of axes times the number of recorded steps."""
        return self.axes * len(self.marks)

    def check(self) -> None:
        """Raise MissingExtra if pybullet is missing."""
        self.robot()

    def robot(self) -> "type[Robot]":
        """Return the class of the robot; this imports pybullet."""
        robot: type[Robot] = loaded(self.robot_class)
        return robot

    def open(self, seed: int) -> "Rollouts":
        """Return rollouts of the robot, in their own physics client."""
        return Rollouts(self, self.start_seed(seed))

    def walker(self, seed: int) -> "RobotWalker":
        """Return the robot, controlled step by step."""
        return RobotWalker(self, self.start_seed(seed))

    def film(self, seed: int, view: View) -> "Filmed":
        """Return rollouts of the robot in front of a camera."""
        return Filmed(self, self.start_seed(seed), view)


class Cheetah(Locomotion, frozen=True):
    """The half cheetah: its behaviour is the final x."""

    sizes = (26, 6)
    axes = 1
    robot_class = "ees_mpi.tasks.bullet.robots:HalfCheetah"


class Ant(Locomotion, frozen=True):
    """The ant: its behaviour is the final x and y."""

    sizes = (28, 8)
    axes = 2
    robot_class = "ees_mpi.tasks.bullet.robots:Ant"


class RobotWalker:
    """A robot that is controlled step by step, from the same start every time."""

    def __init__(self, task: Locomotion, seed: int):
        self._task, self._seed, self._robot = task, seed, task.robot()()

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position, along the axes of the behaviour."""
        return self._robot.position[: self._task.axes]

    def reset(self) -> Singles:
        """Return to the start and observe."""
        return self._robot.reset(self._seed)

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""
        observation, done = self._robot.step(action)
        return observation, done and self._task.terminate == "environment"

    def close(self) -> None:
        """Release the physics client."""
        self._robot.close()


class Rollouts(RobotWalker):
    """Evaluates individuals: the policy of an individual controls the robot."""

    def __init__(self, task: Locomotion, seed: int):
        super().__init__(task, seed)
        self._policy = task.policy()
        self.on_step: Callable[[int], None] | None = None  # called with the number of finished steps

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; if the physics becomes unstable, the outcome is invalid."""
        task, robot = self._task, self._robot
        self._policy.load(parameters)
        self._policy.normalise(observation_mean, observation_std)
        seen: list[Singles] | None = [] if observe else None
        with np.errstate(all="ignore"):
            length, places = self._walk(seen)
        if not robot.finite:
            return Outcome(index, (math.nan,) * task.behavior_dim, math.nan, length, valid=False)
        places += [robot.position] * (
            len(task.marks) - len(places)
        )  # a rollout that ended early stays at its last position
        behavior = tuple(value for place in places for value in place[: task.axes])
        sums = observation_sums(seen) if seen else None
        return Outcome(index, behavior, along(task.direction, *robot.position[:2]), length, True, sums)

    def _walk(self, seen: list[Singles] | None) -> tuple[int, list[tuple[float, float, float]]]:
        """Step until the end; return the number of steps and the recorded positions."""
        task, robot, act, step = self._task, self._robot, self._policy.act, self._robot.step
        stops, marks, places, length = task.terminate == "environment", set(task.marks), [], 0
        observation, on_step = robot.reset(self._seed), self.on_step
        if on_step is not None:
            on_step(0)
        for length in range(1, task.steps + 1):
            if seen is not None:
                seen.append(observation)
            try:
                observation, done = step(act(observation))
            except FloatingPointError:  # the action of the network is NaN
                robot.mark_unstable()
                break
            if on_step is not None:
                on_step(length)
            if length in marks:
                places.append(robot.position)
            if done and (stops or not robot.finite):
                break
        return length, places


class Filmed(Rollouts):
    """Rollouts with the same bits, in front of a camera."""

    def __init__(self, task: Locomotion, seed: int, view: View):
        super().__init__(task, seed)
        from ees_mpi.tasks.bullet.camera import Camera
        from ees_mpi.tasks.bullet.world import TIME_STEP

        self._camera = Camera(view)
        self._last: Pixels | None = None
        self.step_seconds = TIME_STEP

    def place(self) -> tuple[float, ...]:
        """Return the present position of the robot, along the axes of the behaviour."""
        return self.position

    def picture(self) -> Pixels:
        """Draw the robot; after unstable physics it stays at its last finite position."""
        if self._last is None or self._robot.finite:
            self._last = self._robot.picture(self._camera)
        return self._last
