"""Any Gymnasium environment with box or discrete actions as a task.

`task.behavior` says what counts as behaviour:

    "final_observation"         components of the last observation (`task.components`; all where empty)
    "final_xy", "final_x"       where a MuJoCo body ends (`task.body`, default "torso")
    "mean_info"                 the mean over the rollout of a key of `info` (`task.info_key`)
    "package.module:function"   a function of a `Rollout` that returns numbers
"""

import importlib.util
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np

from ees_mpi.errors import ConfigError, MissingExtra, TaskError
from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.policies import observation_sums
from ees_mpi.registry import imported, unknown
from ees_mpi.tasks.filming import Drawable, View
from ees_mpi.tasks.policy import PolicyTask, along
from ees_mpi.tasks.silence import silence

NAMED = ("final_observation", "final_xy", "final_x", "mean_info")
DRY_STEPS = 3


@dataclass
class Rollout:
    """What a behaviour function sees of a finished rollout."""

    env: Any
    observations: list[Singles] = field(default_factory=list)  # the last one is the final one
    rewards: list[float] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)


Behavior = Callable[[Rollout], Sequence[float]]


class Gymnasium(PolicyTask, frozen=True, kw_only=True):
    """A Gymnasium environment; the fitness is the sum of rewards, or how far the behaviour is along `direction`."""

    env: str
    behavior: str = "final_observation"
    components: tuple[int, ...] = ()
    body: str = "torso"
    info_key: str = ""
    fitness: Literal["reward", "behavior"] = "reward"
    direction: float = 0.0  # degrees from the behaviour's first number towards its second
    terminate: Literal["never", "environment"] = "environment"
    env_settings: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it): keyword arguments of gymnasium.make

    @property
    def layers(self) -> tuple[int, ...]:
        """The sizes of all layers, from observation to action."""
        observations, actions, _ = _shape_of(self)
        return (observations, *self.hidden, actions)

    @property
    def behavior_dim(self) -> int:
        """How many numbers the behaviour has: found out by a short rollout."""
        return _shape_of(self)[2]

    def check(self) -> None:
        """Make the environment and roll it out for a few steps."""
        _shape_of(self)

    def open(self, seed: int) -> "Rollouts":
        """Make the environment."""
        return Rollouts(self, self.seed(seed))

    @property
    def walker(self) -> "Callable[[int], EnvironmentWalker] | None":
        """Make the environment, to be led step by step; None where it has no place to measure a distance from."""
        if self.behavior not in ("final_x", "final_xy"):
            return None
        return lambda seed: EnvironmentWalker(self, self.seed(seed))

    def film(self, seed: int, view: View) -> Drawable:
        """Make the environment so that it draws itself."""
        from ees_mpi.tasks.gymnasium_film import Filmed

        return Filmed(self, self.seed(seed), view)

    def make(self, **more: Any) -> Any:
        """Make the Gymnasium environment, or say what is missing."""
        gymnasium = library()
        try:
            with warnings.catch_warnings(), silence():  # of newer versions and deprecated models: the user named this
                warnings.simplefilter("ignore")
                return gymnasium.make(self.env, **{**self.env_settings, **more})
        except gymnasium.error.DependencyNotInstalled as error:
            raise MissingExtra(f"task.env {self.env!r}: {error}; for MuJoCo: pip install 'ees_mpi[mujoco]'") from None
        except gymnasium.error.UnregisteredEnv:
            known = [name for name in gymnasium.registry if ":" not in name]
            raise ConfigError(f"task.env: {unknown(self.env, known)}") from None
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise ConfigError(f"task.env {self.env!r} cannot be made: {error}") from None

    def characterisation(self) -> Behavior:
        """Return the function from a rollout to its behaviour."""
        if ":" in self.behavior:
            function: Behavior = imported(self.behavior, "task.behavior")
            return function
        if self.behavior not in NAMED:
            raise ConfigError(f"task.behavior: {unknown(self.behavior, NAMED)} (or package.module:function)")
        return {
            "final_observation": self._final_observation,
            "final_xy": lambda rollout: self._place(rollout)[:2],
            "final_x": lambda rollout: self._place(rollout)[:1],
            "mean_info": self._mean_info,
        }[self.behavior]

    def _final_observation(self, rollout: Rollout) -> Sequence[float]:
        last = rollout.observations[-1]
        if any(not 0 <= component < len(last) for component in self.components):
            raise ConfigError(f"task.components: expected numbers below {len(last)}, got {list(self.components)}")
        return [float(last[component]) for component in self.components or range(len(last))]

    def _place(self, rollout: Rollout) -> Sequence[float]:
        data = getattr(rollout.env.unwrapped, "data", None)
        try:
            return [float(value) for value in data.body(self.body).xpos]  # type: ignore[union-attr]
        except (AttributeError, KeyError) as error:
            raise ConfigError(f"task.body: {self.env} has no MuJoCo body {self.body!r} ({error})") from None

    def _mean_info(self, rollout: Rollout) -> Sequence[float]:
        if any(self.info_key not in info for info in rollout.infos):
            keys = ", ".join(rollout.infos[0]) or "none"
            raise ConfigError(f"task.info_key: {self.info_key!r} is not in the info of {self.env}; it has: {keys}")
        return [sum(float(info[self.info_key]) for info in rollout.infos) / len(rollout.infos)]


