"""The method MAML in a config: section `maml`, and the checks of its task. The folder `maml/` does the work."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from ees_mpi.arrays import Arrays, Bandwidth
from ees_mpi.config.methods import Method
from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.policies import CLIP, parameter_count
from ees_mpi.registry import Count, Part, convert, key, part_settings
from ees_mpi.registry.plugins import calling
from ees_mpi.strategy.populations.base import Population
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.base import Task

Positive = Annotated[float, msgspec.Meta(gt=0)]


class MamlSettings(Part, frozen=True):
    """The settings of MAML with TRPO."""

    rollouts: Annotated[Count, key("The rollouts of each batch, before and after adaptation.", "rollouts")] = 10
    horizon: Annotated[Count | None, key("The length of a rollout in training; not set: `task.steps`.", "steps")] = None
    adaptation_lr: Annotated[Positive, key("The learning rate of the gradient step that adapts to a task.")] = 0.1
    discount: Annotated[float, key("The discount of later rewards, per step.", ge=0, le=1)] = 0.99
    initial_std: Annotated[Positive, key("The std of the actions before the first iteration.")] = 1.0
    kl_bound: Annotated[Positive, key("The largest KL divergence of an outer step (TRPO).", "nats")] = 0.01

    def steps(self, task: Task) -> int:
        """Return the number of steps of a rollout during training."""
        return int(min(self.horizon or task.steps, task.steps))


@dataclass(frozen=True)
class Maml(Method):
    """MAML: a row of the run file is a task, the outer step is TRPO."""

    settings: MamlSettings

    name: ClassVar[str] = "maml"
    method_sections: ClassVar[Mapping[str, Any]] = {"maml": MamlSettings}
    algorithm = "maml"
    climbs = "fitness_mean"
    own_objectives = ()
    bandwidth: Bandwidth = "scott"
    uses_torch = True

    @classmethod
    def build(cls, sections: Mapping[str, Any]) -> "Maml":
        return cls(convert(sections["maml"], MamlSettings, "maml"))

    def sections(self) -> dict[str, Any]:
        return {"maml": part_settings(self.settings)}

    @property
    def rollouts(self) -> int:
        """Return the number of rollouts of one task: a batch before and a batch after its adaptation."""
        return 2 * self.settings.rollouts

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if MAML cannot learn the task; offspring learn nothing, and may have several starts."""
        if not population.has_individuals:
            check_task(task)

    def try_out(self, task: Task, population: Population) -> None:
        """Raise an error if torch is missing, or if the population does not consist of tasks."""
        if population.has_individuals:
            raise ConfigError('population.name: method = "maml" learns tasks; expected "tasks"')
        if importlib.util.find_spec("torch") is None:  # sampling offspring works without it
            raise MissingExtra("method = \"maml\" needs torch: pip install 'ees_mpi[torch]'")

    def learned(self, task: Task) -> Arrays:
        """Return the log standard deviation of each action before the first iteration."""
        return {"log_std": np.full(task.layers[-1], np.log(self.settings.initial_std), np.float32)}


def check_task(task: Task) -> None:
    """Raise a ConfigError if a task has no policy, or no reward at each step, which the policy gradient needs."""
    name = TASKS.name_of(task)
    expected = "expected cheetah, ant, mujoco, gymnasium with behavior final_x or final_xy, or custom with walker(seed)"
    for fixed, only in (("policy", ""), ("rollouts", 1), ("on_error", "stop"), ("starts", "fixed")):
        if getattr(task, fixed, None) not in (None, only):
            learns = "learns the built-in network from one start, stops at exceptions, and has maml.rollouts"
            raise ConfigError(f'task.{fixed}: method = "maml" {learns}; leave it out')
    if not task.walkable:
        raise ConfigError(f'task {name} has no reward at each step, which method = "maml" needs; {expected}')
    if not task.layers:
        raise ConfigError(f'task {name} has no layers, so no policy, which method = "maml" needs')
    if parameter_count(task.layers) != task.parameters or task.observation_dim not in (0, task.layers[0]):
        raise ConfigError(
            f"task {name}: a policy of layers {list(task.layers)} has {parameter_count(task.layers)} parameters and "
            f"{task.layers[0]} observations; the task has {task.parameters} and normalises {task.observation_dim}"
        )
    if name == "custom":
        _try_walker(task)
    elif task.heading is None:
        raise ConfigError('task.fitness: method = "maml" is rewarded for distance; expected "behavior", got "reward"')
    elif unlike := getattr(task, "unlike_gpu", ""):
        raise ConfigError(f'method = "maml" learns a tanh network with observations up to {CLIP:g}; leave out {unlike}')
    elif task.behavior_dim != task.axes:
        raise ConfigError('task.behavior_steps: method = "maml" uses final positions only; leave it out')


def _try_walker(task: Task) -> None:
    """Make one step with the walker of a custom task, and check the results."""
    with calling(task.own_code, "the walker"):
        walker: Any = task.walker(0)
        first = walker.reset()
        following, _ = walker.step(np.zeros(task.layers[-1], np.float32))
        shapes = np.shape(first), np.shape(following), np.shape(tuple(walker.position))
        walker.close()
    expected = (task.layers[0],), (task.layers[0],), (task.behavior_dim,)
    if shapes != expected:
        what = "two observations and the position of the walker"
        raise ConfigError(f"{task.own_code}: {what} have the shapes {shapes}; expected {expected}")
