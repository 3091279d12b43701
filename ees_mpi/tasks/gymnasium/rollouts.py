"""Environments of Gymnasium, and rollouts in them: step by step, of whole individuals, and in front of a camera.

Environments draw themselves. MuJoCo needs no screen if the machine has EGL or OSMesa.
"""

import ctypes.util
import importlib.util
import math
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.arrays import Singles
from ees_mpi.errors import ConfigError, EesError, MissingExtra, PluginError, optional
from ees_mpi.registry import leaves, require
from ees_mpi.registry.plugins import calling, failed, import_module
from ees_mpi.tasks.base import Pixels, View
from ees_mpi.tasks.gymnasium.behaviors import Behavior, Rollout
from ees_mpi.tasks.locomotion import PolicyTask, Rollouts
from ees_mpi.tasks.mujoco.robot_model import library as silent_mujoco
from ees_mpi.terminal import silence

FPS = 30  # of an environment that does not define its own
HINT = "without a screen, MuJoCo needs a library (Debian: libegl1 or libosmesa6)"


def library() -> Any:
    """Import Gymnasium, register our environments and silence MuJoCo; raise MissingExtra if Gymnasium is missing."""
    missing = "task gymnasium needs Gymnasium: pip install 'ees_mpi[bullet]' or '[mujoco]'"
    gymnasium = optional("gymnasium", missing)
    import ees_mpi.tasks.bullet.registration  # noqa: F401  (registers our environments)

    if importlib.util.find_spec("mujoco"):
        silent_mujoco()
    return gymnasium


def is_known(env: str) -> bool:
    """Return whether an environment is Gymnasium's own, or ours."""
    entry = getattr(library().registry.get(env), "entry_point", "")
    return isinstance(entry, str) and entry.startswith(("gymnasium.envs.", "ees_mpi."))


def make(env: str, settings: dict[str, Any], **more: Any) -> Any:
    """Make the Gymnasium environment; raise an error that names the missing package or the unknown environment."""
    gymnasium = library()
    if not is_known(env):  # nor is one whose module is named before a colon
        require(env, "task.env")
    for place, leaf in leaves(settings, "task.env_settings"):
        require(leaf, place)
    if ":" in env:
        import_module(env.partition(":")[0], env, "task.env")  # also beside the config file
    try:
        with warnings.catch_warnings(), silence():  # Gymnasium warns about newer versions and deprecated models
            warnings.simplefilter("ignore")
            return gymnasium.make(env, **{**settings, **more})
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtra(f"task.env {env!r}: {error}") from None
    except gymnasium.error.UnregisteredEnv as error:
        hint = f"An environment of your own or of another package needs its module in front: module:{env}"
        if ":" in env:
            hint = f"The module {env.partition(':')[0]} was imported and does not register it (gymnasium.register)"
        raise ConfigError(f"task.env {env!r}: {error} {hint}") from None
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        if "render_mode" in more and "render_mode" in str(error):  # of an environment without this argument
            hint = "it takes no render_mode; `replay --together` draws its places"
            raise ConfigError(f"task.env {env!r} cannot be drawn: {hint}") from None
        raise ConfigError(f"task.env {env!r} cannot be made: {error}") from None
    except (Exception, SystemExit) as error:
        if isinstance(error, AttributeError) and "render_mode" in more:
            raise  # the error of MuJoCo if a library for drawing is missing; `film` reports it
        raise ConfigError(str(failed(f"task.env {env}", "__init__()", error))) from error


def flattened(env: str, observation: Any, shape: tuple[int, ...]) -> Singles:
    """Return an observation as a flat vector; raise a PluginError if its size is not that of the space."""
    row = np.array(observation, np.float32).reshape(-1)  # a copy: the environment may change its array in place
    if row.size != math.prod(shape):
        got = np.shape(observation)
        hint = "; does reset() return (observation, info)?" if got == shape[1:] else ""  # got: one row of it
        raise PluginError(f"task.env {env}: an observation has the shape {got}; expected {shape}{hint}")
    return row


def was_reset_by_mujoco(env: Any) -> bool:
    """Return whether MuJoCo reset the robot during the rollout, because its state was not finite."""
    warnings_seen = getattr(getattr(env.unwrapped, "data", None), "warning", None)
    if warnings_seen is None:
        return False
    from mujoco import mjtWarning

    bad = (mjtWarning.mjWARN_BADQPOS, mjtWarning.mjWARN_BADQVEL, mjtWarning.mjWARN_BADQACC)
    return any(warnings_seen[kind].number for kind in bad)


def picture_size(env: str, view: View) -> dict[str, int]:
    """Return the arguments that set the size of pictures; only MuJoCo's environments have them."""
    spec = library().registry.get(env)
    return {"width": view.width, "height": view.height} if "mujoco" in str(getattr(spec, "entry_point", "")) else {}


