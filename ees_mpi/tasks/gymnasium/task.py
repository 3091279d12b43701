"""Any Gymnasium environment with box or discrete actions as a task."""

import math

import msgspec

from ees_mpi.contracts import Drawable, View
from ees_mpi.errors import ConfigError
from ees_mpi.tasks.gymnasium.environment import Environment, Rollout, flat, library, numbers
from ees_mpi.tasks.gymnasium.film import Filmed
from ees_mpi.tasks.gymnasium.rollouts import EnvironmentWalker, Rollouts

DRY_STEPS = 3
PLACES = {"final_x": 1, "final_xy": 2}  # behaviours that are positions, and their axes


class Gymnasium(Environment, frozen=True, kw_only=True):
    """A Gymnasium environment; the fitness is the sum of rewards, or the distance along `direction`."""

    @property
    def layers(self) -> tuple[int, ...]:
        """The sizes of the policy's layers, from observation to action."""
        observations, actions, _ = _shape_of(self)
        return (observations, *self.hidden, actions)

    @property
    def behavior_dim(self) -> int:
        """How many numbers the behaviour has, found by a short rollout."""
        return _shape_of(self)[2]

    def check(self) -> None:
        """Make the environment and roll it out for a few steps."""
        _shape_of(self)

    @property
    def axes(self) -> int:
        """How many numbers of the behaviour are the final position."""
        return PLACES.get(self.behavior, 0)

    @property
    def heading(self) -> float | None:
        """The direction in which distance is fitness; None: the fitness is the sum of rewards."""
        return None if self.fitness == "reward" else self.direction

    @property
    def walkable(self) -> bool:
        """Whether `walker` returns a robot: it does if the behaviour is a position."""
        return self.axes > 0

    @property
    def label(self) -> str:
        """The name of the environment."""
        return self.env

    def open(self, seed: int) -> Rollouts:
        """Return rollouts of the environment."""
        return Rollouts(self, self.start_seed(seed), self.behavior_dim)

    def walker(self, seed: int) -> EnvironmentWalker | None:
        """Return the environment, controlled step by step."""
        return EnvironmentWalker(self, self.start_seed(seed)) if self.walkable else None

    def film(self, seed: int, view: View) -> Drawable:
        """Return rollouts of an environment that draws itself."""
        return Filmed(self, self.start_seed(seed), self.behavior_dim, view)


def _shape_of(task: Gymnasium) -> tuple[int, int, int]:
    """Return the sizes of observation, action and behaviour; they are found once per task."""
    key = msgspec.json.encode(task)
    if key not in _SHAPES:
        _SHAPES[key] = _find_shape(task)
    return _SHAPES[key]


_SHAPES: dict[bytes, tuple[int, int, int]] = {}


def _find_shape(task: Gymnasium) -> tuple[int, int, int]:
    """Find the sizes of observation, action and behaviour by a short rollout."""
    env = task.make()
    observation, action = env.observation_space, env.action_space
    spaces = library().spaces
    if not isinstance(observation, spaces.Box):
        raise ConfigError(f"task.env {task.env!r}: expected box observations, got {observation}")
    if not isinstance(action, (spaces.Box, spaces.Discrete)):
        raise ConfigError(f"task.env {task.env!r}: expected box or discrete actions, got {action}")
    inputs = math.prod(observation.shape)
    outputs = int(action.n) if isinstance(action, spaces.Discrete) else math.prod(action.shape)
    rollout = Rollout(env, [flat(env.reset(seed=0)[0])])
    action.seed(0)
    for _ in range(DRY_STEPS):
        seen, reward, terminated, truncated, info = env.step(action.sample())
        rollout.observations.append(flat(seen))
        rollout.rewards.append(float(reward))
        rollout.infos.append(info)
        if terminated or truncated:
            break
    behavior = numbers(task.characterisation()(rollout), task.behavior, ConfigError)
    env.close()
    return inputs, outputs, len(behavior)
