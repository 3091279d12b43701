"""A policy that a user writes: `task.policy = "package.module:Policy"`, for every task with a network.

`Policy(observations, actions, **task.policy_settings)` has the members of `tasks.base.PolicyPlugin`. Its observations
are normalised before it sees them, so it has no `normalise`. See `jobs/examples/own_policy.py`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ees_mpi.arrays import Singles
from ees_mpi.errors import EesError, PluginError
from ees_mpi.policies import CLIP
from ees_mpi.registry.plugins import calling, make

KEY = "task.policy"


class CheckedPolicy:
    """Gives normalised observations to the user's policy, and checks its actions."""

    def __init__(self, path: str, observations: int, actions: int, settings: Mapping[str, Any], clip: float = CLIP):
        sizes = {"observations": int(observations), "actions": int(actions)}
        self._policy = make(path, KEY, "count initial load act", settings, **sizes)
        self._code, self._act, self._actions = f"{KEY} {path}", self._policy.act, int(actions)
        self._clip = clip or np.inf
        with calling(self._code, "count"):
            self.count = int(self._policy.count)
        if self.count < 1:
            raise self._error(f"expected a count of at least 1 parameter, got {self.count}")
        self.normalise(np.zeros(observations), np.ones(observations))

    def initial(self, generator: np.random.Generator) -> Singles:
        with calling(self._code, "initial()"):
            first = np.asarray(self._policy.initial(generator), np.float32)
        if first.shape != (self.count,):
            raise self._error(f"initial() returned the shape {first.shape}; expected ({self.count},), its count")
        return first

    def load(self, flat: Singles) -> None:
        self._policy.load(flat)

    def normalise(self, mean: ArrayLike, std: ArrayLike) -> None:
        self._mean, self._std = (np.array(statistic, dtype=np.float32) for statistic in (mean, std))

    def act(self, observation: Singles) -> Singles:
        seen = np.clip((np.asarray(observation, np.float32) - self._mean) / self._std, -self._clip, self._clip)
        try:
            action = np.asarray(self._act(seen), np.float32)
        except EesError:
            raise
        except Exception as error:  # of a list or tensor of the user
            raise self._error(f"act() returned no vector of numbers: {error}") from None
        if action.shape != (self._actions,):
            raise self._error(f"act() returned the shape {action.shape}; expected ({self._actions},)")
        return action

    def check(self) -> None:
        """Raise an error if the policy cannot act with its first parameters."""
        self.load(self.initial(np.random.default_rng(0)))
        self.act(np.zeros(len(self._mean), np.float32))

    def _error(self, message: str) -> PluginError:
        return PluginError(f"{self._code}: {message}")
