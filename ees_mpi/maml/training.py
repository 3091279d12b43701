"""One outer iteration of MAML as a generation of a run: rollouts, adaptation, rollouts again, and the TRPO step.

`by_gradient` is the few-shot adaptation of a trained run: the same gradient step, in the requested direction.

Tasks are distributed over the ranks like individuals, and a rank keeps the rollouts of its tasks. With GPUs, the ranks
that drive one share the tasks. An iteration that is interrupted begins again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, TaskError, before_rollouts, collective
from ees_mpi.generation.evaluation import choose_device
from ees_mpi.generation.packing import LEADING, unpack
from ees_mpi.generation.reevaluation import Repeated, as_logged, logged
from ees_mpi.generation.results import AdaptedPolicy, Clock, Record, Unfinished, check_enough, describe, evaluates_mean
from ees_mpi.generation.state import State
from ees_mpi.maml.learning import adaptation_step
from ees_mpi.maml.on_gpu import GpuTasks, opener
from ees_mpi.maml.outer import learning_tasks, outer_step
from ees_mpi.maml.rollouts import Pairs, Sampler, direction_of, draws, maml_of, theta_of
from ees_mpi.noise import stream
from ees_mpi.outcomes import Arrays, Draw, Floats, Outcome, Outcomes, Singles
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.run.file import Run
from ees_mpi.strategy.populations.maml_tasks import MamlTasks


@dataclass
class MamlJob:
    """A run of MAML on this rank; `work`: the rollouts of its tasks."""

    config: Config
    tasks: MamlTasks
    work: "CpuTasks | GpuTasks"
    ranks: Ranks
    described: dict[str, str]  # the device as the session of a run file records it

    def advance(self, state: State) -> tuple[Record, State]:
        """Compute one outer iteration; see `training.EvolutionJob.advance`."""
        clock = Clock()
        drawn = self.tasks.directions(stream(self.config.run.seed, "draw", state.generation))
        groups, center = self.work.evaluate(state, drawn)
        clock.lap("evaluate")
        outcomes, more = self._gather(state.generation, groups, center)
        clock.lap("gather")
        learning = learning_tasks(self.config, state, groups, outcomes.valid)
        step, gradient = outer_step(self.config, state, learning, outcomes.size, self.ranks)
        split = state.mean.shape[1]
        following = State(
            generation=state.generation + 1,
            learned={"mean": step.theta[None, :split].copy()},
            moments={"log_std": step.theta[split:].copy()},
            observations=sum(outcomes.observations, start=state.observations),
        )
        arrays = {
            **describe(self.config, state, drawn, outcomes, self.ranks),
            **more,
            "log_std": state.moments["log_std"],
            "gradient_norm": np.sqrt(np.square(gradient).sum()),
            "divergence": np.array(step.divergence),
            "surrogate_gain": np.array(step.objective),
            "shortened": np.array(float(step.shortened)),
        }
        clock.lap("update")
        return Record(state.generation, arrays, clock.seconds), following

    def _gather(self, generation: int, groups: Sequence[Pairs], center: Outcome | None) -> tuple[Outcomes, Arrays]:
        """Return the results of all tasks on every rank, in order, and further arrays for the run file."""
        size, dim = self.config.population.size, self.config.task.behavior_dim
        total = size + evaluates_mean(self.config, generation)
        width = LEADING + dim + 1 + 1 + 2 * self.config.task.observation_dim
        rows = [row[:width] for group in groups for row in group.rows()]
        if center is not None:
            row = [center.index, center.valid, center.length, center.fitness, *center.behavior]
            rows.append([*row, *[0.0] * (width - len(row))])
        table = np.array(rows, np.float64).reshape(len(rows), width)
        gathered = self.ranks.allgather_by_index(table[:, 0].astype(np.int64), table, total)
        if len(gathered) < total:
            raise Unfinished
        results, observations = gathered[:size, : LEADING + dim], gathered[:size, LEADING + dim + 1 :]
        outcomes = unpack(results, observations[observations[:, 0] > 0])
        check_enough(outcomes, generation)
        middle = gathered[size] if total > size else np.full(LEADING + dim, np.nan)
        before = np.where(outcomes.valid, gathered[:size, LEADING + dim], np.nan)
        mean = {"fitness_of_mean": middle[3], "behavior_of_mean": middle[LEADING : LEADING + dim]}
        gain = (outcomes.fitness - before)[outcomes.valid].mean()
        return outcomes, {**mean, "fitness_before": before, "fitness_gain": gain}

    @classmethod
    def open(cls, config: Config, ranks: Ranks) -> "MamlJob":
        """Open the robots of this rank, on the device that all ranks agree on."""
        if not isinstance(config.population, MamlTasks):
            raise TypeError("expected a population of tasks")
        wanted = (config.task.device if opener(config.task) else "") or "cpu"
        device, drivers = choose_device(config, ranks, wanted)
        with ranks.together(), before_rollouts():
            work = CpuTasks(config, ranks) if device == "cpu" else GpuTasks(config, ranks, drivers)
        return cls(config, config.population, work, ranks, gpus.describe(ranks, drivers))

    def close(self) -> None:
        self.work.close()


class CpuTasks:
    """The tasks of a CPU rank, one after the other: a robot that is controlled step by step, and an evaluator."""

    def __init__(self, config: Config, ranks: Ranks):
        self._config, self._ranks = config, ranks
        walker = config.task.walker(config.run.seed)
        if walker is None:
            raise TypeError("expected a task with a walker")
        self._walker, self._evaluator = walker, config.task.open(config.run.seed)

    def evaluate(self, state: State, drawn: Draw) -> tuple[list[Pairs], Outcome | None]:
        """Return the rollouts of this rank's tasks, and the outcome of the mean, if it is evaluated here."""
        size, statistics = self._config.population.size, state.observation_mean_std()
        total = size + evaluates_mean(self._config, state.generation)
        center: Outcome | None = None
        done: list[Pairs] = []
        for index in self._ranks.hand_out(range(total)):
            if index < size:
                sign = int(drawn.sign[index])
                done.append(self.rollouts(theta_of(state), statistics, state.generation, index, sign))
            else:
                center = self._evaluator.evaluate(index, state.mean[0].copy(), *statistics, False)
        return done, center

    def rollouts(
        self, theta: Singles, statistics: tuple[Floats, Floats], generation: int, index: int, sign: int
    ) -> Pairs:
        """Return the rollouts of one task before and after its adaptation; they depend on the arguments only."""
        config = self._config
        noise, sampled = draws(config, generation, index)
        direction, dim = direction_of(config.task, sign), config.task.behavior_dim
        sampler = Sampler(self._walker, config.task.layers, statistics)
        before = sampler.sample(theta, noise[0], direction, sampled[0], dim)
        if not before.usable:
            return Pairs([index], before, replace(before, length=torch.zeros_like(before.length)))
        theta = adapted_theta(config, theta, before)
        return Pairs([index], before, sampler.sample(theta, noise[1], direction, sampled[1], dim))

    def close(self) -> None:
        self._evaluator.close()
        self._walker.close()


