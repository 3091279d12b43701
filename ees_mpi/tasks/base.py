"""Keys that several tasks have, and results that are computed once per process."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

from ees_mpi.contracts import Task
from ees_mpi.registry import key

Deterministic = Annotated[
    bool, key("Whether a rollout can be repeated bit by bit; false: `verify` compares distributions.")
]
RolloutCount = Annotated[
    int, key("The rollouts of an individual, each with its own seed; its outcome is their mean.", "rollouts", ge=1)
]
Result = TypeVar("Result")

_RESULTS: dict[tuple[str, type, bytes], Any] = {}


def forget() -> None:
    """Forget the results of `once`: in a notebook, the user's code may have changed."""
    _RESULTS.clear()


def once(task: Task, name: str, compute: Callable[[], Result]) -> Result:
    """Return the result of `compute`, which is called once per process for tasks with the same settings."""
    key = name, type(task), msgspec.json.encode(task)
    if key not in _RESULTS:
        _RESULTS[key] = compute()
    result: Result = _RESULTS[key]
    return result
