"""A task for any Gymnasium environment with box or discrete actions: its settings, and the sizes of its network."""

import math
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np

from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.registry import key
from ees_mpi.registry.plugins import calling, once
from ees_mpi.tasks import base
from ees_mpi.tasks.base import Drawable, View
from ees_mpi.tasks.gymnasium.behaviors import Rollout, behavior_of, numbers, parts_of
from ees_mpi.tasks.gymnasium.rollouts import (
    EnvironmentFilm,
    EnvironmentRollouts,
    EnvironmentWalker,
    is_known,
    library,
    make,
    picture_size,
)
from ees_mpi.tasks.locomotion import PolicyTask

DRY_STEPS = 3  # of the rollout, with actions near 0, that finds the size of the behaviour
MAX_DRY_STEPS = 10_000  # of it, for a function of the user, which may need a whole rollout
SHAPING = ("env", "env_settings", "behavior", "steps", "behavior_steps", "terminate")
PLACES = ("final_x", "final_xy")  # behaviours that are positions of a body


class Gymnasium(PolicyTask, frozen=True, kw_only=True):
    """A Gymnasium environment; the fitness is the sum of rewards, or the distance along `direction`."""

    env: Annotated[str, key("The id of the environment, such as Ant-v5 or module:Env-v0.")]
    behavior: Annotated[
        str,
        key(
            "The behaviour: final_observation or final_observation[0, 2], final_x, final_xy or final_xy[BODY], "
            "final_info[KEY], mean_info[KEY], or package.module:function."
        ),
    ] = "final_observation"
    fitness: Annotated[
        Literal["reward", "behavior"], key("The sum of rewards, or the distance of the behaviour along `direction`.")
    ] = "reward"
    direction: Annotated[
        float,
        key("The direction in which distance is fitness, from the first number of a place to the second.", "degrees"),
    ] = 0.0
    terminate: base.Terminate = "environment"
    env_settings: Annotated[dict[str, Any], key("The keyword arguments of gymnasium.make.")] = {}  # noqa: RUF012
    on_error: base.OnError = "stop"
    rollouts: base.RolloutCount = 1
    starts: base.StartsOrNone = None
    place: base.Axes = msgspec.field(default=None, name="axes")

    observes_ten = True
    sizes_known = False

    @property
    def layers(self) -> tuple[int, ...]:
        observations, actions, _ = self._shape
        return (observations, *self.hidden, actions)

    @property
    def behavior_dim(self) -> int:
        """Return the length of the behaviour, found by a first rollout."""
        return self._shape[2]

    def check(self) -> None:
        """Raise a ConfigError or MissingExtra if a first rollout fails, or the user's own network cannot act."""
        _ = self.axes
        super().check()

    def axes_of(self, behavior_dim: int) -> int:
        """Return the key `axes`, or all numbers of one record if there are one or two."""
        return base.place_numbers(self.place, behavior_dim // len(self.marks))

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
        return parts_of(self.behavior)[0] in PLACES

    @property
    def label(self) -> str:
        return self.env

    def open(self, seed: int) -> EnvironmentRollouts:
        return EnvironmentRollouts(self, self._walker(seed))

    def walker(self, seed: int) -> EnvironmentWalker:
        walker = self._walker(seed)
        if walker.discrete:
            space = walker.env.action_space
            raise ConfigError(f"task.env {self.env!r}: expected box actions, which noise can be added to; got {space}")
        return walker

    def film(self, seed: int, view: View) -> Drawable:
        """Return rollouts of an environment that draws itself."""

        def drawable() -> EnvironmentWalker:
            return self._walker(seed, render_mode="rgb_array", **picture_size(self.env, view))

        return EnvironmentFilm(self, drawable, f"task.env {self.env!r} cannot be drawn")

    def _walker(self, seed: int, **more: Any) -> EnvironmentWalker:
        """Make the environment, controlled step by step; `more`: arguments for drawing."""
        env, behavior = make(self.env, self.env_settings, **more), behavior_of(self)
        dim = self.behavior_dim // len(self.marks)

        def checked(rollout: Rollout) -> tuple[float, ...]:
            return numbers(behavior(rollout), self.behavior, dim)

        return EnvironmentWalker(env, self.env, self.start_seed(seed), checked, dim, self.terminate == "environment")

    @property
    def _shape(self) -> tuple[int, int, int]:
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


def _find_shape(task: Gymnasium) -> tuple[int, int, int]:
    """Return the sizes of observation, action and behaviour, found by a first rollout."""
    env = make(task.env, task.env_settings)
    observation, action = (getattr(env, name, None) for name in ("observation_space", "action_space"))
    spaces = library().spaces
    if not isinstance(observation, spaces.Box):
        flat = "wrap it in gymnasium.wrappers.FlattenObservation, in the entry_point of gymnasium.register"
        raise ConfigError(f"task.env {task.env!r}: expected box observations, got {observation}; {flat}")
    if not isinstance(action, (spaces.Box, spaces.Discrete)):
        raise ConfigError(f"task.env {task.env!r}: expected box or discrete actions, got {action}")
    inputs = math.prod(observation.shape)
    outputs = int(action.n) if isinstance(action, spaces.Discrete) else math.prod(action.shape)
    behavior = behavior_of(task)
    walker = EnvironmentWalker(env, task.env, 0, behavior, 0, task.terminate == "environment")
    with before_rollouts():
        with calling(f"task.env {task.env}", "reset() or step()"):
            walker.reset()
            for _ in range(min(task.marks[0], MAX_DRY_STEPS) if ":" in task.behavior else DRY_STEPS):
                if walker.step(np.zeros(outputs, np.float32))[1]:
                    break
        found = numbers(behavior(walker.rollout), task.behavior)
        walker.close()
    return inputs, outputs, len(found) * len(task.marks)
