"""Rollouts of a Gymnasium environment: whole ones for evolution, and step by step for MAML."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.errors import ConfigError, TaskError
from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.policies import observation_sums
from ees_mpi.tasks.gymnasium.environment import Environment, Rollout, flat, numbers, was_reset_by_mujoco
from ees_mpi.tasks.locomotion import along


class EnvironmentWalker:
    """An environment that is controlled step by step, always reset with the same seed."""

    def __init__(self, task: Environment, seed: int):
        self._task, self._seed, self._env = task, seed, task.make()
        space = self._env.action_space
        if not hasattr(space, "low"):
            raise ConfigError(f"task.env {task.env!r}: expected box actions, which noise can be added to; got {space}")
        self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape
        self._behavior = task.characterisation()

    @property
    def position(self) -> tuple[float, ...]:
        """The present position; NaN after MuJoCo has reset the robot in mid-rollout."""
        place = numbers(self._behavior(Rollout(self._env)), self._task.behavior, TaskError)
        return tuple(math.nan for _ in place) if was_reset_by_mujoco(self._env) else place

    def reset(self) -> Singles:
        """Return to the start and observe."""
        return flat(self._env.reset(seed=self._seed)[0])

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""
        seen, _, terminated, truncated, _ = self._env.step(np.clip(action, self._low, self._high).reshape(self._shape))
        return flat(seen), truncated or (terminated and self._task.terminate == "environment")

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class Rollouts:
    """Evaluates individuals, each from a reset with the same seed."""

    def __init__(self, task: Environment, seed: int, dim: int, **more: Any):
        self._task, self._seed = task, seed
        self._env = task.make(**more)
        self.on_step: Callable[[int], None] | None = None  # called with the number of finished steps
        self._behavior = task.characterisation()
        self._policy = task.policy()
        self._dim = dim
        space = self._env.action_space
        self._discrete = not hasattr(space, "low")
        if not self._discrete:
            self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; an outcome that is not finite is invalid."""
        self._policy.load(parameters)
        self._policy.normalise(observation_mean, observation_std)
        with np.errstate(all="ignore"):
            rollout = self._act()
        length = len(rollout.rewards)
        behavior = numbers(self._behavior(rollout), self._task.behavior, TaskError)
        reward = self._task.fitness == "reward"
        fitness = math.fsum(rollout.rewards) if reward else along(self._task.direction, *behavior[:2])
        if not all(map(math.isfinite, (*behavior, fitness))) or was_reset_by_mujoco(self._env):
            return Outcome(index, (math.nan,) * self._dim, math.nan, length, valid=False)
        sums = observation_sums(rollout.observations[:-1]) if observe else None
        return Outcome(index, behavior, fitness, length, True, sums)

    def _act(self) -> Rollout:
        """Step until the end."""
        env, act, stops = self._env, self._policy.act, self._task.terminate == "environment"
        observation = flat(env.reset(seed=self._seed)[0])
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
            observation = flat(seen)
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
