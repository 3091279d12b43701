"""One outer iteration of MAML as a generation of a run: rollouts, adaptation, rollouts again, and the TRPO step.

Tasks are distributed over the ranks like individuals. A rank keeps the rollouts of its tasks. The ranks gather only the
gradients and Hessian-vector products of the tasks, and every rank adds them in the order of the tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ees_mpi.commands.verify import Repeated, as_logged, logged
from ees_mpi.config import Config
from ees_mpi.contracts import Evaluator, Walker
from ees_mpi.errors import TaskError, collective
from ees_mpi.generation.results import (
    Clock,
    Evaluated,
    Record,
    Unfinished,
    check_enough,
    describe,
    evaluates_mean,
)
from ees_mpi.maml import trpo
from ees_mpi.maml.learning import Learner, LearningTask, Steps, adapt, theta_of
from ees_mpi.maml.pairs import Pair, packed, row_of, sums_of, unpacked
from ees_mpi.maml.rollouts import Gaussian, sample
from ees_mpi.maml.settings import MamlSettings, maml_of
from ees_mpi.maml.tasks import Tasks
from ees_mpi.outcomes import LEADING, Arrays, Draw, Floats, Outcome, Outcomes, Singles, unpack
from ees_mpi.ranks import Ranks
from ees_mpi.state import State
from ees_mpi.store.reader import Run
from ees_mpi.streams import stream

GATHERED = 8192  # parameters that are gathered at a time, so that no rank holds the gradients of all tasks
GRAPH_FLOATS = 10  # numbers that torch keeps per step and unit of the network, for both graphs of a task; measured
KEPT = 1 << 30  # bytes of graphs that a rank keeps; this saves a third or more of the time of its Hessian products


@dataclass
class MamlJob:
    """A run of MAML on this rank: a robot that is controlled step by step, and an evaluator of the mean."""

    config: Config
    settings: MamlSettings
    tasks: Tasks
    evaluator: Evaluator
    walker: Walker
    ranks: Ranks
    evaluated: Evaluated[Pair]
    device: str = "cpu"

    def advance(self, state: State, known: Mapping[int, Pair]) -> tuple[Record, State]:
        """Compute one outer iteration; see `training.EvolutionJob.advance`."""
        clock = Clock()
        drawn = self.tasks.directions(stream(self.config.run.seed, "draw", state.generation))
        pairs = self.evaluated.begin(state.generation, known, self.ranks)
        center = self._evaluate(state, drawn, known, pairs)
        clock.lap("evaluate")
        outcomes, more = self._gather(state.generation, pairs, center)
        clock.lap("gather")
        step, gradient = self._step(state, pairs, outcomes.valid)
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
            "objective_gain": np.array(step.objective),
            "shortened": np.array(step.shortened),
        }
        clock.lap("update")
        return Record(state.generation, arrays, clock.seconds), following

    @classmethod
    def open(cls, config: Config, ranks: Ranks) -> "MamlJob":
        """Open the robots of this rank."""
        settings, tasks = maml_of(config), config.population
        if not isinstance(tasks, Tasks):
            raise TypeError("expected a population of tasks")
        with ranks.together():
            seed = config.run.seed
            walker = config.task.walker(seed)
            if walker is None:
                raise TypeError("expected a task with a walker")
            return cls(config, settings, tasks, config.task.open(seed), walker, ranks, Evaluated())

    def rejoin(self) -> None:
        """Do nothing: each remaining rank keeps its robots."""

    def close(self) -> None:
        """Release the robots."""
        self.evaluator.close()
        self.walker.close()

    def rollouts(self, policy: Gaussian, generation: int, index: int, sign: int) -> Pair:
        """Return the rollouts of one task before and after its adaptation; they depend on the arguments only."""
        config, task, settings = self.config, self.config.task, self.settings
        shape = (2, settings.rollouts, settings.steps(task), task.layers[-1])
        noise = stream(config.run.seed, f"actions of task {index}", generation).standard_normal(shape, np.float32)
        chance = stream(config.run.seed, f"observe task {index}", generation).random(shape[:2])
        sampled = chance < task.observation_share
        direction = (task.heading or 0.0) + (0.0 if sign > 0 else 180.0)
        before = sample(self.walker, policy, noise[0], direction, sampled[0], task.behavior_dim)
        if not before.usable:
            return Pair(before, replace(before, length=np.zeros_like(before.length)))
        adapted = adapt(policy, before, settings)
        after = sample(self.walker, adapted, noise[1], direction, sampled[1], task.behavior_dim)
        return Pair(before, after)

    def _evaluate(self, state: State, drawn: Draw, known: Mapping[int, Pair], pairs: dict[int, Pair]) -> Outcome | None:
        """Add the rollouts of this rank's tasks to `pairs`; return the outcome of the mean, if it is evaluated here."""
        size = self.config.population.size
        total = size + evaluates_mean(self.config, state.generation)
        missing = [index for index in range(total) if index not in known]
        center: Outcome | None = None
        policy = Gaussian.of_state(self.config.task.layers, state)
        for index in self.ranks.deal(missing, state.generation):
            if index < size:
                pairs[index] = self.rollouts(policy, state.generation, index, int(drawn.sign[index]))
            else:
                center = self.evaluator.evaluate(index, state.mean[0].copy(), *state.observation_mean_std(), False)
        return center

    def _gather(self, generation: int, pairs: dict[int, Pair], center: Outcome | None) -> tuple[Outcomes, Arrays]:
        """Return the results of all tasks on every rank, in order, and further arrays for the run file."""
        size, dim = self.config.population.size, self.config.task.behavior_dim
        total = size + evaluates_mean(self.config, generation)
        sums = 1 + 2 * self.config.task.observation_dim
        width = LEADING + dim + 1 + sums
        rows = [(*row_of(index, pair), pair.before.total, *sums_of(pair)[:sums]) for index, pair in pairs.items()]
        if center is not None:
            row = [center.index, center.valid, center.length, center.fitness, *center.behavior]
            rows.append((*row, *[0.0] * (width - len(row))))
        table = np.array(rows, np.float64).reshape(len(rows), width)
        gathered = self.ranks.gather_by_index(table[:, 0].astype(np.int64), table, total)
        if len(gathered) < total:
            raise Unfinished(self._all_rows(pairs), np.zeros((0, 1)))
        found, observations = gathered[:size, : LEADING + dim], gathered[:size, LEADING + dim + 1 :]
        outcomes = unpack(found, observations[observations[:, 0] > 0])
        check_enough(outcomes, generation)
        middle = gathered[size] if total > size else np.full(LEADING + dim, np.nan)
        before = np.where(outcomes.valid, gathered[:size, LEADING + dim], np.nan)
        mean = {"mean_fitness": middle[3], "mean_behavior": middle[LEADING : LEADING + dim]}
        return outcomes, {**mean, "fitness_before": before}

    def _step(self, state: State, pairs: dict[int, Pair], valid: NDArray[np.bool_]) -> tuple[trpo.Step, Floats]:
        """Take the outer step with the means over the tasks, the same on every rank; return it and the gradient."""
        settings = self.settings
        learner = Learner(self.config.task.layers, settings.adaptation_lr)
        theta = theta_of(state.mean[0], state.moments["log_std"])
        tasks: dict[int, LearningTask] = {}
        graph = graph_bytes(self.config)
        for index in sorted(pairs):
            if valid[index]:
                before = Steps.of(pairs[index].before, settings.discount)
                after = Steps.of(pairs[index].after, settings.discount)
                tasks[index] = LearningTask(learner, theta, before, after, keep=(len(tasks) + 1) * graph <= KEPT)
        mean = Mean(self.ranks, list(tasks))
        gradient = mean.of([task.gradient() for task in tasks.values()], len(theta))
        if not np.isfinite(gradient).all():
            raise collective(TaskError("the gradient is not finite; the last committed generation is saved"))

        def hessian_product(vector: Floats) -> Floats:
            return mean.of([task.hessian_product(vector) for task in tasks.values()], len(theta))

        def value(candidate: Singles) -> tuple[float, float]:
            objective, divergence = mean.of([task.at(candidate) for task in tasks.values()], 2)
            return float(objective), float(divergence)

        return trpo.step(theta.numpy(), gradient, hessian_product, value, settings), gradient

    def restore(self, partial: Arrays) -> dict[int, Pair]:
        """Return the rollouts that `Unfinished` carried, by index."""
        task = self.config.task
        shape = (self.settings.rollouts, self.settings.steps(task))
        return unpacked(partial["rows"], shape, task.layers[0], task.layers[-1], task.behavior_dim)

    def pool(self, done: Mapping[int, Pair]) -> dict[int, Pair]:
        """Return on every rank, by index, the rollouts of all ranks; several ranks may have the same."""
        return self.restore({"rows": self._all_rows(done)})

    def _all_rows(self, pairs: Mapping[int, Pair]) -> NDArray[np.uint8]:
        """Return the rollouts of all ranks as rows of bytes."""
        # Bytes are gathered as one flat array, because a rank without rollouts does not know the length of a row.
        count = int(self.ranks.gather(np.array([len(pairs)]), counts=[1] * self.ranks.size).sum())
        return self.ranks.gather(packed(pairs).reshape(-1)).reshape(count, -1 if count else 0)


