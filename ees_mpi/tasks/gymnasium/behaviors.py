"""The behaviour of a rollout in an environment of Gymnasium.

`task.behavior` chooses it:

    "final_observation"         the last observation; "final_observation[0, 2]" takes some of its numbers
    "final_xy", "final_x"       the final position of the torso of a MuJoCo robot, or of another body: "final_xy[BODY]";
                                it is the body's `xpos`, which is one physics step older than the `x_position` in the
                                `info` of Gymnasium's robots
    "final_info[KEY]"           what `info` has under a key after the last step: a number or several; "mean_info[KEY]"
                                is the mean over all steps
    "package.module:function"   a function of a `Rollout` that returns numbers

With `task.behavior_steps`, it is computed from the rollout up to each of these steps, and the numbers are joined.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ees_mpi.arrays import Singles, doubles
from ees_mpi.errors import ConfigError, PluginError
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
        """Add the results of one step; of `info` a copy, because the environment may change its values in place."""
        self.observations.append(observation)
        self.rewards.append(float(reward))
        self.infos.append(
            {key: value.copy() if isinstance(value, (np.ndarray, list)) else value for key, value in info.items()}
        )


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


def parts_of(behavior: str) -> tuple[str, str]:
    """Return the name of a behaviour, and what stands in brackets behind it."""
    name, _, inside = behavior.partition("[")
    return name, inside.removesuffix("]")


def behavior_of(task: Any) -> Behavior:
    """Return the function from a rollout to its behaviour that a task `Gymnasium` names."""
    if ":" in task.behavior:
        guarded = calling(f"task.behavior {task.behavior}", f"{task.behavior.partition(':')[2]}()")
        return guarded(function(task.behavior, "task.behavior"))
    name, inside = parts_of(task.behavior)
    named: dict[str, Behavior] = {
        "final_observation": lambda rollout: _final_observation(task, inside, rollout),
        "final_xy": lambda rollout: _position(task, inside or "torso", rollout)[:2],
        "final_x": lambda rollout: _position(task, inside or "torso", rollout)[:1],
        "final_info": lambda rollout: _infos(task, inside, rollout)[-1],
        "mean_info": lambda rollout: [
            sum(each) / len(each) for each in zip(*_infos(task, inside, rollout), strict=True)
        ],
    }
    if name not in named:
        raise ConfigError(f"task.behavior: {unknown(name, named)} (or package.module:function)")
    return named[name]


def chosen_of(inside: str) -> list[int]:
    """Return the numbers in the brackets of final_observation; none: all of the observation."""
    try:
        return [int(number) for number in inside.split(",")] if inside else []
    except ValueError:
        raise ConfigError(f"task.behavior: expected numbers, as in final_observation[0, 2]; got [{inside}]") from None


def _final_observation(task: Any, inside: str, rollout: Rollout) -> Sequence[float]:
    last, chosen = rollout.observations[-1], chosen_of(inside)
    if any(not 0 <= number < len(last) for number in chosen):
        raise ConfigError(f"task.behavior {task.behavior}: expected numbers below {len(last)}")
    return [float(last[number]) for number in chosen or range(len(last))]


def _position(task: Any, body: str, rollout: Rollout) -> Sequence[float]:
    data: Any = getattr(rollout.env.unwrapped, "data", None)
    if not hasattr(data, "body"):
        named = "final_observation, final_info, mean_info or package.module:function"
        raise ConfigError(f"task.behavior {task.behavior}: {task.env} has no MuJoCo bodies; expected {named}")
    try:
        return [float(value) for value in data.body(body).xpos]
    except KeyError as error:
        raise ConfigError(f"task.behavior {task.behavior}: {task.env} has no MuJoCo body {body!r} ({error})") from None


def _infos(task: Any, key: str, rollout: Rollout) -> list[list[float]]:
    """Return the number or the numbers of `info` after each step."""
    if any(key not in info for info in rollout.infos):
        keys = ", ".join(rollout.infos[0]) or "none"
        missing = f"{key!r} is not in the info of every step of {task.env}"
        raise ConfigError(f"task.behavior {task.behavior}: {missing}; the info of the first step has: {keys}")
    values = [info[key] for info in rollout.infos]
    try:
        return doubles(values).reshape(len(values), -1).tolist()
    except (TypeError, ValueError):
        expected = "expected a number, or as many numbers in every step"
        raise PluginError(f"task.behavior {task.behavior}: {expected}, got {values[-1]!r:.80}") from None
