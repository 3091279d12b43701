"""The settings of a Gymnasium task: how its environment is made, and the behaviour of a rollout.

`task.behavior` chooses the behaviour:

    "final_observation"         components of the last observation (`task.components`; empty: all of them)
    "final_xy", "final_x"       the final position of a MuJoCo body (`task.body`, default "torso"): its `xpos`, which is
                                one physics step older than the `x_position` in the `info` of Gymnasium's robots
    "mean_info"                 the mean over the rollout of a key of `info` (`task.info_key`)
    "package.module:function"   a function of a `Rollout` that returns numbers

With `task.behavior_steps`, it is computed from the rollout up to each of these steps, and the numbers are joined.
"""

import importlib.util
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np

from ees_mpi.errors import ConfigError, MissingExtra, OwnCodeError
from ees_mpi.outcomes import Singles
from ees_mpi.registry import check_setting, check_trust, flat, key, leaves, unknown
from ees_mpi.registry.own import calling, failed, function, import_module
from ees_mpi.tasks.base import RolloutCount
from ees_mpi.tasks.locomotion import PolicyTask
from ees_mpi.tasks.silence import silence


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


class Environment(PolicyTask, frozen=True, kw_only=True):
    """The settings of a Gymnasium task."""

    env: Annotated[str, key("The id of the environment, such as Ant-v5 or module:Env-v0.")]
    behavior: Annotated[
        str, key("The behaviour: final_observation, final_x, final_xy, mean_info, or package.module:function.")
    ] = "final_observation"
    components: Annotated[
        tuple[int, ...], key("For final_observation: the numbers of the observation; empty: all.")
    ] = ()
    body: Annotated[str, key("For final_x and final_xy: the MuJoCo body.")] = "torso"
    info_key: Annotated[str, key("For mean_info: the key of `info`.")] = ""
    fitness: Annotated[
        Literal["reward", "behavior"], key("The sum of rewards, or the distance of the behaviour along `direction`.")
    ] = "reward"
    direction: Annotated[
        float, key("The direction in which distance is fitness, from the first number to the second.", "degrees")
    ] = 0.0
    terminate: Annotated[
        Literal["never", "environment"],
        key("Whether the environment may end a rollout early."),
    ] = "environment"
    env_settings: Annotated[dict[str, Any], key("The keyword arguments of gymnasium.make.")] = {}  # noqa: RUF012
    rollouts: RolloutCount = 1

    @property
    def own_code(self) -> str:
        """Return the user's environment, function and network; environments of other packages count as the user's."""
        parts = [
            "" if is_known(library(), self.env) else f"task.env {self.env}",
            f"task.behavior {self.behavior}" if ":" in self.behavior else "",
            super().own_code,
        ]
        return ", ".join(filter(None, parts))

    def observing(self, share: float) -> Self:
        """Return the task with a larger share, if about ten rollouts need it."""
        return msgspec.structs.replace(self, observation_share=max(self.observation_share, share))

    def make(self, **more: Any) -> Any:
        """Make the Gymnasium environment; raise an error that names the missing package or the unknown environment."""
        check_trust(self.env, "task.env")  # Gymnasium imports a module that is named before a colon
        gymnasium = library()
        for place, value in flat(self.env_settings, "task.env_settings."):
            plain = all(isinstance(leaf, (bool, int, float)) for _, leaf in leaves(value))
            if not (plain and is_known(gymnasium, self.env)):
                check_setting(place, value)
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
            if "render_mode" in more and isinstance(error, TypeError):  # all other arguments have worked before
                raise ConfigError(f"task.env {self.env!r} cannot be drawn: it takes no render_mode") from None
            raise ConfigError(f"task.env {self.env!r} cannot be made: {error}") from None
        except AttributeError:
            raise  # the error of MuJoCo if a library for drawing is missing; `film` reports it
        except Exception as error:
            raise ConfigError(str(failed(f"task.env {self.env}", "__init__()", error))) from error

    def flat(self, observation: Any, shape: tuple[int, ...]) -> Singles:
        """Return an observation as a flat vector; raise an OwnCodeError if its size is not that of the space."""
        row = np.asarray(observation, np.float32).reshape(-1)
        if row.size != math.prod(shape):
            got = np.shape(observation)
            raise OwnCodeError(f"task.env {self.env}: an observation has the shape {got}; expected {shape}")
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
            "mean_info": self._mean_info,
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
            named = "final_observation, mean_info or package.module:function"
            raise ConfigError(f"task.behavior {self.behavior}: {self.env} has no MuJoCo bodies; expected {named}")
        try:
            return [float(value) for value in data.body(self.body).xpos]
        except KeyError as error:
            raise ConfigError(f"task.body: {self.env} has no MuJoCo body {self.body!r} ({error})") from None

    def _mean_info(self, rollout: Rollout) -> Sequence[float]:
        if any(self.info_key not in info for info in rollout.infos):
            keys = ", ".join(rollout.infos[0]) or "none"
            raise ConfigError(f"task.info_key: {self.info_key!r} is not in the info of {self.env}; it has: {keys}")
        return [sum(float(info[self.info_key]) for info in rollout.infos) / len(rollout.infos)]


def is_known(gymnasium: Any, env: str) -> bool:
    """Return whether an environment is Gymnasium's own, or ours."""
    entry = getattr(gymnasium.registry.get(env), "entry_point", "")
    return isinstance(entry, str) and entry.startswith(("gymnasium.envs.", "ees_mpi."))


def library() -> Any:
    """Import Gymnasium, register our environments and silence MuJoCo; raise MissingExtra if Gymnasium is missing."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("task gymnasium needs Gymnasium: pip install 'ees_mpi[bullet]' or '[mujoco]'") from None
    import ees_mpi.tasks.bullet.registration  # noqa: F401  (registers our environments)

    if importlib.util.find_spec("mujoco"):
        import mujoco

        # By default every rank writes MUJOCO_LOG.TXT into its folder. We mark an unstable rollout as invalid instead.
        mujoco.set_mju_user_warning(lambda message: None)
    return gymnasium


def numbers(behavior: Any, name: str, expected: int = 0) -> tuple[float, ...]:
    """Return a behaviour as a flat tuple; raise an OwnCodeError if it is none, or not of the `expected` length."""
    try:
        row = np.asarray(behavior, np.float64)
    except (TypeError, ValueError):
        row = np.empty((0, 0))
    if row.ndim != 1 or row.size == 0:
        raise OwnCodeError(f"behavior {name}: expected one or more numbers in a flat sequence, got {behavior!r:.80}")
    if row.size != (expected or row.size):
        raise OwnCodeError(f"behavior {name}: expected {expected} numbers, as at first, got {row.size}")
    return tuple(row.tolist())


def was_reset_by_mujoco(env: Any) -> bool:
    """Return whether MuJoCo reset the robot during the rollout, because its state was not finite."""
    warnings_seen = getattr(getattr(env.unwrapped, "data", None), "warning", None)
    if warnings_seen is None:
        return False
    from mujoco import mjtWarning

    bad = (mjtWarning.mjWARN_BADQPOS, mjtWarning.mjWARN_BADQVEL, mjtWarning.mjWARN_BADQACC)
    return any(warnings_seen[kind].number for kind in bad)
