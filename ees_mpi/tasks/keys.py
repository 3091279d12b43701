"""Keys that several tasks have."""

from typing import Annotated, Literal

import msgspec

from ees_mpi.errors import ConfigError
from ees_mpi.registry import Count, key

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Deterministic = Annotated[bool, key("Whether rollouts repeat bit by bit; false: `verify` leaves them out.")]
OnError = Annotated[
    Literal["stop", "invalid"],
    key("What an exception in your code does: it ends the run, or the individual counts as invalid."),
]
RolloutCount = Annotated[
    Count, key("The rollouts of an individual, each with its own seed; its outcome is their mean.", "rollouts")
]
Terminate = Annotated[Literal["never", "environment"], key("Whether the environment may end a rollout early (a fall).")]
ResetSeed = Annotated[
    Annotated[int, msgspec.Meta(ge=0)] | None, key("The seed of every rollout's start; not set: the run's seed.")
]
Axes = Annotated[
    Annotated[int, msgspec.Meta(ge=0)] | None,
    key("How many of the last numbers of the behaviour are a place; not set: all of them, if there are one or two."),
]
START = (
    "The starts of rollouts. fixed: always the same, the first that of reset_seed; common: new in each generation, "
    "the same for all individuals; own: new in each generation for each antithetic pair"
)
Starts = Annotated[Literal["own", "common", "fixed"], key(f"{START}.")]
StartsOrNone = Annotated[
    Literal["own", "common", "fixed"] | None,
    key(f"{START}; not set: one rollout as fixed, several as common."),
]


def place_numbers(axes: int | None, numbers: int) -> int:
    """Return how many of the last numbers of a behaviour are a place; `axes`: the key, `numbers`: all of them."""
    if axes is not None and axes > numbers:
        raise ConfigError(f"task.axes: the behaviour has {numbers} numbers; expected 0 to {numbers}, got {axes}")
    return axes if axes is not None else numbers if numbers <= 2 else 0
