"""The behaviour of a rollout in an environment of Gymnasium.

`task.behavior` chooses it:

    "final_observation"         components of the last observation (`task.components`; empty: all of them)
    "final_xy", "final_x"       the final position of a MuJoCo body (`task.body`, default "torso"): its `xpos`, which is
                                one physics step older than the `x_position` in the `info` of Gymnasium's robots
    "final_info", "mean_info"   a key of `info` (`task.info_key`): its last value, or its mean over the rollout; a
                                number or several, in the `info` of every step
    "package.module:function"   a function of a `Rollout` that returns numbers

With `task.behavior_steps`, it is computed from the rollout up to each of these steps, and the numbers are joined.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ees_mpi.errors import ConfigError, PluginError
from ees_mpi.outcomes import Singles, doubles
from ees_mpi.registry import unknown
from ees_mpi.registry.plugins import calling, function


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


def numbers(behavior: Any, name: str, expected: int = 0) -> tuple[float, ...]:
    """Return a behaviour as a flat tuple; raise a PluginError if it is none, or not of the `expected` length."""
    try:
        row = doubles(behavior)
    except Exception:  # of a sequence, tensor or array of the user
        row = np.empty((0, 0))
    if row.ndim != 1 or row.size == 0:
        raise PluginError(
            f"task.behavior {name}: expected one or more numbers in a flat sequence, got {behavior!r:.80}"
        )
    if row.size != (expected or row.size):
        raise PluginError(f"task.behavior {name}: expected {expected} numbers, as at first, got {row.size}")
    return tuple(row.tolist())


def behavior_of(task: Any) -> Behavior:
    """Return the function from a rollout to its behaviour that a task `Gymnasium` names."""
    name: str = task.behavior
    if ":" in name:
        guarded = calling(f"task.behavior {name}", f"{name.partition(':')[2]}()")
        return guarded(function(name, "task.behavior"))
    named: dict[str, Behavior] = {
        "final_observation": lambda rollout: _final_observation(task, rollout),
        "final_xy": lambda rollout: _position(task, rollout)[:2],
        "final_x": lambda rollout: _position(task, rollout)[:1],
        "final_info": lambda rollout: _infos(task, rollout)[-1],
        "mean_info": lambda rollout: [sum(each) / len(each) for each in zip(*_infos(task, rollout), strict=True)],
    }
    if name not in named:
        raise ConfigError(f"task.behavior: {unknown(name, named)} (or package.module:function)")
    return named[name]


def _final_observation(task: Any, rollout: Rollout) -> Sequence[float]:
    last = rollout.observations[-1]
    if any(not 0 <= component < len(last) for component in task.components):
        raise ConfigError(f"task.components: expected numbers below {len(last)}, got {list(task.components)}")
    return [float(last[component]) for component in task.components or range(len(last))]


def _position(task: Any, rollout: Rollout) -> Sequence[float]:
    data: Any = getattr(rollout.env.unwrapped, "data", None)
    if not hasattr(data, "body"):
        named = "final_observation, final_info, mean_info or package.module:function"
        raise ConfigError(f"task.behavior {task.behavior}: {task.env} has no MuJoCo bodies; expected {named}")
    try:
        return [float(value) for value in data.body(task.body).xpos]
    except KeyError as error:
        raise ConfigError(f"task.body: {task.env} has no MuJoCo body {task.body!r} ({error})") from None


def _infos(task: Any, rollout: Rollout) -> list[list[float]]:
    """Return the number or the numbers of `info` after each step."""
    if any(task.info_key not in info for info in rollout.infos):
        keys = ", ".join(rollout.infos[0]) or "none"
        missing = f"{task.info_key!r} is not in the info of every step of {task.env}"
        named = missing if task.info_key else "it is not set"
        raise ConfigError(f"task.info_key: {named}; the info of the first step has: {keys}")
    values = [info[task.info_key] for info in rollout.infos]
    try:
        return doubles(values).reshape(len(values), -1).tolist()
    except (TypeError, ValueError):
        expected = "expected a number, or as many numbers in every step"
        raise PluginError(f"task.info_key {task.info_key}: {expected}, got {values[-1]!r:.80}") from None
