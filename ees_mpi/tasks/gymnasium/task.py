"""A task for any Gymnasium environment with box or discrete actions."""

import math
from typing import Any

from ees_mpi.contracts import Drawable, View
from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.registry.own import calling
from ees_mpi.tasks.base import once
from ees_mpi.tasks.gymnasium.environment import Environment, Rollout, library, numbers
from ees_mpi.tasks.gymnasium.rollouts import EnvironmentFilm, EnvironmentRollouts, EnvironmentWalker

DRY_STEPS = 3  # of the rollout that finds the size of the behaviour
PLACES = {"final_x": 1, "final_xy": 2}  # behaviours that are positions, and their axes


class Gymnasium(Environment, frozen=True, kw_only=True):
    """A Gymnasium environment; the fitness is the sum of rewards, or the distance along `direction`."""

    sizes_known = False

    @property
    def layers(self) -> tuple[int, ...]:
        observations, actions, _ = self._shape
        return (observations, *self.hidden, actions)

    @property
    def behavior_dim(self) -> int:
        """Return the length of the behaviour, found by a short rollout."""
        return self._shape[2]

    def check(self) -> None:
        """Raise a ConfigError or MissingExtra if a short rollout fails, or the user's own network cannot act."""
        _ = self._shape
        super().check()

    @property
    def axes(self) -> int:
        return PLACES.get(self.behavior, 0)

    @property
    def heading(self) -> float | None:
        """Return the direction in which distance is fitness; None: the fitness is the sum of rewards."""
        return None if self.fitness == "reward" else self.direction

    @property
    def walkable(self) -> bool:
        """Return whether the behaviour is a position, so that `walker` returns a robot."""
        return self.axes > 0

    @property
    def label(self) -> str:
        return self.env

    def open(self, seed: int) -> EnvironmentRollouts:
        """Return rollouts of the environment."""
        return EnvironmentRollouts(self, self.start_seed(seed))

    def walker(self, seed: int) -> EnvironmentWalker | None:
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
    def _shape(self) -> tuple[int, int, int]:
        return once(self, "shape", lambda: _find_shape(self))


def _find_shape(task: Gymnasium) -> tuple[int, int, int]:
    """Return the sizes of observation, action and behaviour, found by a short rollout."""
    env = task.make()
    observation, action = env.observation_space, env.action_space
    spaces = library().spaces
    if not isinstance(observation, spaces.Box):
        raise ConfigError(f"task.env {task.env!r}: expected box observations, got {observation}")
    if not isinstance(action, (spaces.Box, spaces.Discrete)):
        raise ConfigError(f"task.env {task.env!r}: expected box or discrete actions, got {action}")
    inputs = math.prod(observation.shape)
    outputs = int(action.n) if isinstance(action, spaces.Discrete) else math.prod(action.shape)
    with before_rollouts():
        rollout = _short_rollout(task, env)
        behavior = numbers(task.characterisation()(rollout), task.behavior)
    env.close()
    return inputs, outputs, len(behavior) * len(task.marks)


def _short_rollout(task: Gymnasium, env: Any) -> Rollout:
    """Return a rollout of a few random steps."""
    env.action_space.seed(0)
    with calling(f"task.env {task.env}", "reset() or step()"):
        shape = env.observation_space.shape
        rollout = Rollout(env, [task.flat(env.reset(seed=0)[0], shape)])
        for _ in range(DRY_STEPS):
            seen, reward, terminated, truncated, info = env.step(env.action_space.sample())
            rollout.add(task.flat(seen, shape), reward, info)
            if terminated or truncated:
                break
    return rollout
