"""The evaluator of batches: one rank drives each GPU; the other ranks share the update only.

Outcomes of the paper's robots can be repeated on the same kind of GPU (`Task.repeats_on_gpu`); those of other robots
happen once and are logged.
"""

import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.generation import Batch, Found, Outcome, Work, mean_outcome
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.run.evaluators import Watch, found_of
from ees_mpi.strategy.populations.base import Population
from ees_mpi.tasks.base import BatchRollouts, Say


def choose_device(config: Config, ranks: Ranks, wanted: str) -> tuple[str, dict[int, str]]:
    """Return "cpu" or "cuda", the same on every rank, and which rank drives which GPU."""
    population, cannot = config.population, ""
    if not population.isotropic and not population.learns_std:
        individuals = "individuals mean + sign * std * noise only"
        cannot = f"GPUs evaluate {individuals}, not those of {config.population_name}"
    return gpus.choose(ranks, wanted, cannot, config.task.lacks_for_gpu)


class GpuEvaluator:
    """Evaluates batches on the GPUs that some ranks drive; the other ranks wait, and share the update."""

    def __init__(
        self, config: Config, noise: Noise, ranks: Ranks, drivers: Mapping[int, str], described: Mapping[str, str]
    ):
        self._task, self._population, self._ranks, self._drivers = config.task, config.population, ranks, drivers
        self._start, self.described = config.task.start_seed(config.run.seed), described
        self.watch: Watch | None = None

        def opened(say: Say) -> BatchRollouts:
            share = -(-config.population.size // len(drivers))
            table, rows = noise.row(0, noise.size), share * config.task.rollouts
            return config.task.open_batches(config.run.seed, table, rows, config.population.antithetic, say)

        self._batches = gpus.opened(ranks, drivers, opened)  # None: this rank drives none

    def evaluate(self, work: Work, wanted: NDArray[np.int64] | None = None) -> Found:
        """Return the outcomes of the wanted individuals, or of all; see `Evaluator`."""
        start = time.perf_counter()
        wanted = np.arange(len(work.seeds)) if wanted is None else wanted
        mine: list[Outcome] = []
        if self._batches is not None:
            capacity = max(1, self._batches.capacity // work.seeds.shape[1])
            for part in self._ranks.hand_out_batches(wanted.tolist(), sorted(self._drivers), capacity):
                batch = batch_of(work, np.array(part), self._population, self._start)
                rollouts = self._batches.evaluate_batch(batch, *work.statistics)
                mine += [mean_outcome(rollouts[place :: len(part)]) for place in range(len(part))]
                if self.watch:
                    self.watch(part[-1])
        return found_of(mine, wanted, work, self._task.behavior_dim, self._ranks, start)

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()


def batch_of(work: Work, index: NDArray[np.int64], population: Population, start: int) -> Batch:
    """Describe individuals for a GPU: all from their first start, then all from the next one, and so on.

    start: the seed of the task's own start, which needs no seeds. An unperturbed mean has sign 0.
    """
    seeds = work.seeds[index].T.ravel()
    index = np.tile(index, work.seeds.shape[1])
    perturbed = index < work.size
    offset, sign = np.zeros(len(index), np.int64), np.zeros(len(index), np.int8)
    parent = np.zeros(len(index), np.int32)
    drawn = work.draw.at(index[perturbed])
    offset[perturbed], sign[perturbed], parent[perturbed] = drawn.offset, drawn.sign, drawn.parent
    return Batch(
        index=index,
        means=work.state.mean,
        std=population.std if work.draw.std is None else work.draw.std,
        offset=offset,
        sign=sign,
        parent=parent,
        observe=work.observe[index],
        reset_seed=None if (seeds == start).all() else seeds,
        stds=np.asarray(population.stds(work.state.learned, work.draw)) if population.learns_std else None,
    )