class EnvironmentWalker:
    """A Gymnasium environment that is controlled step by step, and keeps the present rollout.

    It is always reset with `seed`. Its position is the behaviour of the rollout up to now.
    """

    def __init__(self, env: Any, name: str, seed: int, behavior: Behavior, dim: int, terminates: bool):
        self.env, self.name, self.seed = env, name, seed
        self._behavior, self._dim, self._terminates = behavior, dim, terminates
        self.step_seconds = 1.0 / float(env.metadata.get("render_fps") or FPS)
        space, self._observed = self.env.action_space, self.env.observation_space.shape
        self.discrete, self._first = not hasattr(space, "low"), int(getattr(space, "start", 0))
        if not self.discrete:
            self._low, self._high = space.low.reshape(-1), space.high.reshape(-1)
            self._shape, self._kind = space.shape, space.dtype

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present behaviour; NaN if the rollout is not finite."""
        if not self.finite:
            return (math.nan,) * self._dim
        return tuple(self._behavior(self.rollout))

    @property
    def finite(self) -> bool:
        """Return whether all actions of the rollout were finite, and MuJoCo has not reset the robot."""
        return self._acted and not was_reset_by_mujoco(self.env)

    def reseed(self, seed: int) -> None:
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
            return self._first + int(output.argmax())
        action = np.clip(output, self._low, self._high).reshape(self._shape)
        return action if self._kind.kind == "f" else np.rint(action).astype(self._kind)

    def close(self) -> None:
        with calling(f"task.env {self.name}", "close()"):
            self.env.close()


class EnvironmentRollouts(Rollouts):
    """Evaluates individuals: the policy of an individual acts in the environment."""

    def place(self) -> tuple[float, ...]:
        """Return the place up to now; empty if the behaviour is none, or says nothing about so short a rollout."""
        if axes := self._task.axes:
            try:
                return self._robot.position[-axes:]
            except (EesError, ArithmeticError, LookupError, ValueError):
                return ()
        info = self._robot.rollout.infos[-1] if self._robot.rollout.infos else {}
        wanted = ("x_position", "y_position")[: self._task.behavior_dim]
        return tuple(float(info[key]) for key in wanted if key in info)

    def _fitness(self, last: tuple[float, ...]) -> float:
        """Return the sum of rewards, or the distance of the place along the direction of the task."""
        return super()._fitness(last) if self._task.heading is not None else math.fsum(self._robot.rollout.rewards)

    def _walk(self, seen: list[Singles] | None) -> tuple[int, list[tuple[float, ...]], tuple[float, ...]]:
        """Step until the end; an exception of the environment names it."""
        with calling(f"task.env {self._robot.name}", "reset() or step()"):
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
        self._robot.reset()
        try:
            with silence():
                self.picture()
        except MissingExtra:
            self.close()
            raise

    def picture(self) -> Pixels:
        """Return the picture that the environment draws; raise MissingExtra if it cannot draw on this machine."""
        try:
            pixels = self._draw()
        except Exception as error:  # renderers raise many kinds of errors without a screen, a library or a driver
            failure = f"{type(error).__name__}: {error}"
        else:
            if pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8:
                return pixels
            failure = f"expected uint8 pictures, got {pixels.dtype} of shape {pixels.shape}"
        # Outside of the handler: an incomplete renderer raises another error when it is deleted.
        raise cannot_draw(self._problem, failure)

    def _draw(self) -> Pixels:
        """Point MuJoCo's camera at the robot, because otherwise it stays at the start; then let it draw."""
        env = self._robot.env
        viewer = getattr(getattr(env.unwrapped, "mujoco_renderer", None), "viewer", None)
        if viewer is not None:
            viewer.cam.lookat[:2] = env.unwrapped.data.xpos[1][:2]  # body 0 is the world
        return np.asarray(env.render())


def draw_without_a_screen() -> None:
    """Set MUJOCO_GL to a renderer that needs no screen, if the machine has one and the user has not set it."""
    if {"DISPLAY", "MUJOCO_GL"} & os.environ.keys():
        return
    renderers = [name for library, name in (("EGL", "egl"), ("OSMesa", "osmesa")) if ctypes.util.find_library(library)]
    if renderers:
        os.environ["MUJOCO_GL"] = renderers[0]
        for name in [name for name in sys.modules if re.fullmatch(r"mujoco\..*gl_context", name)]:
            importlib.reload(sys.modules[name])  # they read the variable when they are imported


def cannot_draw(problem: str, reason: str) -> MissingExtra:
    return MissingExtra(f"{problem} on this machine ({' '.join(reason.split())}); {HINT}")
