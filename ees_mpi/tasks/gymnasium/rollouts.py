"""Rollouts in an environment of Gymnasium: step by step, of whole individuals, and in front of a camera.

Environments draw themselves. MuJoCo needs no screen if the machine has EGL or OSMesa.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.arrays import Singles
from ees_mpi.errors import EesError, MissingExtra
from ees_mpi.registry.plugins import calling
from ees_mpi.tasks.gymnasium.behaviors import Rollout
from ees_mpi.tasks.gymnasium.environments import flattened, was_reset_by_mujoco
from ees_mpi.tasks.locomotion import PolicyTask, Rollouts
from ees_mpi.tasks.rollouts import Pixels
from ees_mpi.tasks.screen import cannot_draw, draw_without_a_screen, drawn
from ees_mpi.tasks.silence import silence

Position = Callable[[Rollout], tuple[float, ...]]
FPS = 30  # of an environment that does not define its own


class EnvironmentWalker:
    """A Gymnasium environment that is controlled step by step, and keeps the present rollout.

    It is always reset with `seed`. Its position is the behaviour of the rollout up to now.
    """

    def __init__(self, env: Any, name: str, seed: int, behavior: Position, dim: int, terminates: bool):
        self.env, self.name, self.seed = env, name, seed
        self._behavior, self._dim, self._terminates = behavior, dim, terminates
        space, self._observed = self.env.action_space, self.env.observation_space.shape
        self.discrete = not hasattr(space, "low")
        if not self.discrete:
            self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present behaviour; NaN if the rollout is not finite."""
        if not self.finite:
            return (math.nan,) * self._dim
        return self._behavior(self.rollout)

    @property
    def finite(self) -> bool:
        """Return whether all actions of the rollout were finite, and MuJoCo has not reset the robot."""
        return self._acted and not was_reset_by_mujoco(self.env)

    def reseed(self, seed: int) -> None:
        """Reset with this seed from now on."""
        self.seed = seed

    def reset(self) -> Singles:
        observation = flattened(self.name, self.env.reset(seed=self.seed)[0], self._observed)
        self.rollout, self._acted = Rollout(self.env, [observation]), True
        return observation

    def step(self, output: Singles) -> tuple[Singles, bool]:
        if not np.isfinite(output).all():
            self._acted = False
            return self.rollout.observations[-1], True
        seen, reward, terminated, truncated, info = self.env.step(self._action(output))
        observation = flattened(self.name, seen, self._observed)
        self.rollout.add(observation, reward, info)
        return observation, truncated or (terminated and self._terminates)

    def _action(self, output: Singles) -> Any:
        """Return the action for an output of the policy."""
        if self.discrete:
            return int(output.argmax())
        return np.clip(output, self._low, self._high).reshape(self._shape)

    def close(self) -> None:
        with calling(f"task.env {self.name}", "close()"):
            self.env.close()


class EnvironmentRollouts(Rollouts):
    """Evaluates individuals: the policy of an individual acts in the environment."""

    def __init__(self, task: PolicyTask, walker: EnvironmentWalker):
        self._walker, self._axes = walker, task.axes
        super().__init__(task, walker)
        self.step_seconds = 1.0 / float(self._walker.env.metadata.get("render_fps") or FPS)

    def place(self) -> tuple[float, ...]:
        """Return the place up to now; empty if the behaviour is none, or says nothing about so short a rollout."""
        if self._axes:
            try:
                return self._walker.position[-self._axes :]
            except (EesError, ArithmeticError, LookupError, ValueError):
                return ()
        info = self._walker.rollout.infos[-1] if self._walker.rollout.infos else {}
        wanted = ("x_position", "y_position")[: self._task.behavior_dim]
        return tuple(float(info[key]) for key in wanted if key in info)

    def _fitness(self, last: tuple[float, ...]) -> float:
        """Return the sum of rewards, or the distance along the direction of the task."""
        return super()._fitness(last) if self._task.heading is not None else math.fsum(self._walker.rollout.rewards)

    def _walk(self, seen: list[Singles] | None) -> tuple[int, list[tuple[float, ...]], tuple[float, ...]]:
        """Step until the end; an exception of the environment names it."""
        with calling(f"task.env {self._walker.name}", "reset() or step()"):
            return super()._walk(seen)


class EnvironmentFilm(EnvironmentRollouts):
    """Rollouts with the same bits, in an environment that draws itself."""

    def __init__(self, task: PolicyTask, make: Callable[[], EnvironmentWalker], problem: str):
        """Take a function that makes the environment, and what an error begins with if it cannot be drawn."""
        draw_without_a_screen()
        self._problem = problem
        try:
            super().__init__(task, make())
        except AttributeError as error:  # the error of MuJoCo if a library is missing
            raise cannot_draw(self._problem, str(error)) from None
        self._walker.reset()
        try:
            with silence():
                self.picture()
        except MissingExtra:
            self.close()
            raise

    def picture(self) -> Pixels:
        """Return the picture that the environment draws."""
        pixels = drawn(self._draw, self._problem)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise cannot_draw(self._problem, f"expected uint8 pictures, got {pixels.dtype} of shape {pixels.shape}")
        return pixels

    def _draw(self) -> Pixels:
        """Point MuJoCo's camera at the robot, because otherwise it stays at the start; then let it draw."""
        env = self._walker.env
        viewer = getattr(getattr(env.unwrapped, "mujoco_renderer", None), "viewer", None)
        if viewer is not None:
            viewer.cam.lookat[:2] = env.unwrapped.data.xpos[1][:2]  # body 0 is the world
        return np.asarray(env.render())
