"""A task for any Gymnasium environment with box or discrete actions: its settings, its rollouts and its films.

`task.behavior` chooses the behaviour:

    "final_observation"         components of the last observation (`task.components`; empty: all of them)
    "final_xy", "final_x"       the final position of a MuJoCo body (`task.body`, default "torso"): its `xpos`, which is
                                one physics step older than the `x_position` in the `info` of Gymnasium's robots
    "final_info", "mean_info"   a key of `info` (`task.info_key`): its last value, or its mean over the rollout; a
                                number or several, in the `info` of every step
    "package.module:function"   a function of a `Rollout` that returns numbers

With `task.behavior_steps`, it is computed from the rollout up to each of these steps, and the numbers are joined.
Environments draw themselves. MuJoCo needs no screen if the machine has EGL or OSMesa.
"""

import importlib.util
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np

from ees_mpi.contracts import Drawable, Pixels, View
from ees_mpi.errors import ConfigError, EesError, MissingExtra, PluginError, before_rollouts
from ees_mpi.outcomes import Singles
from ees_mpi.registry import flat, key, leaves, unknown
from ees_mpi.registry.plugins import calling, doubles, failed, function, import_module, once
from ees_mpi.registry.trust import require
from ees_mpi.tasks.base import Axes, RolloutCount, StartsOrNone, Terminate, place_numbers
from ees_mpi.tasks.locomotion import PolicyTask, Rollouts
from ees_mpi.tasks.mujoco.robot_model import library as silent_mujoco
from ees_mpi.tasks.screen import cannot_draw, draw_without_a_screen, drawn
from ees_mpi.tasks.silence import silence

DRY_STEPS = 3  # of the rollout that finds the size of the behaviour
MAX_DRY_STEPS = 10_000  # steps of it, for a function of the user
SHAPING = ("env", "env_settings", "behavior", "components", "body", "info_key", "steps", "behavior_steps", "terminate")
PLACES = ("final_x", "final_xy")  # behaviours that are positions of a body
FPS = 30  # of an environment that does not define its own


@dataclass
class Rollout:
    """A finished rollout, as functions for `task.behavior` get it."""

    env: Any
    observations: list[Singles] = field(default_factory=list)  # the last one is the final one
    rewards: list[float] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)

    def add(self, observation: Singles, reward: Any, info: dict[str, Any]) -> None:
        """Add the results of one step."""
        self.observations.append(observation)
        self.rewards.append(float(reward))
        self.infos.append(info)


Behavior = Callable[[Rollout], Sequence[float]]


def is_known(env: str) -> bool:
    """Return whether an environment is Gymnasium's own, or ours."""
    entry = getattr(library().registry.get(env), "entry_point", "")
    return isinstance(entry, str) and entry.startswith(("gymnasium.envs.", "ees_mpi."))


