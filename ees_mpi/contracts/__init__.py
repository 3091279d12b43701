"""The Protocols that people implement: tasks, policies, objectives, populations, optimizers. Methods: see `methods`.

A config section names a member of one of these families and holds its settings; see `registry.Part`. Users add their
own members with `name = "custom"`, and their own network with `task.policy`; see `docs/plugins.md`. The Protocols
Own... have the members that a user must write. Letters in shapes: N individuals, B numbers of a behaviour,
O observations, A actions, K means, D parameters.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np

from ees_mpi.contracts.evaluation import BatchEvaluator as BatchEvaluator
from ees_mpi.contracts.evaluation import Closable as Closable
from ees_mpi.contracts.evaluation import Drawable as Drawable
from ees_mpi.contracts.evaluation import Evaluator as Evaluator
from ees_mpi.contracts.evaluation import NoisyWalks as NoisyWalks
from ees_mpi.contracts.evaluation import Pixels as Pixels
from ees_mpi.contracts.evaluation import RowsEvaluator as RowsEvaluator
from ees_mpi.contracts.evaluation import View as View
from ees_mpi.contracts.evaluation import Walked as Walked
from ees_mpi.contracts.evaluation import Walker as Walker
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Floats, Outcomes, Singles
from ees_mpi.ranks import Ranks

Memory = Arrays  # the arrays that an objective carries from one generation to the next
Say = Callable[[str], None]  # prints a line for the user


class Checked(Protocol):
    """A config section. `check` raises a ConfigError if it cannot work; it is called once, before any rank starts."""

    def check(self) -> None: ...


class OwnPolicy(Protocol):
    """A network from observations to actions: `Policy(observations, actions, **task.policy_settings)`."""

    count: int  # D

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean [D]."""

    def load(self, flat: Singles) -> None:
        """Act with these parameters [D] from now on; called before each rollout, so forget the last rollout."""

    def act(self, observation: Singles) -> Singles:
        """Return the action [A] for a normalised observation [O]."""


class Policy(OwnPolicy, Protocol):
    """A network that normalises its observations."""

    def normalise(self, mean: Floats, std: Floats) -> None:
        """See observations as (x - mean) / std, clipped to +-5, from now on."""


class OwnTask(Protocol):
    """Turns parameters into outcomes: `Task(**task.settings)`."""

    @property
    def parameters(self) -> int: ...  # D: the length of an individual
    @property
    def behavior_dim(self) -> int: ...  # B

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean [D]."""

    def open(self, seed: int) -> Evaluator:
        """Return an evaluator for this rank; `seed`: the run's."""


class Task(OwnTask, Checked, Protocol):
    """A task with everything that is optional; `tasks.base.TaskPart` has the defaults."""

    @property
    def observation_dim(self) -> int: ...  # O; 0: observations are not normalised
    @property
    def observation_share(self) -> float: ...  # the share of rollouts that feed the observation statistics
    @property
    def axes(self) -> int: ...  # how many of the last behaviour numbers are the final position; 0: none is
    @property
    def layers(self) -> tuple[int, ...]: ...  # the sizes of the policy's layers; empty: the task has no policy
    @property
    def steps(self) -> int: ...  # of a rollout, at most
    @property
    def heading(self) -> float | None: ...  # degrees, in which distance is fitness; None: the task has no direction
    @property
    def sizes_known(self) -> bool: ...  # False: the task must be opened to know its numbers of parameters and so on

    @property
    def deterministic(self) -> bool: ...  # whether the outcome of a rollout can be repeated bit by bit
    @property
    def rollouts(self) -> int: ...  # of an individual, whose outcome is their mean
    @property
    def own_code(self) -> str: ...  # the user's code that a rollout runs, with its key; empty: none
    @property
    def walkable(self) -> bool: ...  # whether `walker` returns a robot that is controlled step by step
    @property
    def label(self) -> str: ...  # the name that users know: an environment's, a function's; empty: the registered name
    @property
    def in_program(self) -> bool: ...  # whether only the user's own program can evaluate it, and no command
    @property
    def engine(self) -> str: ...  # the name of the physics engine, if the task has a choice of engines; else empty
    @property
    def device(self) -> str | None: ...  # "cpu" or None, "cuda", or "auto": a GPU if every node has one

    def observing(self, share: float) -> Self:
        """Return the task of a new run that sets no `observation_share`; `share`: that of about ten rollouts."""

    def resolved(self) -> Self:
        """Return the task with everything that it reads from other files, for the config in the run file."""

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts; `seed`: the run's."""

    def starting_with(self, reset_seed: int) -> Self:
        """Return the same task with another seed for the start of its rollouts."""

    def toward(self, direction: float) -> Self:
        """Return the same task with another direction."""

    def lacks_for_gpu(self) -> str:
        """Return what this process lacks for evaluating on a GPU; empty: nothing. Imports no torch."""

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchEvaluator:
        """Return a batch evaluator on the first visible GPU; `noise`: the whole table; `wanted`: individuals."""

    def film(self, seed: int, view: View) -> Drawable | None:
        """Return an evaluator that can be filmed; None: there is nothing to draw."""

    def walker(self, seed: int) -> Walker | None:
        """Return a robot that is controlled step by step; None unless the task is walkable."""


