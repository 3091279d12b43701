"""Rollouts of a Gymnasium environment: single steps, whole rollouts, and films.

Environments draw themselves. MuJoCo needs no screen if the machine has EGL or OSMesa.
"""

import math
from typing import Any

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.errors import MissingExtra
from ees_mpi.outcomes import Singles
from ees_mpi.registry.own import calling
from ees_mpi.tasks.gymnasium.environment import Environment, Rollout, library, numbers, was_reset_by_mujoco
from ees_mpi.tasks.locomotion import Rollouts
from ees_mpi.tasks.screen import HINT, draw_without_a_screen
from ees_mpi.tasks.silence import silence

FPS = 30  # of an environment that does not define its own


class EnvironmentWalker:
    """A Gymnasium environment that is controlled step by step, and keeps the present rollout.

    It is always reset with `seed`. Its position is the behaviour of the rollout up to now.
    """

    def __init__(self, task: Environment, seed: int, **more: Any):
        self._task, self.seed, self.env = task, seed, task.make(**more)
        self._behavior, self._dim = task.characterisation(), task.behavior_dim // len(task.marks)
        space, self._observed = self.env.action_space, self.env.observation_space.shape
        self.discrete = not hasattr(space, "low")
        if not self.discrete:
            self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present behaviour; NaN if the rollout is not finite."""
        if not self.finite:
            return (math.nan,) * self._dim
        return numbers(self._behavior(self.rollout), self._task.behavior, self._dim)

    @property
    def finite(self) -> bool:
        """Return whether all actions of the rollout were finite, and MuJoCo has not reset the robot."""
        return self._acted and not was_reset_by_mujoco(self.env)

    def reseed(self, seed: int) -> None:
        """Reset with this seed from now on."""
        self.seed = seed

    def reset(self) -> Singles:
        observation = self._task.flat(self.env.reset(seed=self.seed)[0], self._observed)
        self.rollout, self._acted = Rollout(self.env, [observation]), True
        return observation

    def step(self, output: Singles) -> tuple[Singles, bool]:
        if not np.isfinite(output).all():
            self._acted = False
            return self.rollout.observations[-1], True
        seen, reward, terminated, truncated, info = self.env.step(self._action(output))
        observation = self._task.flat(seen, self._observed)
        self.rollout.add(observation, reward, info)
        return observation, truncated or (terminated and self._task.terminate == "environment")

    def _action(self, output: Singles) -> Any:
        """Return the action for an output of the policy."""
        if self.discrete:
            return int(output.argmax())
        return np.clip(output, self._low, self._high).reshape(self._shape)

    def close(self) -> None:
        self.env.close()


class EnvironmentRollouts(Rollouts):
    """Evaluates individuals: the policy of an individual acts in the environment."""

    def __init__(self, task: Environment, seed: int, **more: Any):
        self._walker, self._name = EnvironmentWalker(task, seed, **more), task.env
        super().__init__(task, self._walker)

    def _fitness(self, last: tuple[float, ...]) -> float:
        """Return the sum of rewards, or the distance along the direction of the task."""
        return super()._fitness(last) if self._task.heading is not None else math.fsum(self._walker.rollout.rewards)

    def _walk(self, seen: list[Singles] | None) -> tuple[int, list[tuple[float, ...]], tuple[float, ...]]:
        """Step until the end; an exception of the environment names it."""
        with calling(f"task.env {self._name}", "reset() or step()"):
            return super()._walk(seen)


class EnvironmentFilm(EnvironmentRollouts):
    """Rollouts with the same bits, in an environment that draws itself."""

    def __init__(self, task: Environment, seed: int, view: View):
        draw_without_a_screen()
        try:
            super().__init__(task, seed, render_mode="rgb_array", **_size(task, view))
        except AttributeError as error:  # the error of MuJoCo if a library is missing
            raise _cannot_draw(task.env, str(error)) from None
        self.step_seconds = 1.0 / float(self._walker.env.metadata.get("render_fps") or FPS)
        self._walker.reset()
        try:
            with silence():
                self.picture()
        except MissingExtra:
            self.close()
            raise

    def place(self) -> tuple[float, ...]:
        if self._task.axes:
            return super().place()
        info = self._walker.rollout.infos[-1] if self._walker.rollout.infos else {}
        wanted = ("x_position", "y_position")[: self._task.behavior_dim]
        return tuple(float(info[key]) for key in wanted if key in info)

    def picture(self) -> Pixels:
        """Return the picture that the environment draws."""
        failure = ""
        try:
            self._aim()
            pixels = np.asarray(self._walker.env.render())
        except Exception as error:  # renderers raise many kinds of errors without a screen, a library or a driver
            failure = f"{type(error).__name__}: {error}"
        if failure:  # outside of the handler: an incomplete renderer raises another error when it is deleted
            raise _cannot_draw(self._name, failure)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise _cannot_draw(self._name, f"expected uint8 pictures, got {pixels.dtype} of shape {pixels.shape}")
        return pixels

    def _aim(self) -> None:
        """Point MuJoCo's camera at the robot; otherwise it stays at the start."""
        env = self._walker.env.unwrapped
        viewer = getattr(getattr(env, "mujoco_renderer", None), "viewer", None)
        if viewer is not None:
            viewer.cam.lookat[:2] = env.data.xpos[1][:2]  # body 0 is the world


def _size(task: Environment, view: View) -> dict[str, int]:
    """Return the arguments that set the size of pictures; only MuJoCo's environments have them."""
    spec = library().registry.get(task.env)
    return {"width": view.width, "height": view.height} if "mujoco" in str(getattr(spec, "entry_point", "")) else {}


def _cannot_draw(env: str, reason: str) -> MissingExtra:
    return MissingExtra(f"task.env {env!r} cannot be drawn on this machine ({' '.join(reason.split())}); {HINT}")
