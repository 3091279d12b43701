"""Gymnasium environments as tasks use them: the library, a rollout, and checks of their numbers."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ees_mpi.errors import MissingExtra, OwnCodeError
from ees_mpi.outcomes import Singles


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


def is_known(env: str) -> bool:
    """Return whether an environment is Gymnasium's own, or ours."""
    entry = getattr(library().registry.get(env), "entry_point", "")
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
