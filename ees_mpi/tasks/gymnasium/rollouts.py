"""Rollouts of a Gymnasium environment: whole rollouts for evolution strategies, single steps for MAML."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.errors import ConfigError, located
from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.policies import observation_sums
from ees_mpi.registry.own import calling
from ees_mpi.tasks.gymnasium.environment import Environment, Rollout, numbers, was_reset_by_mujoco
from ees_mpi.tasks.locomotion import along


class SeededEnvironment:
    """A Gymnasium environment that is always reset with the same seed, until `reseed` gives it another one."""

    def __init__(self, task: Environment, seed: int, **more: Any):
        self._task, self._seed, self._env = task, seed, task.make(**more)
        self._behavior = task.characterisation()
        space, self._observed = self._env.action_space, self._env.observation_space.shape
        self._discrete = not hasattr(space, "low")
        if not self._discrete:
            self._low, self._high, self._shape = space.low.reshape(-1), space.high.reshape(-1), space.shape

    def reseed(self, seed: int) -> None:
        """Reset with this seed from now on."""
        self._seed = seed

    def reset(self) -> Singles:
        """Return to the start and observe."""
        return self._task.flat(self._env.reset(seed=self._seed)[0], self._observed)

    def _action(self, output: Singles) -> Any:
        """Return the action for an output of the policy."""
        if self._discrete:
            return int(output.argmax())
        return np.clip(output, self._low, self._high).reshape(self._shape)

    def _ends(self, terminated: bool, truncated: bool) -> bool:
        return truncated or (terminated and self._task.terminate == "environment")

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class EnvironmentWalker(SeededEnvironment):
    """An environment that is controlled step by step."""

    def __init__(self, task: Environment, seed: int):
        super().__init__(task, seed)
        if self._discrete:
            space = self._env.action_space
            raise ConfigError(f"task.env {task.env!r}: expected box actions, which noise can be added to; got {space}")

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position; NaN after MuJoCo has reset the robot during the rollout."""
        place = numbers(self._behavior(Rollout(self._env)), self._task.behavior)
        return tuple(math.nan for _ in place) if was_reset_by_mujoco(self._env) else place

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""
        seen, _, terminated, truncated, _ = self._env.step(self._action(action))
        return self._task.flat(seen, self._observed), self._ends(terminated, truncated)


class Rollouts(SeededEnvironment):
    """Evaluates individuals: the policy of an individual acts in the environment."""

    def __init__(self, task: Environment, seed: int, dim: int, **more: Any):
        super().__init__(task, seed, **more)
        self._policy, self._dim = task.network(), dim
        self.on_step: Callable[[int], None] | None = None  # called with the number of finished steps

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; an outcome that is not finite is invalid."""
        self._policy.normalise(observation_mean, observation_std)
        with located(f"individual {index}"):
            self._policy.load(parameters)
            with np.errstate(all="ignore"), calling(f"task.env {self._task.env}", "reset() or step()"):
                rollout = self._act()
            last = self._now()
        length = len(rollout.rewards)
        marks = self._task.marks
        # A rollout that ended early stays at its last behaviour. Without `behavior_steps` there is one mark: the end.
        places = [*self._places[: len(marks)], *[last] * (len(marks) - len(self._places))]
        behavior = tuple(value for place in places for value in place)
        reward = self._task.fitness == "reward"
        fitness = math.fsum(rollout.rewards) if reward else along(self._task.direction, *last[:2])
        if not all(map(math.isfinite, (*behavior, fitness))) or was_reset_by_mujoco(self._env):
            return Outcome(index, (math.nan,) * self._dim, math.nan, length, valid=False)
        sums = observation_sums(rollout.observations[:-1]) if observe else None
        return Outcome(index, behavior, fitness, length, True, sums)

    def _now(self) -> tuple[float, ...]:
        """Return the behaviour of the rollout up to now."""
        return numbers(self._behavior(self.rollout), self._task.behavior, self._dim // len(self._task.marks))

    def _act(self) -> Rollout:
        """Step until the end; note the behaviour at the marked steps."""
        observation, marks = self.reset(), set(self._task.behavior_steps)
        self.rollout = rollout = Rollout(self._env, [observation])
        self._places: list[tuple[float, ...]] = []
        if self.on_step is not None:
            self.on_step(0)
        for _ in range(self._task.steps):
            output = self._policy.act(observation)
            if not np.isfinite(output).all():
                rollout.rewards.append(math.nan)
                rollout.infos.append({})
                break
            seen, reward, terminated, truncated, info = self._env.step(self._action(output))
            observation = self._task.flat(seen, self._observed)
            rollout.add(observation, reward, info)
            if self.on_step is not None:
                self.on_step(len(rollout.rewards))
            if len(rollout.rewards) in marks:
                self._places.append(self._now())
            if self._ends(terminated, truncated):
                break
        return rollout