class Mean:
    """Computes means over the tasks of all ranks, summed in the order of the tasks."""

    def __init__(self, ranks: Ranks, mine: list[int]):
        self._ranks = ranks
        self._counts = ranks.gather(np.array([len(mine)]), counts=[1] * ranks.size).tolist()
        self._order = np.argsort(ranks.gather(np.array(mine, np.int64), self._counts))

    def of(self, vectors: list[Floats], size: int) -> Floats:
        """Return the mean [size] on every rank; `vectors`: one for each of this rank's tasks, in their order."""
        rows = np.array(vectors, np.float64).reshape(len(vectors), size)
        total = np.zeros(size)
        for low in range(0, size, GATHERED):
            part = slice(low, low + GATHERED)
            for row in self._ranks.gather(rows[:, part], self._counts)[self._order]:
                total[part] += row
        return total / len(self._order)


def graph_bytes(config: Config) -> int:
    """Return the bytes of the graphs that torch keeps for one task."""
    settings = maml_of(config)
    return settings.rollouts * settings.steps(config.task) * sum(config.task.layers) * GRAPH_FLOATS * 4


class MamlRepeater:
    """Repeats the rollouts of a run file."""

    def __init__(self, run: Run):
        self._run, self._job = run, MamlJob.open(run.config, Ranks())

    def repeat(self, generation: int, index: int) -> Repeated:
        """Repeat the rollouts of one task."""
        run = self._run
        mean, log_std = run["mean"][generation][0], run["log_std"][generation]
        policy = Gaussian.of(run.config.task.layers, mean, log_std, *run.observation_statistics(generation))
        pair = self._job.rollouts(policy, generation, index, int(run["sign"][generation][index]))
        return Repeated(logged(run, generation, index), as_logged(np.array([row_of(index, pair)], np.float64)))

    def close(self) -> None:
        """Release the robots."""
        self._job.close()
