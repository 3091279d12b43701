"""The base class of tasks: the defaults of everything in `contracts.Task` that only some tasks have."""

from collections.abc import Callable
from typing import Annotated, Any, Self, TypeVar

import msgspec

from ees_mpi.contracts import BatchEvaluator, Drawable, View, Walker
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Singles
from ees_mpi.registry import Part, key

Deterministic = Annotated[
    bool, key("Whether a rollout can be repeated bit by bit; false: `verify` compares distributions.")
]
RolloutCount = Annotated[
    int, key("The rollouts of an individual, each with its own seed; its outcome is their mean.", "rollouts", ge=1)
]
Result = TypeVar("Result")


class TaskPart(Part, frozen=True):
    """A task without observations, network, position or direction.

    `contracts.Task` explains all members. A subclass defines `parameters`, `behavior_dim`, `initial` and `open`, and
    overrides the other members as needed.
    """

    @property
    def observation_dim(self) -> int:
        return 0

    @property
    def observation_share(self) -> float:
        return 0.0

    @property
    def axes(self) -> int:
        return 0

    @property
    def layers(self) -> tuple[int, ...]:
        return ()

    @property
    def steps(self) -> int:
        return 1

    @property
    def heading(self) -> float | None:
        return None

    @property
    def sizes_known(self) -> bool:
        return True

    @property
    def deterministic(self) -> bool:
        return True

    @property
    def rollouts(self) -> int:
        return 1

    @property
    def own_code(self) -> str:
        return ""

    @property
    def walkable(self) -> bool:
        return False

    @property
    def label(self) -> str:
        return ""

    @property
    def in_program(self) -> bool:
        return False

    @property
    def engine(self) -> str:
        return ""

    @property
    def device(self) -> str | None:
        return "cpu"

    def resolved(self) -> Self:
        """Return the task with everything that it reads from other files: it reads nothing."""
        return self

    def observing(self, share: float) -> Self:
        """Return the task of a new run that sets no `observation_share`; `share`: that of about ten rollouts."""
        return self

    def lacks_for_gpu(self) -> str:
        """Return the reason why this process cannot evaluate on a GPU."""
        return "a task that runs on GPUs"

    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> BatchEvaluator:
        """Raise a ConfigError: this task does not run on GPUs."""
        raise ConfigError("this task does not run on GPUs")

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts; `seed`: the run's."""
        return seed

    def starting_with(self, reset_seed: int) -> Self:
        """Return the same task with another seed for the start of its rollouts."""
        return msgspec.structs.replace(self, reset_seed=reset_seed)

    def toward(self, direction: float) -> Self:
        """Return the same task with another direction."""
        return msgspec.structs.replace(self, direction=direction)

    def film(self, seed: int, view: View) -> Drawable | None:
        """Return an evaluator that can be filmed; None: there is nothing to draw."""
        return None

    def walker(self, seed: int) -> Walker | None:
        """Return a robot that is controlled step by step; None: there is none."""
        return None


_RESULTS: dict[tuple[str, type, bytes], Any] = {}


def forget() -> None:
    """Forget the results of `once`: in a notebook, the user's code may have changed."""
    _RESULTS.clear()


def once(task: TaskPart, name: str, compute: Callable[[], Result]) -> Result:
    """Return the result of `compute`, which is called once per process for tasks with the same settings."""
    key = name, type(task), msgspec.json.encode(task)
    if key not in _RESULTS:
        _RESULTS[key] = compute()
    result: Result = _RESULTS[key]
    return result
