"""The tasks of ranks that drive GPUs: all rollouts of a rank at once, and an update that stays on the device.

The noise of the actions is that of CPU ranks: it depends on the seed, the generation and the task only. GPU physics
cannot be repeated bit by bit, so rollouts happen once; an iteration that is interrupted begins again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.contracts import NoisyWalks, Task, Walked
from ees_mpi.generation.evaluation import opened_on_gpu
from ees_mpi.generation.results import evaluates_mean
from ees_mpi.generation.state import State
from ees_mpi.maml.learning import Learner, LearningTask
from ees_mpi.maml.network import Tensor, log_std, torch
from ees_mpi.maml.outer import parts, side_by_side, theta_of_state
from ees_mpi.maml.rollouts import Pair, direction_of, draws
from ees_mpi.maml.settings import maml_of
from ees_mpi.maml.tracks import Tracks
from ees_mpi.outcomes import Draw, Outcome, Singles
from ees_mpi.ranks import Ranks
from ees_mpi.tasks.locomotion import along


class GpuTasks:
    """This rank's tasks in the present iteration. Other ranks than the drivers of GPUs have none."""

    device = "cuda"

    def __init__(self, config: Config, ranks: Ranks, drivers: Mapping[int, str]):
        """Make the robots; `drivers`: which rank drives which GPU."""
        self._config, self._ranks, self._drivers = config, ranks, drivers
        self._evaluator = config.task.open(config.run.seed)
        self._walks: NoisyWalks | None = None
        self._index: list[int] = []
        self._before: Tracks
        self._after: Tracks
        self._open()

    def _open(self) -> None:
        settings, task = maml_of(self._config), self._config.task
        pairs = -(-self._config.population.size // 2)  # as `deal_batches` counts
        tasks = 2 * -(-pairs // len(self._drivers))
        sizes = self._config.run.seed, tasks, settings.rollouts, settings.steps(task)
        self._walks = opened_on_gpu(self._ranks, self._drivers, lambda say: opener(task)(*sizes, say))

    def evaluate(self, state: State, drawn: Draw, mine: dict[int, Pair]) -> Outcome | None:
        """Make the rollouts of this rank's tasks; return the outcome of the mean, if it is evaluated here."""
        size, self._index = self._config.population.size, []
        for index in self._ranks.deal_batches(range(size), sorted(self._drivers), size):
            self._walk(state, list(index), drawn.sign[list(index)].tolist())
        if not evaluates_mean(self._config, state.generation) or self._ranks.rank < self._ranks.size - 1:
            return None
        return self._evaluator.evaluate(size, state.mean[0].copy(), *state.observation_mean_std(), False)

    def _walk(self, state: State, index: list[int], sign: Sequence[int]) -> None:
        """Make the rollouts of some tasks before and after their adaptation."""
        config, settings = self._config, maml_of(self._config)
        learner = Learner(config.task.layers, settings.adaptation_lr, several=True)
        drawn = [draws(config, state.generation, task) for task in index]
        noise, sampled = (np.stack(part, axis=1) for part in zip(*drawn, strict=True))
        theta = theta_of_state(state).repeat(len(index), 1)
        self._before = self._tracks(state, theta, noise[0], sampled[0], sign)
        theta = theta.to(self._before.length.device)
        adapted = [
            learner.adapted(theta[part], self._before[part].steps(settings.discount))
            for part in parts(config, len(index))
        ]
        self._after = self._tracks(state, torch.cat(adapted), noise[1], sampled[1], sign)
        self._index = index

    def _tracks(
        self, state: State, theta: Tensor, noise: Singles, sampled: NDArray[np.bool_], sign: Sequence[int]
    ) -> Tracks:
        if self._walks is None:
            raise RuntimeError("a rank without a GPU was dealt tasks")
        stds = torch.exp(log_std(self._config.task.layers, theta))
        mean = theta[:, : state.mean.shape[1]]
        walked = self._walks.walk(mean, stds, noise, sampled, state.observation_mean_std())
        return tracks_of(walked, [direction_of(self._config.task, task_sign) for task_sign in sign])

    def rows(self, mine: Mapping[int, Pair]) -> list[list[float]]:
        """Return a row for each task, as `CpuTasks.rows`."""
        if not self._index:
            return []
        before, after = self._before, self._after
        usable = before.usable & after.usable
        length = before.length.sum(1) + after.length.sum(1)
        sums = torch.where(usable[:, None], before.sums + after.sums, 0.0)
        columns = [usable, length, after.total, *after.final.mean(1).T, before.total, *sums.T]
        rows = torch.stack([column.double() for column in columns], 1).tolist()
        return [[index, *row] for index, row in zip(self._index, rows, strict=True)]

    def learning(self, state: State, mine: Mapping[int, Pair], valid: NDArray[np.bool_]) -> dict[int, LearningTask]:
        """Return this rank's valid tasks in groups, to learn from."""
        chosen = [place for place, index in enumerate(self._index) if valid[index]]
        if not chosen:
            return {}
        index = [self._index[place] for place in chosen]
        return side_by_side(self._config, state, index, self._before[chosen], self._after[chosen])

    def pairs(self, mine: Mapping[int, Pair]) -> Mapping[int, Pair]:
        """Return the rollouts of this rank's tasks on the host, by index."""
        if not self._index:
            return {}
        both = zip(self._before.batches(), self._after.batches(), strict=True)
        return {index: Pair(*pair) for index, pair in zip(self._index, both, strict=True)}

    def close(self) -> None:
        """Release the robots and the memory of the device."""
        self._evaluator.close()
        self._close_walks()

    def _close_walks(self) -> None:
        walks, self._walks = self._walks, None
        if walks is not None:
            walks.close()


def opener(task: Task) -> Any:
    """Return the function of a task that opens `contracts.NoisyWalks` on a GPU; None: the task has none."""
    return getattr(task, "open_walks", None)


def tracks_of(walked: Walked, directions: Sequence[float]) -> Tracks:
    """Return rollouts with the rewards of their tasks; `directions`: of the tasks, in degrees."""
    position = walked.position.double()  # [N, R, 1 + T, B]
    axes = [[along(direction, *unit) for unit in ((1.0, 0.0), (0.0, 1.0))] for direction in directions]
    along_axes = torch.tensor(axes, dtype=position.dtype, device=position.device)[:, None, None, : position.shape[3]]
    rewards = (position * along_axes).sum(-1).diff(dim=2)
    taken = torch.arange(rewards.shape[2], device=rewards.device) < walked.length[..., None]
    last = walked.length[..., None, None].expand(-1, -1, 1, position.shape[3])
    return Tracks(
        walked.observations,
        walked.actions,
        torch.where(taken, rewards, 0.0),
        walked.length,
        position.gather(2, last).squeeze(2),
        walked.sums,
    )
