"""What all tasks have, what they open, and what a task or a network of the user needs.

Letters in shapes: N individuals, B numbers of a behaviour, O observations, A actions, D parameters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.errors import ConfigError
from ees_mpi.generation import Batch, Outcome
from ees_mpi.registry import Count, Part, key

Pixels = NDArray[np.uint8]  # [height, width, 3]
Say = Callable[[str], None]  # prints a line for the user

# Keys of the config that several tasks have.
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
    "Which rollouts have the same starts: all of the run (fixed), all of a generation (common), or those of an "
    "antithetic pair in one generation (own)"
)
Starts = Annotated[Literal["own", "common", "fixed"], key(f"{START}.")]
StartsOrNone = Annotated[
    Literal["own", "common", "fixed"] | None,
    key(f"{START}; not set: one rollout as fixed, several as common."),
]


class Rollouts(Protocol):
    """Evaluates individuals, one at a time. The outcome depends on the arguments only, never on earlier rollouts."""

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; `observe`: also return the sums of its observations."""

    def close(self) -> None:
        """Release resources: a physics client, an environment, the memory of a GPU."""


class BatchRollouts(Protocol):
    """Evaluates many individuals at once, on a GPU; see `Task.repeats_on_gpu`."""

    capacity: int  # individuals at once; a larger batch is evaluated in several passes

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        """Roll out all individuals of a batch; return their outcomes in the order of the batch."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class View:
    """The size of a film's pictures in pixels; robots, which return their limbs, do not need it."""

    width: int = 320
    height: int = 240


class Placed(Rollouts, Protocol):
    """An evaluator that says where a rollout is, so that the trails of several rollouts can be drawn together."""

    on_step: Callable[[int], None] | None  # called with the number of finished steps, from 0 on
    step_seconds: float  # simulated seconds of one step

    def place(self) -> tuple[float, ...]:
        """Return the present position of the robot, as its behaviour counts it; empty if the task has none."""


class Drawable(Placed, Protocol):
    """An evaluator that draws itself: its outcomes have the same bits as those of `Task.open`."""

    def picture(self) -> Pixels:
        """Draw the present moment; its size may differ from the requested one."""


class Limbed(Placed, Protocol):
    """An evaluator of a robot that returns its limbs. Robots are drawn from them, all in one scene."""

    def limbs(self) -> Floats:
        """Return the limbs at the present moment, [n, 7]: both ends of the axis of a capsule, and its radius."""


class Walker(Protocol):
    """A robot that is controlled step by step. MAML learns from it."""

    @property
    def position(self) -> Sequence[float]: ...  # [B]; the behaviour is the final position

    def reset(self) -> Singles:
        """Return to the start, always the same one, and observe."""

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""

    def close(self) -> None: ...


class TaskPlugin(Protocol):
    """Turns parameters into outcomes: `Task(**task.settings)`."""

    @property
    def parameters(self) -> int: ...  # D: the length of an individual
    @property
    def behavior_dim(self) -> int: ...  # B

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean [D]."""

    def open(self, seed: int) -> Rollouts:
        """Return an evaluator for this rank; `seed`: the run's."""


