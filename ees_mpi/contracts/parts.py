"""The base classes of tasks, objectives and populations: all members, with the defaults that most parts share."""

from collections.abc import Callable, Sequence
from typing import Self

import msgspec
import numpy as np

from ees_mpi.contracts.evaluation import BatchEvaluator, Drawable, Evaluator, View, Walker
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Floats, Outcomes, Singles
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Part

Memory = Arrays  # the arrays that an objective carries from one generation to the next
Say = Callable[[str], None]  # prints a line for the user
Step = Callable[[Arrays, Arrays, Arrays], tuple[Arrays, Arrays]]  # of an optimizer: learned, gradient, moments


class Task(Part, frozen=True):
    """A task without observations, network, position or direction.

    A subclass defines the members of `OwnTask`, which come first, and overrides the others as needed. Members that no
    subclass computes are attributes.
    """

    steps = 1  # of a rollout, at most
    deterministic = True  # whether the outcome of a rollout can be repeated bit by bit
    repeats_on_gpu = False  # whether it can also be repeated bit by bit on the same kind of GPU
    rollouts = 1  # of an individual, whose outcome is their mean
    starts = ""  # of rollouts: own, common or fixed (generation/rollouts.py); empty: the task has no such key
    engine = ""  # the name of the physics engine, if the task has a choice of engines; else empty

    @property
    def parameters(self) -> int:  # D: the length of an individual
        raise NotImplementedError

    @property
    def behavior_dim(self) -> int:  # B
        raise NotImplementedError

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean [D]."""
        raise NotImplementedError

    def open(self, seed: int) -> Evaluator:
        """Return an evaluator for this rank; `seed`: the run's."""
        raise NotImplementedError

    @property
    def observation_dim(self) -> int:  # O; 0: observations are not normalised
        return 0

    @property
    def observation_share(self) -> float:  # the share of rollouts that feed the observation statistics
        return 0.0

    @property
    def axes(self) -> int:  # how many of the last behaviour numbers are the final position; 0: none is
        return 0

    @property
    def layers(self) -> tuple[int, ...]:  # the sizes of the policy's layers; empty: the task has no policy
        return ()

    @property
    def heading(self) -> float | None:  # degrees, in which distance is fitness; None: the task has no direction
        return None

    @property
    def sizes_known(self) -> bool:  # False: the task must be opened to know its numbers of parameters and so on
        return True

    @property
    def own_code(self) -> str:  # the user's code that a rollout runs, with its key; empty: none
        return ""

    @property
    def walkable(self) -> bool:  # whether `walker` returns a robot that is controlled step by step
        return False

    @property
    def label(self) -> str:  # the name that users know: an environment's, a function's; empty: the registered name
        return ""

    @property
    def in_program(self) -> bool:  # whether only the user's own program can evaluate it, and no command
        return False

    @property
    def device(self) -> str | None:  # "cpu" or None, "cuda", or "auto": a GPU if every node has one
        return "cpu"

    def observing(self, share: float) -> Self:
        """Return the task of a new run that sets no `observation_share`; `share`: that of about ten rollouts."""
        return self

    def resolved(self) -> Self:
        """Return the task with everything that it reads from other files, for the config in the run file."""
        return self

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts; `seed`: the run's."""
        return seed

    @property
    def common_starts(self) -> bool:  # whether all individuals of a generation have the same starts
        return self.starts in ("common", "fixed")

    def starting_with(self, reset_seed: int) -> Self:
        """Return the same task with another seed for the start of its rollouts."""
        return msgspec.structs.replace(self, reset_seed=reset_seed)

    def toward(self, direction: float) -> Self:
        """Return the same task with another direction."""
        return msgspec.structs.replace(self, direction=direction)

    def lacks_for_gpu(self) -> str:
        """Return what this process lacks for evaluating on a GPU; empty: nothing. Imports no torch."""
        return "a task that runs on GPUs"

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchEvaluator:
        """Return a batch evaluator on the first visible GPU; `noise`: the whole table; `wanted`: individuals."""
        raise RuntimeError(self.lacks_for_gpu())

    def film(self, seed: int, view: View) -> Drawable | None:
        """Return an evaluator that can be filmed; None: there is nothing to draw."""
        return None

    def walker(self, seed: int) -> Walker | None:
        """Return a robot that is controlled step by step; None unless the task is walkable."""
        return None


