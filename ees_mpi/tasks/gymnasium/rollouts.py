"""Rollouts of a Gymnasium environment: whole rollouts, single steps for MAML, and films.

Environments draw themselves. MuJoCo needs no screen if the machine has EGL or OSMesa.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.errors import ConfigError, MissingExtra, located
from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.policies import observation_sums
from ees_mpi.registry.own import calling
from ees_mpi.tasks.gymnasium.environment import Environment, Rollout, library, numbers, was_reset_by_mujoco
from ees_mpi.tasks.locomotion import along
from ees_mpi.tasks.screen import HINT, draw_without_a_screen
from ees_mpi.tasks.silence import silence

FPS = 30  # of an environment that does not define its own


class SeededEnvironment:
    """A Gymnasium environment that is always reset with the same seed, until `reseed` gives it another one."""

    def __init__(self, task: Environment, seed: int, **more: Any):
        self._task, self._seed, self._env = task, seed, task.make(**more)
        self._behavior = task.characterisation()
        space, self._observed = self._env.action_space, self._env.observation_space.shape
        self._discrete = not hasattr(space, "low")
        if not self._discrete:
            self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape

    def reseed(self, seed: int) -> None:
        """Reset with this seed from now on."""
        self._seed = seed

    def reset(self) -> Singles:
        """Return to the start and observe."""
        return self._task.flat(self._env.reset(seed=self._seed)[0], self._observed)

    def _action(self, output: Singles) -> Any:
        """Return the action for an output of the policy."""
        if self._discrete:
            return int(output.argmax())
        return np.clip(output, self._low, self._high).reshape(self._shape)

    def _ends(self, terminated: bool, truncated: bool) -> bool:
        return truncated or (terminated and self._task.terminate == "environment")

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class EnvironmentWalker(SeededEnvironment):
    """An environment that is controlled step by step."""

    def __init__(self, task: Environment, seed: int):
        super().__init__(task, seed)
        if self._discrete:
            space = self._env.action_space
            raise ConfigError(f"task.env {task.env!r}: expected box actions, which noise can be added to; got {space}")

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position; NaN after MuJoCo has reset the robot during the rollout."""
        place = numbers(self._behavior(Rollout(self._env)), self._task.behavior)
        return tuple(math.nan for _ in place) if was_reset_by_mujoco(self._env) else place

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""
        seen, _, terminated, truncated, _ = self._env.step(self._action(action))
        return self._task.flat(seen, self._observed), self._ends(terminated, truncated)


class Rollouts(SeededEnvironment):
    """Evaluates individuals: the policy of an individual acts in the environment."""

    def __init__(self, task: Environment, seed: int, dim: int, **more: Any):
        super().__init__(task, seed, **more)
        self._policy, self._dim = task.network(), dim
        self.on_step: Callable[[int], None] | None = None  # called with the number of finished steps

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; an outcome that is not finite is invalid."""
        self._policy.normalise(observation_mean, observation_std)
        with located(f"individual {index}"):
            self._policy.load(parameters)
            with np.errstate(all="ignore"), calling(f"task.env {self._task.env}", "reset() or step()"):
                rollout = self._act()
            last = self._now()
        length = len(rollout.rewards)
        marks = self._task.marks
        # A rollout that ended early stays at its last behaviour. Without `behavior_steps` there is one mark: the end.
        places = [*self._places[: len(marks)], *[last] * (len(marks) - len(self._places))]
        behavior = tuple(value for place in places for value in place)
        reward = self._task.fitness == "reward"
        fitness = math.fsum(rollout.rewards) if reward else along(self._task.direction, *last[:2])
        if not all(map(math.isfinite, (*behavior, fitness))) or was_reset_by_mujoco(self._env):
            return Outcome(index, (math.nan,) * self._dim, math.nan, length, valid=False)
        sums = observation_sums(rollout.observations[:-1]) if observe else None
        return Outcome(index, behavior, fitness, length, True, sums)

    def _now(self) -> tuple[float, ...]:
        """Return the behaviour of the rollout up to now."""
        return numbers(self._behavior(self.rollout), self._task.behavior, self._dim // len(self._task.marks))

    def _act(self) -> Rollout:
        """Step until the end; note the behaviour at the marked steps."""
        observation, marks = self.reset(), set(self._task.behavior_steps)
        self.rollout = rollout = Rollout(self._env, [observation])
        self._places: list[tuple[float, ...]] = []
        if self.on_step is not None:
            self.on_step(0)
        for _ in range(self._task.steps):
            output = self._policy.act(observation)
            if not np.isfinite(output).all():
                rollout.rewards.append(math.nan)
                rollout.infos.append({})
                break
            seen, reward, terminated, truncated, info = self._env.step(self._action(output))
            observation = self._task.flat(seen, self._observed)
            rollout.add(observation, reward, info)
            if self.on_step is not None:
                self.on_step(len(rollout.rewards))
            if len(rollout.rewards) in marks:
                self._places.append(self._now())
            if self._ends(terminated, truncated):
                break
        return rollout


class Filmed(Rollouts):
    """Rollouts with the same bits, in an environment that draws itself."""

    def __init__(self, task: Environment, seed: int, dim: int, view: View):
        draw_without_a_screen()
        try:
            super().__init__(task, seed, dim, render_mode="rgb_array", **_size(task, view))
        except AttributeError as error:  # the error of MuJoCo if a library is missing
            raise _cannot_draw(task, str(error)) from None
        self.step_seconds = 1.0 / float(self._env.metadata.get("render_fps") or FPS)
        self._env.reset(seed=self._seed)
        try:
            with silence():
                self.picture()
        except MissingExtra:
            self.close()
            raise

    def place(self) -> tuple[float, ...]:
        """Return the present position of the robot, if the environment has one."""
        if self._task.behavior in ("final_x", "final_xy"):
            return tuple(self._behavior(self.rollout))
        info = self.rollout.infos[-1] if self.rollout.infos else {}
        return tuple(float(info[key]) for key in ("x_position", "y_position")[: self._dim] if key in info)

    def picture(self) -> Pixels:
        """Return the picture that the environment draws."""
        failure = ""
        try:
            self._aim()
            pixels = np.asarray(self._env.render())
        except Exception as error:  # renderers raise many kinds of errors without a screen, a library or a driver
            failure = f"{type(error).__name__}: {error}"
        if failure:  # outside of the handler: an incomplete renderer raises another error when it is deleted
            raise _cannot_draw(self._task, failure)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise _cannot_draw(self._task, f"expected uint8 pictures, got {pixels.dtype} of shape {pixels.shape}")
        return pixels

    def _aim(self) -> None:
        """Point MuJoCo's camera at the robot; otherwise it stays at the start."""
        viewer = getattr(getattr(self._env.unwrapped, "mujoco_renderer", None), "viewer", None)
        if viewer is not None:
            viewer.cam.lookat[:2] = self._env.unwrapped.data.xpos[1][:2]  # body 0 is the world


def _size(task: Environment, view: View) -> dict[str, int]:
    """Return the arguments that set the size of pictures; only MuJoCo's environments have them."""
    spec = library().registry.get(task.env)
    return {"width": view.width, "height": view.height} if "mujoco" in str(getattr(spec, "entry_point", "")) else {}


def _cannot_draw(task: Environment, reason: str) -> MissingExtra:
    return MissingExtra(f"task.env {task.env!r} cannot be drawn on this machine ({' '.join(reason.split())}); {HINT}")