class Objective(Checked, Protocol):
    """Turns the outcomes of a generation into one weight per individual. `objectives.base` has the defaults."""

    @property
    def headline(self) -> str: ...  # the metric that progress lines show
    @property
    def label(self) -> str: ...  # the name of the user's function, whose value is logged; empty: a built-in objective
    @property
    def uses_torch(self) -> bool: ...
    @property
    def bandwidth(self) -> float | None: ...  # of its kernel; None: it has no kernel
    @property
    def members(self) -> "Sequence[tuple[float, Objective]]": ...  # (share, objective) of a blend; itself otherwise
    @property
    def remembers(self) -> bool: ...  # whether it has a memory, so that earlier generations matter

    def with_bandwidth(self, bandwidth: float) -> "Objective": ...  # the same objective with another bandwidth

    def rehearse(self, size: int, behavior_dim: int) -> None:
        """Find errors that appear only when the objective is computed, before the run file is touched."""

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N], and the memory for the next generation; called on all ranks together."""

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory after a generation, without computing weights."""

    def value(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> float:
        """Return the value J of the objective itself."""


class OwnPopulation(Protocol):
    """Draws individuals around its learned arrays, and turns weights into a gradient for each of those arrays.

    The learned arrays are `mean` [K, D] and whatever else it learns. `Population(size, std, components, **settings)`.
    """

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the individuals of a generation."""

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        """Return the parameters [D] of one individual."""

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of each learned array; called on all ranks together."""


class Rows(Checked, Protocol):
    """The rows of a generation in the run file: individuals of a population, or those of another method."""

    @property
    def row_name(self) -> str: ...  # of a row of the run file: "individual", "task"
    @property
    def has_individuals(self) -> bool: ...  # whether a row is an individual, which can be rebuilt
    @property
    def size(self) -> int: ...  # N
    @property
    def std(self) -> float: ...
    @property
    def components(self) -> int: ...  # K
    @property
    def antithetic(self) -> bool: ...  # whether individuals come in pairs of opposite sign
    @property
    def isotropic(self) -> bool: ...  # whether an individual is mean + sign * std * noise, with one std for all

    def learned(self, means: Singles) -> Arrays:
        """Return the learned arrays before the first generation, from initial means [K, D]."""

    def held(self, learned: Arrays) -> Arrays:
        """Return the learned arrays after a step, within their limits."""

    def offspring(self, count: int, std: float | None) -> "Population":
        """Return the population of `count` independent offspring of the same means."""

    def warning(self, learned: Arrays) -> str | None:
        """Return a warning about the learned arrays, if there is one."""


class Population(OwnPopulation, Rows, Protocol):
    """A population with everything that is optional."""


class OwnOptimizer(Protocol):
    """Moves the learned arrays along their gradients: `Optimizer(**settings)`."""

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments; change nothing in place."""


class Optimizer(OwnOptimizer, Checked, Protocol):
    """An optimizer with its check."""

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays, std: float = 1.0) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments; `std`: of the population, unless it learns one."""