class Objective(Part, frozen=True):
    """Turns the outcomes of a generation into one weight per individual; without a kernel and without a memory.

    A subclass defines `weights` and, if it has a label, `value`; and it overrides the other members as needed.
    """

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N], and the memory for the next generation; called on all ranks together."""
        raise NotImplementedError

    def value(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> float:
        """Return the value J of the objective itself, which is logged under its label."""
        raise NotImplementedError

    @property
    def headline(self) -> str:  # the metric that progress lines show
        return "behavior_variance"

    @property
    def label(self) -> str:  # the name of the user's function, whose value is logged; empty: a built-in objective
        return ""

    @property
    def uses_torch(self) -> bool:
        return False

    @property
    def bandwidth(self) -> float | None:  # of its kernel; None: it has no kernel
        return None

    @property
    def members(self) -> "Sequence[tuple[float, Objective]]":  # (share, objective) of a blend; itself otherwise
        return ((1.0, self),)

    @property
    def remembers(self) -> bool:  # whether it has a memory, so that earlier generations matter
        return False

    @property
    def uses_fitness(self) -> bool:
        return False

    @property
    def needs_means(self) -> bool:  # whether it needs a population with the means among its individuals
        return False

    def chances(self, memory: Memory) -> Floats | None:
        """Return the chance [K] of each mean, for a population that chooses one; None: equal ones."""
        return None

    @property
    def starts(self) -> int:  # of each individual that it needs, at least
        return 1

    def try_out(self, size: int, behavior_dim: int) -> None:
        """Find errors that appear only when the objective is computed, before the run file is touched."""

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory after a generation, without computing weights."""
        return memory


class Rows(Part, frozen=True):
    """The rows of a generation in the run file: individuals of a population, or those of another method."""

    row_name = "individual"  # of a row of the run file: "individual", "task"
    has_individuals = True  # whether a row is an individual, which can be rebuilt
    has_means = False  # whether the first K individuals are the means themselves, with sign 0
    size = 0  # N
    std = 0.0
    components = 1  # K
    antithetic = False  # whether individuals come in pairs of opposite sign
    isotropic = True  # whether an individual is mean + sign * std * noise, with one std for all

    def learned(self, means: Singles) -> Arrays:
        """Return the learned arrays before the first generation, from initial means [K, D]."""
        return {"mean": means}

    def clip(self, learned: Arrays) -> Arrays:
        """Return the learned arrays after a step, within their limits; a mean has none."""
        return learned

    def offspring(self, count: int, std: float | None) -> "Population":
        """Return the population of `count` independent offspring of the same means."""
        raise NotImplementedError

    def warning(self, learned: Arrays) -> str | None:
        """Return a warning about the learned arrays, if there is one."""
        return None


class Population(Rows, frozen=True):
    """Draws individuals, and turns weights into a gradient; a subclass defines the members of `OwnPopulation`."""

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the individuals of a generation."""
        raise NotImplementedError

    def choose(self, draw: Draw, chances: Floats | None, generator: np.random.Generator) -> Draw:
        """Return the draw with the mean that was chosen; most populations choose none."""
        return draw

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        """Return the parameters [D] of one individual."""
        raise NotImplementedError

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of each learned array; called on all ranks together."""
        raise NotImplementedError

    def move(self, step: Step, learned: Arrays, gradient: Arrays, moments: Arrays, draw: Draw) -> tuple[Arrays, Arrays]:
        """Return the learned arrays and moments after a step of the optimizer."""
        return step(learned, gradient, moments)
