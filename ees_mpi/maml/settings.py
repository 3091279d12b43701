"""Section `maml` of a config with `method = "maml"`: the adaptation step and the outer TRPO step."""

import importlib.util
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.outcomes import Singles
from ees_mpi.policies import parameter_count
from ees_mpi.registry import Part

Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Maml(Part, frozen=True):
    """What MAML is set up with; it takes the places of both the objective and the optimizer."""

    rollouts: Count = 10  # in a batch: one before and one after the adaptation of each task
    horizon: Count | None = None  # steps of a rollout while learning; the task's where not given
    adaptation_lr: Positive = 0.1
    discount: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.99
    initial_std: Positive = 1.0  # of the actions, before anything is learned
    kl_bound: Positive = 0.01
    cg_iterations: Count = 10
    cg_damping: Annotated[float, msgspec.Meta(ge=0)] = 1e-5
    line_search_steps: Count = 15
    line_search_ratio: Share = 0.8

    headline: ClassVar[str] = "fitness_mean"

    def rehearse(self, size: int, behavior_dim: int) -> None:
        """Refuse to learn where torch is missing; what was learned can be sampled without."""
        if importlib.util.find_spec("torch") is None:
            raise MissingExtra("method = \"maml\" needs torch: pip install 'ees_mpi[torch]'")

    def warning(self, arrays: Mapping[str, Any]) -> str | None:
        """Say so where an iteration found nothing better."""
        if arrays["shortened"] >= 0:
            return None
        return (
            "the line search found no better policy within the KL bound in one iteration or more; nothing was learned"
        )

    def start(self, actions: int) -> dict[str, Singles]:
        """Return what is learned beside the mean: the log standard deviation of each action."""
        return {"log_std": np.full(actions, np.log(self.initial_std), np.float32)}

    def steps(self, task: Any) -> int:
        """Return how long rollouts are while learning."""
        return int(min(self.horizon or task.steps, task.steps))


def check_task(task: Any, name: str) -> None:
    """Refuse a task that cannot be walked step by step: without a reward at each step there is no policy gradient."""
    expected = "expected cheetah, ant, gymnasium with behavior final_x or final_xy, or a custom task with walker(seed)"
    if not callable(getattr(task, "walker", None)):
        raise ConfigError(f'task {name} has no reward at each step, which method = "maml" needs; {expected}')
    missing = [name for name in ("layers", "steps") if not hasattr(task, name)]
    if missing:
        raise ConfigError(f'task {name} has no {missing[0]}, which method = "maml" needs: a policy to act with')
    if parameter_count(task.layers) != task.parameters or task.observation_dim not in (0, task.layers[0]):
        raise ConfigError(
            f"task {name}: a policy of layers {list(task.layers)} has {parameter_count(task.layers)} parameters and "
            f"{task.layers[0]} observations; the task has {task.parameters} and normalises {task.observation_dim}"
        )
    if getattr(task, "fitness", "behavior") == "reward":
        raise ConfigError('task.fitness: method = "maml" is rewarded for distance; expected "behavior", got "reward"')
    if getattr(task, "behavior_steps", ()):
        raise ConfigError('task.behavior_steps: method = "maml" looks at final positions only; leave it out')
    if name == "custom":
        _try_walker(task)


def _try_walker(task: Any) -> None:
    """Lead a walker of the user's own for one step, and look at what comes back."""
    observations, actions = task.layers[0], task.layers[-1]
    try:
        walker = task.walker(0)
        first = walker.reset()
        following, _ = walker.step(np.zeros(actions, np.float32))
        shapes = {np.shape(seen) for seen in (first, following)}
        axes = len(tuple(walker.position))
        walker.close()
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"task.function: its walker cannot be led: {error}; expected an ees_mpi.tasks.Walker"
        ) from None
    if shapes != {(observations,)}:
        raise ConfigError(f"task.function: its walker observes {shapes}; expected {observations} numbers")
    if axes != task.behavior_dim:
        raise ConfigError(f"task.function: its walker's position has {axes} numbers; expected {task.behavior_dim}")