def adapted_theta(config: Config, theta: Singles, before: Any) -> Singles:
    """Return the parameters of a policy after the adaptation step on its rollouts, which are those of one task."""
    settings = maml_of(config)
    steps = before.steps(settings.discount)
    return adaptation_step(config.task.layers, settings.adaptation_lr, torch.tensor(theta)[None], steps)[0].numpy()


def by_gradient(ranks: Ranks, config: Config, state: State, generation: int) -> AdaptedPolicy:
    """Return the policy of a run after the adaptation step on a batch of rollouts; the task has the new direction."""
    task, settings = config.task, maml_of(config)
    with ranks.together():
        walker = task.walker(config.run.seed)
        if walker is None:
            raise ConfigError("adapt: the task of this run has no walker")
    shape, heading = (settings.rollouts, settings.steps(task), task.layers[-1]), task.heading or 0.0
    noise = stream(config.run.seed, f"adapt towards {heading}", generation).standard_normal(shape, np.float32)
    # Every rank makes all rollouts: this takes a few seconds, and all ranks have the same bits.
    sampler, nobody = Sampler(walker, task.layers, state.observation_mean_std()), np.zeros(settings.rollouts, np.bool_)
    before = sampler.sample(theta_of(state), noise, heading, nobody, task.behavior_dim)
    walker.close()
    if not before.usable:
        raise collective(TaskError("the rollouts for the adaptation are not finite"))
    theta, split = adapted_theta(config, theta_of(state), before), state.mean.shape[1]
    return AdaptedPolicy(
        theta[:split].copy(),
        "gradient",
        {"adaptation_lr": settings.adaptation_lr, "adaptation_steps": int(before.length.sum())},
        {
            "rollouts": {"fitness": before.rewards[0].sum(1).numpy(), "behavior": before.final[0].numpy()},
            "policy": {"mean": theta[:split].copy(), "log_std": theta[split:].copy()},
        },
        f"{settings.rollouts} rollouts went {before.total.item():.3f} towards {{direction}} before the gradient step",
    )


def repeat(run: Run, work: CpuTasks, generation: int, index: int) -> Repeated:
    """Repeat the rollouts of one task of a run file."""
    theta = np.concatenate([run["mean"][generation][0], run["log_std"][generation]])
    sign = int(run["sign"][generation][index])
    pair = work.rollouts(theta, run.observation_statistics(generation), generation, index, sign)
    row = np.array(pair.rows(), np.float64)[:, : LEADING + run.config.task.behavior_dim]
    return Repeated(logged(run, generation, index), as_logged(row))
