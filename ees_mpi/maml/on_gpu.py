"""The tasks of ranks that drive GPUs: all rollouts of a rank at once, and an update that stays on the device.

The noise of the actions is that of CPU ranks: it depends on the seed, the generation and the task only. The rollouts of
the paper's robots repeat bit by bit on one kind of GPU, but those of other robots and torch's updates need not. So an
iteration happens once, and one that is interrupted begins again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ees_mpi.arrays import Singles
from ees_mpi.config import Config
from ees_mpi.generation import Work
from ees_mpi.maml.learning import adaptation_step
from ees_mpi.maml.outer import parts
from ees_mpi.maml.rollouts import Pairs, TaskRollouts, direction_of, draws, maml_of, theta_of
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.tasks.base import Task
from ees_mpi.tasks.locomotion import along
from ees_mpi.tasks.mujoco.noisy_walks import Walked


class GpuTasks:
    """This rank's tasks in the present iteration. Other ranks than the drivers of GPUs have none."""

    def __init__(self, config: Config, ranks: Ranks, drivers: Mapping[int, str]):
        """Make the robots; `drivers`: which rank drives which GPU."""
        self._config, self._ranks, self._drivers = config, ranks, drivers
        settings, pairs = maml_of(config), -(-config.population.size // 2)  # as `hand_out_batches` counts
        sizes = config.run.seed, 2 * -(-pairs // len(drivers)), settings.rollouts, settings.steps(config.task)
        self._walks: Any = gpus.opened(ranks, drivers, lambda say: opener(config.task)(*sizes, say))

    def hand_out(self, work: Work, wanted: NDArray[np.int64]) -> Iterator[Pairs | int]:
        """Yield the rollouts of this rank's tasks; in place of those of the mean its number, on the last rank."""
        tasks, ranks = wanted[wanted < work.size].tolist(), self._ranks
        for index in ranks.hand_out_batches(tasks, sorted(self._drivers), max(1, len(tasks))):
            yield self._pairs(work, list(index))
        if ranks.rank == ranks.size - 1:
            yield from wanted[wanted >= work.size].tolist()

    def _pairs(self, work: Work, index: list[int]) -> Pairs:
        """Make the rollouts of some tasks before and after their adaptation."""
        config, settings, sign = self._config, maml_of(self._config), work.draw.sign[index].tolist()
        drawn = [draws(config, work.state.generation, task) for task in index]
        noise, sampled = (np.stack(part, axis=1) for part in zip(*drawn, strict=True))
        theta = torch.tensor(theta_of(work.state)).repeat(len(index), 1)
        before = self._rollouts(work, theta, noise[0], sampled[0], sign)
        theta = theta.to(before.length.device)
        after = torch.cat(
            [
                adaptation_step(
                    config.task.layers, settings.adaptation_lr, theta[part], before[part].steps(settings.discount)
                )
                for part in parts(config, len(index))
            ]
        )
        return Pairs(index, before, self._rollouts(work, after, noise[1], sampled[1], sign))

    def _rollouts(
        self, work: Work, theta: Tensor, noise: Singles, sampled: NDArray[np.bool_], sign: Sequence[int]
    ) -> TaskRollouts:
        if self._walks is None:
            raise RuntimeError("a rank without a GPU was given tasks")
        split = work.state.mean.shape[1]
        stds = torch.exp(theta[:, split:])
        walked = self._walks.walk(theta[:, :split], stds, noise, sampled, work.statistics)
        return rollouts_of(walked, [direction_of(self._config.task, task_sign) for task_sign in sign])

    def close(self) -> None:
        walks, self._walks = self._walks, None
        if walks is not None:
            walks.close()


def opener(task: Task) -> Any:
    """Return the function of a task that opens `GpuNoisyWalks`; None: the task has none."""
    return getattr(task, "open_walks", None)


def rollouts_of(walked: Walked, directions: Sequence[float]) -> TaskRollouts:
    """Return rollouts with the rewards of their tasks; `directions`: of the tasks, in degrees."""
    position = walked.position.double()  # [N, R, 1 + T, B]
    axes = [[along(direction, *unit) for unit in ((1.0, 0.0), (0.0, 1.0))] for direction in directions]
    along_axes = torch.tensor(axes, dtype=position.dtype, device=position.device)[:, None, None, : position.shape[3]]
    rewards = (position * along_axes).sum(-1).diff(dim=2)
    taken = torch.arange(rewards.shape[2], device=rewards.device) < walked.length[..., None]
    last = walked.length[..., None, None].expand(-1, -1, 1, position.shape[3])
    return TaskRollouts(
        walked.observations,
        walked.actions,
        torch.where(taken, rewards, 0.0),
        walked.length,
        position.gather(2, last).squeeze(2),
        walked.sums,
    )
