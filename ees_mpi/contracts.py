"""The contracts of parts: Protocols of evaluators, policies, optimizers and methods; base classes of the other parts.

A config section names a member of a family and holds its settings; see `registry.Part`. Users add their own members
with `name = "custom"`, and their own network with `task.policy`; see `docs/plugins.md`. The Protocols ...Plugin have
the members that a user must write. A base class has all members, with the defaults that most parts share. Letters in
shapes: N individuals, B numbers of a behaviour, O observations, A actions, K means, D parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Batch, Draw, Field, Floats, Outcome, Outcomes, Singles, Walked
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Part

Pixels = NDArray[np.uint8]  # [height, width, 3]
Memory = Arrays  # the arrays that an objective carries from one generation to the next
Say = Callable[[str], None]  # prints a line for the user


class Closable(Protocol):
    """Holds resources, which `close` releases: a physics client, an environment, the memory of a GPU."""

    def close(self) -> None: ...


class Evaluator(Closable, Protocol):
    """Evaluates individuals, one at a time. The outcome depends on the arguments only, never on earlier rollouts."""

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; `observe`: also return the sums of its observations."""


@runtime_checkable
class RowsEvaluator(Evaluator, Protocol):
    """Evaluates several individuals in one call on a CPU. Their bits may depend on the other rows of the call.

    So the rows of a call are fixed by index: individuals k * rows to (k + 1) * rows - 1, and the mean alone.
    """

    rows: int  # individuals in a call, at most

    def evaluate_rows(self, index: Sequence[int], parameters: Singles) -> list[Outcome]:
        """Roll out individuals [n, D]; return their outcomes in this order."""


class BatchEvaluator(Closable, Protocol):
    """Evaluates many individuals at once, on a GPU; see `Task.repeats_on_gpu`."""

    capacity: int  # individuals at once; a larger batch is evaluated in several passes

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        """Roll out all individuals of a batch; return their outcomes in the order of the batch."""


@dataclass(frozen=True)
class View:
    """The camera of a film: the size of its pictures in pixels."""

    width: int = 320
    height: int = 240


@runtime_checkable
class Placed(Evaluator, Protocol):
    """An evaluator that says where a rollout is, so that the trails of several rollouts can be drawn together."""

    on_step: Callable[[int], None] | None  # called with the number of finished steps, from 0 on
    step_seconds: float  # simulated seconds of one step

    def place(self) -> tuple[float, ...]:
        """Return the present position of the robot, as its behaviour counts it; empty if the task has none."""


class Drawable(Placed, Protocol):
    """An evaluator that can be filmed: its outcomes have the same bits as those of `Task.open`."""

    def picture(self) -> Pixels:
        """Draw the present moment; its size may differ from the requested one."""


@runtime_checkable
class Limbed(Placed, Protocol):
    """An evaluator of robots that returns their limbs, so that several robots can be drawn together."""

    def limbs(self) -> Floats:
        """Return the limbs at the present moment, [n, 7]: both ends of the axis of a capsule, and its radius."""


class Walker(Closable, Protocol):
    """A robot that is controlled step by step. MAML learns from it."""

    @property
    def position(self) -> Sequence[float]: ...  # [B]; the behaviour is the final position

    def reset(self) -> Singles:
        """Return to the start, always the same one, and observe."""

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""


class NoisyWalks(Closable, Protocol):
    """Robots on a GPU that walk with noisy actions, all at once. MAML learns from them."""

    device: str  # as torch names it

    def walk(
        self,
        parameters: Any,
        stds: Any,
        noise: Singles,
        sampled: NDArray[np.bool_],
        statistics: tuple[Floats, Floats],
    ) -> Walked:
        """Roll out policies [N, D] with action noise [N, R, T, A] times stds [N, A]; see `Walked` for the results.

        parameters, stds: on the device; sampled: [N, R]; statistics: mean and standard deviation of the observations
        """


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

    def open(self, seed: int) -> Evaluator:
        """Return an evaluator for this rank; `seed`: the run's."""


