"""The contracts of parts: Protocols of policies, populations, optimizers and methods; base classes in `parts`.

A config section names a member of one of these families and holds its settings; see `registry.Part`. Users add their
own members with `name = "custom"`, and their own network with `task.policy`; see `docs/plugins.md`. The Protocols
Own... have the members that a user must write. Letters in shapes: N individuals, B numbers of a behaviour,
O observations, A actions, K means, D parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from ees_mpi.contracts.evaluation import BatchEvaluator as BatchEvaluator
from ees_mpi.contracts.evaluation import Closable as Closable
from ees_mpi.contracts.evaluation import Drawable as Drawable
from ees_mpi.contracts.evaluation import Evaluator as Evaluator
from ees_mpi.contracts.evaluation import Limbed as Limbed
from ees_mpi.contracts.evaluation import NoisyWalks as NoisyWalks
from ees_mpi.contracts.evaluation import Pixels as Pixels
from ees_mpi.contracts.evaluation import RowsEvaluator as RowsEvaluator
from ees_mpi.contracts.evaluation import View as View
from ees_mpi.contracts.evaluation import Walked as Walked
from ees_mpi.contracts.evaluation import Walker as Walker
from ees_mpi.contracts.parts import Memory as Memory
from ees_mpi.contracts.parts import Objective as Objective
from ees_mpi.contracts.parts import Population as Population
from ees_mpi.contracts.parts import Rows as Rows
from ees_mpi.contracts.parts import Say as Say
from ees_mpi.contracts.parts import Step as Step
from ees_mpi.contracts.parts import Task as Task
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Field, Floats, Singles
from ees_mpi.ranks import Ranks


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


class OwnOptimizer(Protocol):
    """Moves the learned arrays along their gradients: `Optimizer(**settings)`."""

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments; change nothing in place."""


class Optimizer(OwnOptimizer, Protocol):
    """An optimizer with its check, which is that of `registry.Part`."""

    def check(self) -> None: ...


class Method(Protocol):
    """How a run learns: the settings of its config sections, and its arrays in the run file."""

    name: ClassVar[str]  # `method` of the config
    own_sections: ClassVar[Mapping[str, Any]]  # the config sections of the method: a family of parts, or a struct
    fields: ClassVar[Mapping[str, Field]]  # arrays that each generation has in addition; a run has all or none
    inherited: ClassVar[tuple[str, ...]]  # moments that a run takes from the run that it starts from; logged, too

    @property
    def algorithm(self) -> str: ...  # what the run optimises: the name of its objective, or of the method
    @property
    def headline(self) -> str: ...  # the metric that progress lines show
    @property
    def own_values(self) -> Sequence[str]: ...  # the names of the user's own objectives, whose values are logged
    @property
    def bandwidth(self) -> float: ...  # of the kernel of the logged entropy
    @property
    def uses_torch(self) -> bool: ...  # whether the bits depend on torch
    @property
    def rollouts(self) -> int: ...  # of one row of a generation
    @property
    def of_offspring(self) -> "Method": ...  # the method of a sample of offspring, which do not adapt

    @classmethod
    def build(cls, sections: Mapping[str, Any]) -> Self:
        """Read the config sections of the method."""

    def sections(self) -> Mapping[str, Any]:
        """Return the config sections of the method as plain tables."""

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if the method cannot work with a task and a population."""

    def try_out(self, task: Task, population: Population) -> None:
        """Raise a ConfigError or MissingExtra if the method cannot train with them on this machine."""

    def moments(self, task: Task, learned: Arrays) -> Arrays:
        """Return the moments before the first generation."""

    def file_axes(self, task: Task, population: Population) -> Mapping[str, int]:
        """Return the sizes of further axes of the run file."""

    def warning(self, arrays: Arrays) -> str | None:
        """Return a warning about a generation, if there is one."""