def library() -> Any:
    """Import Gymnasium, register our environments and silence MuJoCo; raise MissingExtra if Gymnasium is missing."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("task gymnasium needs Gymnasium: pip install 'ees_mpi[bullet]' or '[mujoco]'") from None
    import ees_mpi.tasks.bullet.registration  # noqa: F401  (registers our environments)

    if importlib.util.find_spec("mujoco"):
        silent_mujoco()
    return gymnasium


def numbers(behavior: Any, name: str, expected: int = 0) -> tuple[float, ...]:
    """Return a behaviour as a flat tuple; raise an PluginError if it is none, or not of the `expected` length."""
    try:
        row = doubles(behavior)
    except Exception:  # of a sequence, tensor or array of the user
        row = np.empty((0, 0))
    if row.ndim != 1 or row.size == 0:
        raise PluginError(f"behavior {name}: expected one or more numbers in a flat sequence, got {behavior!r:.80}")
    if row.size != (expected or row.size):
        raise PluginError(f"behavior {name}: expected {expected} numbers, as at first, got {row.size}")
    return tuple(row.tolist())


def was_reset_by_mujoco(env: Any) -> bool:
    """Return whether MuJoCo reset the robot during the rollout, because its state was not finite."""
    warnings_seen = getattr(getattr(env.unwrapped, "data", None), "warning", None)
    if warnings_seen is None:
        return False
    from mujoco import mjtWarning

    bad = (mjtWarning.mjWARN_BADQPOS, mjtWarning.mjWARN_BADQVEL, mjtWarning.mjWARN_BADQACC)
    return any(warnings_seen[kind].number for kind in bad)


class Gymnasium(PolicyTask, frozen=True, kw_only=True):
    """A Gymnasium environment; the fitness is the sum of rewards, or the distance along `direction`."""

    env: Annotated[str, key("The id of the environment, such as Ant-v5 or module:Env-v0.")]
    behavior: Annotated[
        str,
        key("The behaviour: final_observation, final_x, final_xy, final_info, mean_info, or package.module:function."),
    ] = "final_observation"
    components: Annotated[tuple[int, ...], key("For final_observation: which numbers of it; empty: all.")] = ()
    body: Annotated[str, key("For final_x and final_xy: the MuJoCo body.")] = "torso"
    info_key: Annotated[str, key("For final_info and mean_info: a key of the `info` of every step.")] = ""
    fitness: Annotated[
        Literal["reward", "behavior"], key("The sum of rewards, or the distance of the behaviour along `direction`.")
    ] = "reward"
    direction: Annotated[
        float, key("The direction in which distance is fitness, from the first number to the second.", "degrees")
    ] = 0.0
    terminate: Terminate = "environment"
    env_settings: Annotated[dict[str, Any], key("The keyword arguments of gymnasium.make.")] = {}  # noqa: RUF012
    rollouts: RolloutCount = 1
    starts: StartsOrNone = None
    place: Axes = msgspec.field(default=None, name="axes")

    sizes_known = False

    @property
    def layers(self) -> tuple[int, ...]:
        observations, actions, *_ = self._shape
        return (observations, *self.hidden, actions)

    @property
    def varied_starts(self) -> bool:
        """Return whether two seeds give two first observations."""
        return self._shape[3]

    @property
    def behavior_dim(self) -> int:
        """Return the length of the behaviour, found by a first rollout."""
        return self._shape[2]

    def check(self) -> None:
        """Raise a ConfigError or MissingExtra if a first rollout fails, or the user's own network cannot act."""
        _ = self.axes
        super().check()

    @property
    def axes(self) -> int:
        return self.axes_of(self.behavior_dim)

    def axes_of(self, behavior_dim: int) -> int:
        """Return the key `axes`, or all numbers of one record if there are one or two."""
        return place_numbers(self.place, behavior_dim // len(self.marks))

    @property
    def begins_at_origin(self) -> bool:
        return self.walkable

    @property
    def heading(self) -> float | None:
        """Return the direction in which distance is fitness; None: the fitness is the sum of rewards."""
        return None if self.fitness == "reward" else self.direction

    @property
    def walkable(self) -> bool:
        """Return whether the behaviour is the position of a body, so that `walker` returns a robot."""
        return self.behavior in PLACES

    @property
    def label(self) -> str:
        return self.env

    def open(self, seed: int) -> "EnvironmentRollouts":
        """Return rollouts of the environment."""
        return EnvironmentRollouts(self, self.start_seed(seed))

    def walker(self, seed: int) -> "EnvironmentWalker | None":
        """Return the environment, controlled step by step."""
        if not self.walkable:
            return None
        walker = EnvironmentWalker(self, self.start_seed(seed))
        if walker.discrete:
            space = walker.env.action_space
            raise ConfigError(f"task.env {self.env!r}: expected box actions, which noise can be added to; got {space}")
        return walker

    def film(self, seed: int, view: View) -> Drawable:
        """Return rollouts of an environment that draws itself."""
        return EnvironmentFilm(self, self.start_seed(seed), view)

    @property
    def _shape(self) -> tuple[int, int, int, bool]:
        settings = msgspec.json.encode([getattr(self, name) for name in SHAPING], enc_hook=str)
        return once(("shape", settings), lambda: _find_shape(self))

    @property
    def own_code(self) -> str:
        """Return the user's environment, function and network; environments of other packages count as the user's."""
        parts = [
            "" if is_known(self.env) else f"task.env {self.env}",
            f"task.behavior {self.behavior}" if ":" in self.behavior else "",
            super().own_code,
        ]
        return ", ".join(filter(None, parts))

    def toward(self, direction: float) -> Self:
        """Return the same task with the distance of the behaviour in a direction as its fitness."""
        return msgspec.structs.replace(self, fitness="behavior", direction=direction)

    def observing(self, share: float) -> Self:
        """Return the task with a larger share, if about ten rollouts need it."""
        return msgspec.structs.replace(self, observation_share=max(self.observation_share, share))

    def make(self, **more: Any) -> Any:
        """Make the Gymnasium environment; raise an error that names the missing package or the unknown environment."""
        if ":" in self.env:
            require(self.env, "task.env")  # Gymnasium imports a module that is named before a colon
        gymnasium = library()
        if not is_known(self.env):
            require(self.env, "task.env")
        for place, value in flat(self.env_settings, "task.env_settings."):
            for _, leaf in leaves(value):
                if not isinstance(leaf, (bool, int, float)):
                    require(leaf if isinstance(leaf, str) else self.env, place)
        if ":" in self.env:
            import_module(self.env.partition(":")[0], self.env, "task.env")  # also beside the config file
        try:
            with warnings.catch_warnings(), silence():  # Gymnasium warns about newer versions and deprecated models
                warnings.simplefilter("ignore")
                return gymnasium.make(self.env, **{**self.env_settings, **more})
        except gymnasium.error.DependencyNotInstalled as error:
            raise MissingExtra(f"task.env {self.env!r}: {error}; for MuJoCo: pip install 'ees_mpi[mujoco]'") from None
        except gymnasium.error.UnregisteredEnv as error:
            hint = f" An environment of your own or of another package needs its module in front: module:{self.env}"
            raise ConfigError(f"task.env {self.env!r}: {error}{'' if ':' in self.env else hint}") from None
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            if "render_mode" in more and "render_mode" in str(error):  # of an environment without this argument
                raise ConfigError(f"task.env {self.env!r} cannot be drawn: it takes no render_mode") from None
            raise ConfigError(f"task.env {self.env!r} cannot be made: {error}") from None
        except (Exception, SystemExit) as error:
            if isinstance(error, AttributeError) and "render_mode" in more:
                raise  # the error of MuJoCo if a library for drawing is missing; `film` reports it
            raise ConfigError(str(failed(f"task.env {self.env}", "__init__()", error))) from error

    def flat(self, observation: Any, shape: tuple[int, ...]) -> Singles:
        """Return an observation as a flat vector; raise an PluginError if its size is not that of the space."""
        row = np.asarray(observation, np.float32).reshape(-1)
        if row.size != math.prod(shape):
            got = np.shape(observation)
            raise PluginError(f"task.env {self.env}: an observation has the shape {got}; expected {shape}")
        return row

    def characterisation(self) -> Behavior:
        """Return the function from a rollout to its behaviour."""
        if ":" in self.behavior:
            guarded = calling(f"task.behavior {self.behavior}", f"{self.behavior.partition(':')[2]}()")
            return guarded(function(self.behavior, "task.behavior"))
        named: dict[str, Behavior] = {
            "final_observation": self._final_observation,
            "final_xy": lambda rollout: self._position(rollout)[:2],
            "final_x": lambda rollout: self._position(rollout)[:1],
            "final_info": lambda rollout: self._infos(rollout)[-1],
            "mean_info": lambda rollout: [sum(each) / len(each) for each in zip(*self._infos(rollout), strict=True)],
        }
        if self.behavior not in named:
            raise ConfigError(f"task.behavior: {unknown(self.behavior, named)} (or package.module:function)")
        return named[self.behavior]

    def _final_observation(self, rollout: Rollout) -> Sequence[float]:
        last = rollout.observations[-1]
        if any(not 0 <= component < len(last) for component in self.components):
            raise ConfigError(f"task.components: expected numbers below {len(last)}, got {list(self.components)}")
        return [float(last[component]) for component in self.components or range(len(last))]

    def _position(self, rollout: Rollout) -> Sequence[float]:
        data: Any = getattr(rollout.env.unwrapped, "data", None)
        if not hasattr(data, "body"):
            named = "final_observation, final_info, mean_info or package.module:function"
            raise ConfigError(f"task.behavior {self.behavior}: {self.env} has no MuJoCo bodies; expected {named}")
        try:
            return [float(value) for value in data.body(self.body).xpos]
        except KeyError as error:
            raise ConfigError(f"task.body: {self.env} has no MuJoCo body {self.body!r} ({error})") from None

    def _infos(self, rollout: Rollout) -> list[list[float]]:
        """Return the number or the numbers of `info` after each step."""
        if any(self.info_key not in info for info in rollout.infos):
            keys = ", ".join(rollout.infos[0]) or "none"
            named = f"{self.info_key!r} is not in the info of every step of {self.env}"
            raise ConfigError(f"task.info_key: {named}; the first has: {keys}")
        values = [info[self.info_key] for info in rollout.infos]
        if not _is_numeric(values):
            strange = next((value for value in values if not _is_numeric(value)), values[-1])
            expected = "expected a number, or as many numbers in every step"
            raise PluginError(f"task.info_key {self.info_key}: {expected}, got {strange!r:.80}")
        found: list[list[float]] = np.array(values, np.float64).reshape(len(values), -1).tolist()
        return found


def _is_numeric(value: Any) -> bool:
    """Return whether numpy makes an array of numbers of it: not of None, texts, dates or rows of different lengths."""
    try:
        return np.array(value).dtype.kind in "biuf"
    except ValueError:
        return False


def _find_shape(task: Gymnasium) -> tuple[int, int, int, bool]:
    """Return the sizes of observation, action and behaviour, found by a first rollout; and whether its start varies."""
    env = task.make()
    observation, action = (getattr(env, name, None) for name in ("observation_space", "action_space"))
    spaces = library().spaces
    if not isinstance(observation, spaces.Box):
        raise ConfigError(f"task.env {task.env!r}: expected box observations, got {observation}")
    if not isinstance(action, (spaces.Box, spaces.Discrete)):
        raise ConfigError(f"task.env {task.env!r}: expected box or discrete actions, got {action}")
    inputs = math.prod(observation.shape)
    outputs = int(action.n) if isinstance(action, spaces.Discrete) else math.prod(action.shape)
    with before_rollouts():
        rollout = _dry_rollout(task, env)
        behavior = numbers(task.characterisation()(rollout), task.behavior)
        with calling(f"task.env {task.env}", "reset()"):
            other = task.flat(env.reset(seed=1)[0], observation.shape)
        varied = not np.array_equal(rollout.observations[0], other, equal_nan=True)
        with calling(f"task.env {task.env}", "close()"):
            env.close()
    return inputs, outputs, len(behavior) * len(task.marks), varied


def _dry_rollout(task: Gymnasium, env: Any) -> Rollout:
    """Return a rollout of a few steps, with actions near 0; a whole one for a user's function, which may need it."""
    space = env.action_space
    space.seed(0)
    steps = min(task.marks[0], MAX_DRY_STEPS) if ":" in task.behavior else DRY_STEPS
    with calling(f"task.env {task.env}", "reset() or step()"):
        shape = env.observation_space.shape
        rollout = Rollout(env, [task.flat(env.reset(seed=0)[0], shape)])
        for _ in range(steps):
            action = space.sample()
            action = action if space.shape == () else np.clip(np.zeros_like(action), space.low, space.high)
            seen, reward, terminated, truncated, info = env.step(action)
            rollout.add(task.flat(seen, shape), reward, info)
            if truncated or (terminated and task.terminate == "environment"):
                break
    return rollout


class EnvironmentWalker:
    """A Gymnasium environment that is controlled step by step, and keeps the present rollout.

    It is always reset with `seed`. Its position is the behaviour of the rollout up to now.
    """

    def __init__(self, task: Gymnasium, seed: int, **more: Any):
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
        with calling(f"task.env {self._task.env}", "close()"):
            self.env.close()


class EnvironmentRollouts(Rollouts):
    """Evaluates individuals: the policy of an individual acts in the environment."""

    def __init__(self, task: Gymnasium, seed: int, **more: Any):
        self._walker, self._name, self._axes = EnvironmentWalker(task, seed, **more), task.env, task.axes
        super().__init__(task, self._walker)
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
        with calling(f"task.env {self._name}", "reset() or step()"):
            return super()._walk(seen)


class EnvironmentFilm(EnvironmentRollouts):
    """Rollouts with the same bits, in an environment that draws itself."""

    def __init__(self, task: Gymnasium, seed: int, view: View):
        draw_without_a_screen()
        self._problem = f"task.env {task.env!r} cannot be drawn"
        try:
            super().__init__(task, seed, render_mode="rgb_array", **_size(task, view))
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


def _size(task: Gymnasium, view: View) -> dict[str, int]:
    """Return the arguments that set the size of pictures; only MuJoCo's environments have them."""
    spec = library().registry.get(task.env)
    return {"width": view.width, "height": view.height} if "mujoco" in str(getattr(spec, "entry_point", "")) else {}