class Task(Part, frozen=True):
    """A task without observations, network, position or direction.

    A subclass defines the members of `TaskPlugin`, which come first, and overrides the others as needed. Members that
    no subclass computes are attributes.
    """

    steps = 1  # of a rollout, at most
    deterministic = True  # whether the outcome of a rollout can be repeated bit by bit
    repeats_on_gpu = False  # whether it can also be repeated bit by bit on the same kind of GPU
    rollouts = 1  # of an individual, whose outcome is their mean
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
    def axes(self) -> int:  # how many of the last behaviour numbers are a place; 0: none is
        return 0

    def axes_of(self, behavior_dim: int) -> int:
        """Return `axes` of behaviours of this length, which a run file knows: no rollout is needed to find it."""
        return self.axes

    @property
    def begins_at_origin(self) -> bool:  # whether places are those of a robot: final x and y, from the start at 0 on
        return self.axes > 0

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

    @property
    def reset_seed(self) -> int | None:  # of the start of every rollout; None: the run's seed
        return None

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts; `seed`: the run's."""
        return seed if self.reset_seed is None else self.reset_seed

    @property
    def starts(self) -> str | None:  # own, common or fixed; None: not set (`generation/rollouts.py`)
        return None

    @property
    def varied_starts(self) -> bool:  # whether two seeds are known to give two starts
        return False

    @property
    def common_starts(self) -> bool:  # whether all individuals of a generation have the same starts
        return self.starts in ("common", "fixed")

    def starting_with(self, reset_seed: int) -> Self:
        """Return the same task with another seed for the start of its rollouts."""
        return msgspec.structs.replace(self, reset_seed=reset_seed)

    def toward(self, direction: float) -> Self:
        """Return the same task with another direction; itself, if it has none."""
        return self if self.heading is None else msgspec.structs.replace(self, direction=direction)

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
    def starts(self) -> int:  # of each individual that it needs, at least
        return 1

    def try_out(self, size: int, behavior_dim: int) -> None:
        """Find errors that appear only when the objective is computed, before the run file is touched."""

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory after a generation, without computing weights."""
        return memory


class PopulationPlugin(Protocol):
    """Draws individuals around its learned arrays, and turns weights into a gradient for each of those arrays.

    The learned arrays are `mean` [K, D] and whatever else it learns. `Population(size, std, components, **settings)`.
    """

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the individuals of a generation."""

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        """Return the parameters [D] of one individual."""

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of each learned array; called on all ranks together."""


class Rows(Part, frozen=True):
    """The rows of a generation in the run file: individuals of a population, or those of another method."""

    row_name = "individual"  # of a row of the run file: "individual", "task"
    has_individuals = True  # whether a row is an individual, which can be rebuilt
    size = 0  # N
    std = 0.0
    components = 1  # K
    antithetic = False  # whether individuals come in pairs of opposite sign
    isotropic = True  # whether an individual is mean + sign * std * noise, with one std for all
    learns_std = False  # whether each parameter has a learned std, which `stds` returns

    def learned(self, means: Singles) -> Arrays:
        """Return the learned arrays before the first generation, from initial means [K, D]."""
        return {"mean": means}

    def clip(self, learned: Arrays) -> Arrays:
        """Return the learned arrays after a step, within their limits; a mean has none."""
        return learned

    def stds(self, learned: Arrays) -> Singles:
        """Return the std [D] of each parameter, of a population that learns them."""
        raise NotImplementedError

    def offspring(self, count: int, std: float | None) -> "Population":
        """Return the population of `count` independent offspring of the same means."""
        raise NotImplementedError

    def warning(self, learned: Arrays) -> str | None:
        """Return a warning about the learned arrays, if there is one."""
        return None


class Population(Rows, frozen=True):
    """Draws individuals, and turns weights into a gradient; a subclass defines the members of `PopulationPlugin`."""

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the individuals of a generation."""
        raise NotImplementedError

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        """Return the parameters [D] of one individual."""
        raise NotImplementedError

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of each learned array; called on all ranks together."""
        raise NotImplementedError


class OptimizerPlugin(Protocol):
    """Moves the learned arrays along their gradients: `Optimizer(**settings)`."""

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments; change nothing in place."""


class Optimizer(OptimizerPlugin, Protocol):
    """An optimizer with its check, which is that of `registry.Part`."""

    def check(self) -> None: ...


# The names of these Protocols up to version 0.2.0.
OwnTask, OwnPolicy, OwnPopulation, OwnOptimizer = TaskPlugin, PolicyPlugin, PopulationPlugin, OptimizerPlugin


class Method(Protocol):
    """How a run learns: the settings of its config sections, and its arrays in the run file."""

    name: ClassVar[str]  # `method` of the config
    method_sections: ClassVar[Mapping[str, Any]]  # the config sections of the method: a family of parts, or a struct
    fields: ClassVar[Mapping[str, Field]]  # arrays that each generation has in addition; a run has all or none
    inherited: ClassVar[tuple[str, ...]] = ()  # moments that a run takes from the run that it starts from; logged, too

    @property
    def algorithm(self) -> str: ...  # what the run optimises: the name of its objective, or of the method
    @property
    def headline(self) -> str: ...  # the metric that progress lines show
    @property
    def plugin_objectives(self) -> Sequence[str]: ...  # the names of the user's own objectives, whose values are logged
    @property
    def bandwidth(self) -> float: ...  # of the kernel of the logged entropy
    @property
    def uses_torch(self) -> bool: ...  # whether the bits depend on torch

    @property
    def rollouts(self) -> int:  # of one row of a generation
        return 1

    @property
    def retired(self) -> str:  # the setting of a part that older versions had; empty: there is none
        return ""

    @property
    def of_offspring(self) -> "Method":  # the method of a sample of offspring, which do not adapt
        return self

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
        return None
