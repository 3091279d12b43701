"""The evaluator of MAML: rollouts of tasks before and after their adaptation, on CPUs and on GPUs.

Tasks are distributed over the ranks like individuals, and a rank keeps the rollouts of its tasks (`Found.local`). A CPU
rank takes one task after the other; a rank that drives a GPU makes all rollouts of its tasks at once, and its update
stays on the device. The noise of the actions is the same: it depends on the seed, the generation and the task only. The
rollouts of the paper's robots repeat bit by bit on one kind of GPU, but those of other robots and torch's updates need
not. So an iteration on a GPU happens once, and one that is interrupted begins again.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ees_mpi.arrays import Floats, Singles
from ees_mpi.config import Config
from ees_mpi.errors import TaskError, before_rollouts, collective
from ees_mpi.generation import LEADING, Found, Outcome, State, Work, gather, pack
from ees_mpi.maml.learning import adaptation_step
from ees_mpi.maml.outer import parts
from ees_mpi.maml.rollouts import CpuWalks, Pairs, TaskRollouts, direction_of, draws, maml_of, rollouts_of, theta_of
from ees_mpi.noise import stream
from ees_mpi.ranks import Ranks, gpus


def open_maml(config: Config, ranks: Ranks, device: str | None = None) -> "MamlEvaluator":
    """Open the robots of this rank, on the device that all ranks agree on; `device`: in place of the config's."""
    task, settings = config.task, maml_of(config)
    open_walks: Any = getattr(task, "open_walks", None)  # None: the task has none for GPUs
    wanted = device or (task.device if open_walks else "") or "cpu"
    device, drivers = gpus.choose(ranks, wanted, "", task.lacks_for_gpu)
    with ranks.together(), before_rollouts():
        walks: Any
        if device == "cpu":
            walks = CpuWalks(task, config.run.seed)
        else:
            pairs = -(-config.population.size // 2)  # as `hand_out_batches` counts
            sizes = config.run.seed, 2 * -(-pairs // len(drivers)), settings.rollouts, settings.steps(task)
            walks = gpus.opened(ranks, drivers, lambda say: open_walks(*sizes, say))
    return MamlEvaluator(config, ranks, walks, drivers)


class MamlEvaluator:
    """Makes the rollouts of tasks, and those of the mean; see `run.evaluators.Evaluator`."""

    def __init__(self, config: Config, ranks: Ranks, walks: Any, drivers: Mapping[int, str]):
        """Take `CpuWalks` or `GpuNoisyWalks`; `drivers`: which rank drives which GPU, empty on CPUs.

        walks: None on a rank that drives none of the GPUs
        """
        self._config, self._ranks, self._walks, self._drivers = config, ranks, walks, drivers
        self._rollouts = config.task.open(config.run.seed)  # of the mean
        self.described: Mapping[str, str] = gpus.describe(ranks, drivers)
        self.watch: Callable[[int], object] | None = None

    def evaluate(self, work: Work, wanted: NDArray[np.int64] | None = None) -> Found:
        """Return the outcomes of the wanted tasks, or of all."""
        start, dim = time.perf_counter(), self._config.task.behavior_dim
        wanted = np.arange(len(work.seeds)) if wanted is None else wanted
        pairs: list[Pairs] = []
        means: list[Outcome] = []
        for index in self._hand_out(work, wanted):
            if index[0] < work.size:
                pairs.append(self._pairs(work, index))
                if self.watch:
                    self.watch(index[-1])
            else:
                means.append(self._rollouts.evaluate(index[0], work.state.mean[0].copy(), *work.statistics, False))
        evaluated = time.perf_counter()
        before, width = LEADING + dim, LEADING + dim + len(work.state.observations)
        table = np.concatenate([np.empty((0, width)), *(pair.rows()[:, :width] for pair in pairs)])
        rows = np.vstack([table[:, :before], pack(means, dim, 1)])
        sums = np.column_stack([table[:, 0], table[:, before:]])
        outcomes, of_mean = gather(rows, sums[sums[:, 1] > 0], wanted, work, self._ranks)
        seconds = {"evaluate": evaluated - start, "gather": time.perf_counter() - evaluated}
        return Found(outcomes, of_mean, seconds, pairs)

    def _hand_out(self, work: Work, wanted: NDArray[np.int64]) -> Iterator[Sequence[int]]:
        """Yield this rank's tasks: one by one on a CPU, all at once on a GPU; the number of the mean alone."""
        ranks = self._ranks
        if not self._drivers:
            yield from ([index] for index in ranks.hand_out(wanted.tolist()))
            return
        tasks = wanted[wanted < work.size].tolist()
        yield from ranks.hand_out_batches(tasks, sorted(self._drivers), max(1, len(tasks)))
        if ranks.rank == ranks.size - 1:
            yield from ([index] for index in wanted[wanted >= work.size].tolist())

    def _pairs(self, work: Work, index: Sequence[int]) -> Pairs:
        """Return the rollouts of some tasks before and after their adaptation; they depend on the arguments only."""
        config, walks = self._config, self._walks
        drawn = [draws(config, work.state.generation, task) for task in index]
        noise, sampled = (np.stack(part, axis=1) for part in zip(*drawn, strict=True))
        directions = [direction_of(config.task, sign) for sign in work.draw.sign[list(index)].tolist()]
        rest = directions, work.statistics, config.task.axes
        theta = torch.tensor(theta_of(work.state)).repeat(len(index), 1)
        before = walk(walks, theta, noise[0], sampled[0], *rest)
        theta = adapted_theta(config, theta, before)
        return Pairs(list(index), before, walk(walks, theta, noise[1], sampled[1], *rest))

    def close(self) -> None:
        self._rollouts.close()
        walks, self._walks = self._walks, None
        if walks is not None:
            walks.close()


def walk(
    walks: Any,
    theta: Tensor,
    noise: Singles,
    sampled: NDArray[np.bool_],
    directions: Sequence[float],
    statistics: tuple[Floats, Floats],
    place: int,
) -> TaskRollouts:
    """Return rollouts of policies theta [N, D] with action noise [N, R, T, A]; `sampled`: [N, R].

    place: as `rollouts_of` takes it
    """
    actions = noise.shape[-1]
    stds = torch.from_numpy(np.exp(theta[:, -actions:].cpu().numpy()))
    return rollouts_of(walks.walk(theta[:, :-actions], stds, noise, sampled, statistics), directions, place)


def adapted_theta(config: Config, theta: Tensor, before: TaskRollouts) -> Tensor:
    """Return the parameters [N, D] of policies after the adaptation step on their rollouts."""
    settings, theta = maml_of(config), theta.to(before.length.device)
    return torch.cat(
        [
            adaptation_step(
                config.task.layers, settings.adaptation_lr, theta[part], before[part].steps(settings.discount)
            )
            for part in parts(config, len(theta))
        ]
    )


def adapt(ranks: Ranks, config: Config, state: State, generation: int) -> tuple[Singles, TaskRollouts]:
    """Adapt the policy of a run to the direction of a task; return its parameters, and the rollouts before the step."""
    task, settings = config.task, maml_of(config)
    with ranks.together():
        walks = CpuWalks(task, config.run.seed)
    shape, heading = (1, settings.rollouts, settings.steps(task), task.layers[-1]), task.heading or 0.0
    noise = stream(config.run.seed, f"adapt towards {heading}", generation).standard_normal(shape, np.float32)
    # Every rank makes all rollouts: this takes a few seconds, and all ranks have the same bits.
    theta, nobody = torch.tensor(theta_of(state))[None], np.zeros(shape[:2], np.bool_)
    before = walk(walks, theta, noise, nobody, [heading], state.statistics, task.axes)
    walks.close()
    if not before.usable:
        raise collective(TaskError("the rollouts for the adaptation are not finite"))
    return np.asarray(adapted_theta(config, theta, before)[0].numpy()), before