def library() -> Any:
    """Import Gymnasium, with our own environments and a silent MuJoCo, or say what is missing."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("task gymnasium needs Gymnasium: pip install 'ees_mpi[bullet]' or '[mujoco]'") from None
    import ees_mpi.envs  # noqa: F401  (our own environments may be named, too)

    if importlib.util.find_spec("mujoco"):
        import mujoco

        # Left alone, every rank writes MUJOCO_LOG.TXT where it stands; a rollout that blows up is marked invalid here.
        mujoco.set_mju_user_warning(lambda message: None)
    return gymnasium


def _shape_of(task: Gymnasium) -> tuple[int, int, int]:
    """Return the sizes of observation, action and behaviour, found out once per task."""
    key = msgspec.json.encode(task)
    if key not in _SHAPES:
        _SHAPES[key] = _find_shape(task)
    return _SHAPES[key]


_SHAPES: dict[bytes, tuple[int, int, int]] = {}


def _find_shape(task: Gymnasium) -> tuple[int, int, int]:
    """Find out the sizes of observation, action and behaviour by making the environment and trying it."""
    env = task.make()
    observation, action = env.observation_space, env.action_space
    spaces = library().spaces
    if not isinstance(observation, spaces.Box):
        raise ConfigError(f"task.env {task.env!r}: expected box observations, got {observation}")
    if not isinstance(action, (spaces.Box, spaces.Discrete)):
        raise ConfigError(f"task.env {task.env!r}: expected box or discrete actions, got {action}")
    inputs = math.prod(observation.shape)
    outputs = int(action.n) if isinstance(action, spaces.Discrete) else math.prod(action.shape)
    rollout = Rollout(env, [_flat(env.reset(seed=0)[0])])
    action.seed(0)
    for _ in range(DRY_STEPS):
        seen, reward, terminated, truncated, info = env.step(action.sample())
        rollout.observations.append(_flat(seen))
        rollout.rewards.append(float(reward))
        rollout.infos.append(info)
        if terminated or truncated:
            break
    behavior = _numbers(task.characterisation()(rollout), task.behavior, ConfigError)
    env.close()
    return inputs, outputs, len(behavior)


def _flat(observation: Any) -> Singles:
    return np.asarray(observation, np.float32).reshape(-1)


def _numbers(behavior: Any, name: str, error: type[ConfigError] | type[TaskError]) -> tuple[float, ...]:
    """Take what a behaviour function returned as a flat row of numbers, or say what it is instead."""
    try:
        row = np.asarray(behavior, np.float64)
    except (TypeError, ValueError):
        row = np.empty((0, 0))
    if row.ndim != 1 or row.size == 0:
        raise error(f"behavior {name}: expected one or more numbers in a flat sequence, got {behavior!r}")
    return tuple(row.tolist())


def _reset_by_mujoco(env: Any) -> bool:
    """Tell whether MuJoCo, finding its state not finite, quietly put the robot back to the start in mid-rollout."""
    warnings_seen = getattr(getattr(env.unwrapped, "data", None), "warning", None)
    if warnings_seen is None:
        return False
    from mujoco import mjtWarning

    bad = (mjtWarning.mjWARN_BADQPOS, mjtWarning.mjWARN_BADQVEL, mjtWarning.mjWARN_BADQACC)
    return any(warnings_seen[kind].number for kind in bad)


class EnvironmentWalker:
    """An environment that is led step by step, each time from a reset with the same seed."""

    def __init__(self, task: Gymnasium, seed: int):
        self._task, self._seed, self._env = task, seed, task.make()
        space = self._env.action_space
        if not hasattr(space, "low"):
            raise ConfigError(f"task.env {task.env!r}: expected box actions, which noise can be added to; got {space}")
        self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape
        self._behavior = task.characterisation()

    @property
    def position(self) -> tuple[float, ...]:
        """Where it is; NaN once MuJoCo has put it back to the start in mid-rollout."""
        place = _numbers(self._behavior(Rollout(self._env)), self._task.behavior, TaskError)
        return tuple(math.nan for _ in place) if _reset_by_mujoco(self._env) else place

    def reset(self) -> Singles:
        """Go back to the start and observe."""
        return _flat(self._env.reset(seed=self._seed)[0])

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout is over."""
        seen, _, terminated, truncated, _ = self._env.step(np.clip(action, self._low, self._high).reshape(self._shape))
        return _flat(seen), truncated or (terminated and self._task.terminate == "environment")

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class Rollouts:
    """Rolls individuals out, each from a reset with the same seed."""

    def __init__(self, task: Gymnasium, seed: int, **more: Any):
        self._task, self._seed = task, seed
        self._env = task.make(**more)
        self.on_step: Callable[[int], None] | None = None  # called with the number of steps done
        self._behavior = task.characterisation()
        self._policy = task.policy()
        self._dim = task.behavior_dim
        space = self._env.action_space
        self._discrete = not hasattr(space, "low")
        if not self._discrete:
            self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Let one individual act; a rollout that is not finite is marked invalid."""
        self._policy.load(parameters)
        self._policy.normalise(observation_mean, observation_std)
        with np.errstate(all="ignore"):
            rollout = self._act()
        length = len(rollout.rewards)
        behavior = _numbers(self._behavior(rollout), self._task.behavior, TaskError)
        reward = self._task.fitness == "reward"
        fitness = math.fsum(rollout.rewards) if reward else along(self._task.direction, *behavior[:2])
        if not all(map(math.isfinite, (*behavior, fitness))) or _reset_by_mujoco(self._env):
            return Outcome(index, (math.nan,) * self._dim, math.nan, length, valid=False)
        sums = observation_sums(rollout.observations[:-1]) if observe else None
        return Outcome(index, behavior, fitness, length, True, sums)

    def _act(self) -> Rollout:
        """Step until the end."""
        env, act, stops = self._env, self._policy.act, self._task.terminate == "environment"
        observation = _flat(env.reset(seed=self._seed)[0])
        self.rollout = rollout = Rollout(env, [observation])
        if self.on_step is not None:
            self.on_step(0)
        for _ in range(self._task.steps):
            output = act(observation)
            if not np.isfinite(output).all():
                rollout.rewards.append(math.nan)
                rollout.infos.append({})
                break
            seen, reward, terminated, truncated, info = env.step(self._action(output))
            observation = _flat(seen)
            rollout.observations.append(observation)
            rollout.rewards.append(float(reward))
            rollout.infos.append(info)
            if self.on_step is not None:
                self.on_step(len(rollout.rewards))
            if truncated or (terminated and stops):
                break
        return rollout

    def _action(self, output: Singles) -> Any:
        if self._discrete:
            return int(output.argmax())
        return np.clip(output, self._low, self._high).reshape(self._shape)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
