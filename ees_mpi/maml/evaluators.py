"""The evaluators of MAML: rollouts of tasks before and after their adaptation, on CPUs and on GPUs.

Tasks are distributed over the ranks like individuals, and a rank keeps the rollouts of its tasks (`Found.local`). An
iteration that is interrupted begins again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ees_mpi.arrays import Singles
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, TaskError, before_rollouts, collective
from ees_mpi.generation import LEADING, Found, Outcome, State, Work, gather, pack
from ees_mpi.maml.learning import adaptation_step
from ees_mpi.maml.on_gpu import GpuTasks, opener
from ees_mpi.maml.rollouts import Pairs, Sampler, TaskRollouts, direction_of, draws, maml_of, theta_of
from ees_mpi.noise import stream
from ees_mpi.ranks import Ranks, gpus


def open_maml(config: Config, ranks: Ranks, device: str | None = None) -> "MamlEvaluator":
    """Open the robots of this rank, on the device that all ranks agree on; `device`: in place of the config's."""
    wanted = device or (config.task.device if opener(config.task) else "") or "cpu"
    device, drivers = gpus.choose(ranks, wanted, "", config.task.lacks_for_gpu)
    with ranks.together(), before_rollouts():
        tasks = CpuTasks(config, ranks) if device == "cpu" else GpuTasks(config, ranks, drivers)
    return MamlEvaluator(config, ranks, tasks, gpus.describe(ranks, drivers))


class MamlEvaluator:
    """Makes the rollouts of tasks, and those of the mean; see `run.evaluators.Evaluator`."""

    def __init__(self, config: Config, ranks: Ranks, tasks: "CpuTasks | GpuTasks", described: Mapping[str, str]):
        self._config, self._ranks, self._tasks, self.described = config, ranks, tasks, described
        self._rollouts = config.task.open(config.run.seed)  # of the mean
        self.watch: Callable[[int], object] | None = None

    def evaluate(self, work: Work, wanted: NDArray[np.int64] | None = None) -> Found:
        """Return the outcomes of the wanted tasks, or of all."""
        start, dim = time.perf_counter(), self._config.task.behavior_dim
        wanted = np.arange(len(work.seeds)) if wanted is None else wanted
        pairs: list[Pairs] = []
        means: list[Outcome] = []
        for done in self._tasks.hand_out(work, wanted):
            if isinstance(done, Pairs):
                pairs.append(done)
                if self.watch:
                    self.watch(done.index[-1])
            else:
                means.append(self._rollouts.evaluate(done, work.state.mean[0].copy(), *work.statistics, False))
        evaluated = time.perf_counter()
        before, width = LEADING + dim, LEADING + dim + 1 + len(work.state.observations)
        packed = [row[:width] for pair in pairs for row in pair.rows()]
        table = np.array(packed, np.float64).reshape(len(packed), width)
        rows = np.vstack([table[:, :before], pack(means, dim, 1)])
        sums = np.column_stack([table[:, 0], table[:, before + 1 :]])
        outcomes, of_mean = gather(rows, sums[sums[:, 1] > 0], wanted, work, self._ranks)
        seconds = {"evaluate": evaluated - start, "gather": time.perf_counter() - evaluated}
        return Found(outcomes, of_mean, seconds, pairs)

    def close(self) -> None:
        self._rollouts.close()
        self._tasks.close()


class CpuTasks:
    """The tasks of a CPU rank, one after the other, with a robot that is controlled step by step."""

    def __init__(self, config: Config, ranks: Ranks):
        self._config, self._ranks = config, ranks
        walker = config.task.walker(config.run.seed)
        if walker is None:
            raise TypeError("expected a task with a walker")
        self._walker = walker

    def hand_out(self, work: Work, wanted: NDArray[np.int64]) -> Iterator[Pairs | int]:
        """Yield the rollouts of this rank's tasks; in place of those of the mean its number."""
        for index in self._ranks.hand_out(wanted.tolist()):
            yield index if index >= work.size else self._rollouts(work, index)

    def _rollouts(self, work: Work, index: int) -> Pairs:
        """Return the rollouts of one task before and after its adaptation; they depend on the arguments only."""
        config, theta = self._config, theta_of(work.state)
        noise, sampled = draws(config, work.state.generation, index)
        direction, dim = direction_of(config.task, int(work.draw.sign[index])), config.task.behavior_dim
        sampler = Sampler(self._walker, config.task.layers, work.statistics)
        before = sampler.sample(theta, noise[0], direction, sampled[0], dim)
        if not before.usable:
            return Pairs([index], before, replace(before, length=torch.zeros_like(before.length)))
        theta = adapted_theta(config, theta, before)
        return Pairs([index], before, sampler.sample(theta, noise[1], direction, sampled[1], dim))

    def close(self) -> None:
        self._walker.close()


def adapted_theta(config: Config, theta: Singles, before: TaskRollouts) -> Singles:
    """Return the parameters of a policy after the adaptation step on its rollouts, which are those of one task."""
    settings = maml_of(config)
    steps = before.steps(settings.discount)
    adapted = adaptation_step(config.task.layers, settings.adaptation_lr, torch.tensor(theta)[None], steps)
    return np.asarray(adapted[0].numpy())


class Adapted(NamedTuple):
    """A policy after the adaptation step, and the rollouts before it."""

    theta: Singles
    rollouts: TaskRollouts


def adapt(ranks: Ranks, config: Config, state: State, generation: int) -> Adapted:
    """Adapt the policy of a run to the direction of a task, on a batch of rollouts."""
    task, settings = config.task, maml_of(config)
    with ranks.together():
        walker = task.walker(config.run.seed)
        if walker is None:
            raise ConfigError("adapt: the task of this run has no walker")
    shape, heading = (settings.rollouts, settings.steps(task), task.layers[-1]), task.heading or 0.0
    noise = stream(config.run.seed, f"adapt towards {heading}", generation).standard_normal(shape, np.float32)
    # Every rank makes all rollouts: this takes a few seconds, and all ranks have the same bits.
    sampler, nobody = Sampler(walker, task.layers, state.statistics), np.zeros(settings.rollouts, np.bool_)
    before = sampler.sample(theta_of(state), noise, heading, nobody, task.behavior_dim)
    walker.close()
    if not before.usable:
        raise collective(TaskError("the rollouts for the adaptation are not finite"))
    return Adapted(adapted_theta(config, theta_of(state), before), before)