class Task(Part, frozen=True):
    """A task without observations, network, position or direction.

    A subclass defines the members of `TaskPlugin`, which come first, and overrides the others as needed. They are
    grouped by the part that asks for them, which a comment names. Members that no subclass computes are attributes.
    """

    @property
    def parameters(self) -> int:  # D: the length of an individual
        raise NotImplementedError

    @property
    def behavior_dim(self) -> int:  # B
        raise NotImplementedError

    def initial(self, generator: np.random.Generator) -> Singles:
        raise NotImplementedError

    def open(self, seed: int) -> Rollouts:
        raise NotImplementedError

    # The rollouts of an individual and their starts: `strategy.evolution`, `run.evaluators`, `run.determinism`.
    steps = 1  # of a rollout, at most
    rollouts = 1  # of an individual, whose outcome is their mean
    deterministic = True  # whether the outcome of a rollout can be repeated bit by bit
    batch = False  # whether a call has several individuals: its evaluator has `rows` and `evaluate_rows` (a function)
    gives_fitness = True  # whether an outcome has a fitness that the task has computed
    on_error = "stop"  # what an exception in the user's code does: "stop", or "invalid"

    @property
    def reset_seed(self) -> int | None:  # of the start of every rollout; None: the run's seed
        return None

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts; `seed`: the run's."""
        return seed if self.reset_seed is None else self.reset_seed

    @property
    def starts(self) -> str | None:  # own, common or fixed; None: not set
        return None

    @property
    def rule_of_starts(self) -> str:
        """The rule by which rollouts start; not set, one rollout is always the same, and several are common."""
        return self.starts or ("common" if self.rollouts > 1 else "fixed")

    @property
    def common_starts(self) -> bool:  # whether the config says that all individuals of a generation share their starts
        return self.starts in ("common", "fixed")

    # Rollouts on a GPU: `run.evaluators`; `commands.verify`.
    repeats_on_gpu = False  # whether it can also be repeated bit by bit on the same kind of GPU

    @property
    def device(self) -> str | None:  # "cpu" or None, "cuda", or "auto": a GPU if every node has one
        return "cpu"

    def lacks_for_gpu(self) -> str:
        """Return what this process lacks for evaluating on a GPU; empty: nothing. Imports no torch."""
        return "a task that runs on GPUs"

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchRollouts:
        """Return a batch evaluator on the first visible GPU; `noise`: the whole table; `wanted`: individuals."""
        raise RuntimeError(self.lacks_for_gpu())

    # Observations and their statistics: `run.parts`.
    @property
    def observation_dim(self) -> int:  # O; 0: observations are not normalised
        return 0

    observation_share = 0.0  # the share of rollouts that feed the observation statistics
    observes_ten = False  # whether about ten rollouts of a generation feed them in a new run that sets no share

    # The config and the run file: `config`, `run.arrays`, `run.start`; names for users: `commands.info`.
    engine = ""  # the name of the physics engine, if the task has a choice of engines; else empty
    in_program = False  # whether only the user's own program can evaluate it, and no command

    @property
    def sizes_known(self) -> bool:  # False: the task must be opened to know its numbers of parameters and so on
        return True

    def resolved(self) -> Self:
        """Return the task with everything that it reads from other files, for the config in the run file."""
        return self

    @property
    def own_code(self) -> str:  # the user's code that a rollout runs, with its key; empty: none
        return ""

    @property
    def label(self) -> str:  # the name that users know: an environment's, a function's; empty: the registered name
        return ""

    # Places, directions and films: `analysis`, `commands.adapt`.
    @property
    def axes(self) -> int:  # how many of the last behaviour numbers are a place; 0: none is
        return self.axes_of(self.behavior_dim)

    def axes_of(self, behavior_dim: int) -> int:
        """Return `axes` of behaviours of this length, which a run file knows: no rollout is needed to find it."""
        return 0

    @property
    def begins_at_origin(self) -> bool:  # whether places are those of a robot: final x and y, from the start at 0 on
        return self.axes > 0

    @property
    def lengths(self) -> tuple[float, float] | None:  # cell and radius of metrics; None: they fit the data
        return None

    @property
    def heading(self) -> float | None:  # degrees, in which distance is fitness; None: the task has no direction
        return None

    def toward(self, direction: float) -> Self:
        """Return the same task with another direction; itself, if it has none."""
        return self if self.heading is None else msgspec.structs.replace(self, direction=direction)

    def film(self, seed: int, view: View) -> Drawable | Limbed | None:
        """Return an evaluator that draws itself, or returns the limbs of a robot; None: there is nothing to draw."""
        return None

    # Networks: `foreign`, `commands.export`; robots that are controlled step by step: `maml`.
    @property
    def layers(self) -> tuple[int, ...]:  # the sizes of the policy's layers; empty: the task has no policy
        return ()

    @property
    def walkable(self) -> bool:  # whether `walker` returns a robot that is controlled step by step
        return False

    def walker(self, seed: int) -> Walker:
        """Return a robot that is controlled step by step, of a walkable task."""
        raise TypeError(f"{self.label} is not walkable")


def place_numbers(axes: int | None, numbers: int) -> int:
    """Return how many of the last numbers of a behaviour are a place; `axes`: the key, `numbers`: all of them."""
    if axes is not None and axes > numbers:
        raise ConfigError(f"task.axes: the behaviour has {numbers} numbers; expected 0 to {numbers}, got {axes}")
    return axes if axes is not None else numbers if numbers <= 2 else 0
