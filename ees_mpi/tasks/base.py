"""What all tasks have, and what a task or a network of the user needs."""

from typing import Protocol, Self

import msgspec
import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.registry import Part
from ees_mpi.tasks.rollouts import BatchRollouts, Drawable, Limbed, Rollouts, Say, View, Walker


class PolicyPlugin(Protocol):
    """A network from observations to actions: `Policy(observations, actions, **task.policy_settings)`."""

    count: int  # D

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean [D]."""

    def load(self, flat: Singles) -> None:
        """Act with these parameters [D] from now on; called before each rollout, so forget the last rollout."""

    def act(self, observation: Singles) -> Singles:
        """Return the action [A] for a normalised observation [O]."""


class Policy(PolicyPlugin, Protocol):
    """A network that normalises its observations."""

    def normalise(self, mean: Floats, std: Floats) -> None:
        """See observations as (x - mean) / std, clipped to +-5, from now on."""


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
        """Draw the first mean [D]."""
        raise NotImplementedError

    def open(self, seed: int) -> Rollouts:
        """Return an evaluator for this rank; `seed`: the run's."""
        raise NotImplementedError

    # The rollouts of an individual and their starts: `strategy.evolution`, `run.evaluators`, `run.determinism`.
    steps = 1  # of a rollout, at most
    rollouts = 1  # of an individual, whose outcome is their mean
    deterministic = True  # whether the outcome of a rollout can be repeated bit by bit

    @property
    def on_error(self) -> str:  # what an exception in the user's code does: "stop", or "invalid"
        return "stop"

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

    def starting_with(self, reset_seed: int) -> Self:
        """Return the same task with another seed for the start of its rollouts."""
        return msgspec.structs.replace(self, reset_seed=reset_seed)

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

    @property
    def observation_share(self) -> float:  # the share of rollouts that feed the observation statistics
        return 0.0

    def observing(self, share: float) -> Self:
        """Return the task of a new run that sets no `observation_share`; `share`: that of about ten rollouts."""
        return self

    # The config and the run file: `config`, `run.arrays`, `run.start`; names for users: `commands.info`.
    engine = ""  # the name of the physics engine, if the task has a choice of engines; else empty

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
    def in_program(self) -> bool:  # whether only the user's own program can evaluate it, and no command
        return False

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

    def walker(self, seed: int) -> Walker | None:
        """Return a robot that is controlled step by step; None unless the task is walkable."""
        return None
