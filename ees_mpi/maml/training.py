"""One outer iteration of MAML as a generation of a run: rollouts, adaptation, rollouts again, and the TRPO step.

Tasks are distributed over the ranks like individuals, and a rank keeps the rollouts of its tasks. With GPUs, the ranks
that drive one share the tasks. Rollouts on a GPU happen once: an iteration that is interrupted there begins again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError, before_rollouts
from ees_mpi.generation.evaluation import choose_device, describe_device
from ees_mpi.generation.repeats import Repeated, as_logged, logged
from ees_mpi.generation.results import (
    Clock,
    Evaluated,
    Record,
    Unfinished,
    check_enough,
    describe,
    evaluates_mean,
)
from ees_mpi.generation.state import State
from ees_mpi.maml.on_cpu import CpuTasks
from ees_mpi.maml.on_gpu import GpuTasks, opener
from ees_mpi.maml.outer import outer_step
from ees_mpi.maml.rollouts import Gaussian, Pair, packed, row_of, stacked, unpacked
from ees_mpi.maml.settings import Tasks, maml_of
from ees_mpi.noise import stream
from ees_mpi.outcomes import LEADING, Arrays, Outcome, Outcomes, unpack
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run


@dataclass
class MamlJob:
    """A run of MAML on this rank; `work`: the rollouts and derivatives of its tasks."""

    config: Config
    tasks: Tasks
    work: CpuTasks | GpuTasks
    ranks: Ranks
    evaluated: Evaluated[Pair]
    described: dict[str, str]  # the device as the session of a run file records it

    def advance(self, state: State, known: Mapping[int, Pair]) -> tuple[Record, State]:
        """Compute one outer iteration; see `training.EvolutionJob.advance`."""
        clock = Clock()
        drawn = self.tasks.directions(stream(self.config.run.seed, "draw", state.generation))
        mine = self.evaluated.begin(state.generation, known, self.ranks)
        center = self.work.evaluate(state, drawn, known, mine)
        clock.lap("evaluate")
        outcomes, more = self._gather(state.generation, mine, center)
        clock.lap("gather")
        learning = self.work.learning(state, mine, outcomes.valid)
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
            "objective_gain": np.array(step.objective),
            "shortened": np.array(step.shortened),
        }
        clock.lap("update")
        return Record(state.generation, arrays, clock.seconds, self._log(state.generation, mine)), following

    @classmethod
    def open(cls, config: Config, ranks: Ranks) -> "MamlJob":
        """Open the robots of this rank, on the device that all ranks agree on."""
        if not isinstance(config.population, Tasks):
            raise TypeError("expected a population of tasks")
        wanted = (config.task.device if opener(config.task) else "") or "cpu"
        device, drivers = choose_device(config, ranks, wanted)
        with ranks.together(), before_rollouts():
            work = CpuTasks(config, ranks) if device == "cpu" else GpuTasks(config, ranks, drivers)
        return cls(config, config.population, work, ranks, Evaluated(), describe_device(ranks, device, drivers))

    @property
    def device(self) -> str:
        """The device of the rollouts and of the update: "cpu" or "cuda"."""
        return self.work.device

    def rejoin(self) -> None:
        """Prepare for the ranks that are left after others were lost."""
        self.work.rejoin()

    def close(self) -> None:
        """Release the robots."""
        self.work.close()

    def _log(self, generation: int, mine: Mapping[int, Pair]) -> Arrays:
        """Return the rollouts of all tasks if this iteration is logged; else nothing."""
        if generation not in maml_of(self.config).log_iterations:
            return {}
        return stacked(self.pool(self.work.pairs(mine)))

    def _gather(self, generation: int, mine: Mapping[int, Pair], center: Outcome | None) -> tuple[Outcomes, Arrays]:
        """Return the results of all tasks on every rank, in order, and further arrays for the run file."""
        size, dim = self.config.population.size, self.config.task.behavior_dim
        total = size + evaluates_mean(self.config, generation)
        sums = 1 + 2 * self.config.task.observation_dim
        width = LEADING + dim + 1 + sums
        rows = [row[:width] for row in self.work.rows(mine)]
        if center is not None:
            row = [center.index, center.valid, center.length, center.fitness, *center.behavior]
            rows.append([*row, *[0.0] * (width - len(row))])
        table = np.array(rows, np.float64).reshape(len(rows), width)
        gathered = self.ranks.allgather_by_index(table[:, 0].astype(np.int64), table, total)
        if len(gathered) < total:
            raise Unfinished(self._all_rows(mine), np.zeros((0, 1)))
        results, observations = gathered[:size, : LEADING + dim], gathered[:size, LEADING + dim + 1 :]
        outcomes = unpack(results, observations[observations[:, 0] > 0])
        check_enough(outcomes, generation)
        middle = gathered[size] if total > size else np.full(LEADING + dim, np.nan)
        before = np.where(outcomes.valid, gathered[:size, LEADING + dim], np.nan)
        mean = {"mean_fitness": middle[3], "mean_behavior": middle[LEADING : LEADING + dim]}
        return outcomes, {**mean, "fitness_before": before}

    def restore(self, partial: Arrays) -> dict[int, Pair]:
        """Return the rollouts that `Unfinished` carried, by index."""
        task = self.config.task
        shape = (maml_of(self.config).rollouts, maml_of(self.config).steps(task))
        with suppress(ValueError):  # a row has another length
            pairs = unpacked(partial["rows"], shape, task.layers[0], task.layers[-1], task.behavior_dim)
            if pairs.keys() <= set(range(self.config.population.size + 1)):
                return pairs
        raise RunFileError("the file has rollouts of an interrupted generation that are not those of its config")

    def pool(self, done: Mapping[int, Pair]) -> dict[int, Pair]:
        """Return on every rank, by index, the rollouts of all ranks; several ranks may have the same."""
        return self.restore({"rows": self._all_rows(done)})

    def _all_rows(self, pairs: Mapping[int, Pair]) -> NDArray[np.uint8]:
        """Return the rollouts of all ranks as rows of bytes."""
        # Bytes are gathered as one flat array, because a rank without rollouts does not know the length of a row.
        count = int(self.ranks.allgather(np.array([len(pairs)]), counts=[1] * self.ranks.size).sum())
        return self.ranks.allgather(packed(pairs).reshape(-1)).reshape(count, -1 if count else 0)


class MamlRepeater:
    """Repeats the rollouts of a run file."""

    def __init__(self, run: Run):
        self._run, self._work = run, CpuTasks(run.config, Ranks())

    def repeat(self, generation: int, index: int) -> Repeated:
        """Repeat the rollouts of one task."""
        run = self._run
        mean, log_std = run["mean"][generation][0], run["log_std"][generation]
        policy = Gaussian.of(run.config.task.layers, mean, log_std, *run.observation_statistics(generation))
        pair = self._work.rollouts(policy, generation, index, int(run["sign"][generation][index]))
        return Repeated(logged(run, generation, index), as_logged(np.array([row_of(index, pair)], np.float64)))

    def close(self) -> None:
        """Release the robots."""
        self._work.close()
