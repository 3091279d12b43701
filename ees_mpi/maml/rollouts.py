"""Rollouts of Gaussian policies, from which tasks are learned, and their advantages.

N tasks have R rollouts of T steps each. A rollout that ends early is padded with zeros. The bits of the rollouts of a
CPU rank depend on the arguments only, so any rank can make them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ees_mpi.arrays import Floats, Singles
from ees_mpi.config import Config
from ees_mpi.config.maml import Maml, MamlSettings
from ees_mpi.generation import State
from ees_mpi.noise import stream
from ees_mpi.policies import CLIP, MLP, observation_sums
from ees_mpi.tasks.base import Task
from ees_mpi.tasks.locomotion import Walked, along

RIDGE = 1e-5
TIME_SCALE = 100.0  # steps; keeps the powers of time near 1


class Steps(NamedTuple):
    """The steps of N tasks, M = R T each, to learn from; padded steps have weight 0."""

    observations: Tensor  # [N, M, O]
    actions: Tensor  # [N, M, A]
    advantages: Tensor  # [N, M]
    weight: Tensor  # [N, M]: 1 / (number of steps taken), or 0


@dataclass(frozen=True)
class TaskRollouts:
    """The rollouts of N tasks as tensors on one device; a step that was not taken is zero everywhere."""

    observations: Tensor  # [N, R, T, O], normalised and clipped
    actions: Tensor  # [N, R, T, A], before the robot clips them
    rewards: Tensor  # [N, R, T]: distance moved in the direction of the task; double precision, like all that follow
    length: Tensor  # [N, R]
    final: Tensor  # [N, R, B]: final positions
    sums: Tensor  # [N, 1 + 2 O]: count, sums, sums of squares of the observations of the sampled rollouts

    def __getitem__(self, tasks: Any) -> "TaskRollouts":
        return TaskRollouts(*(getattr(self, field.name)[tasks] for field in fields(self)))

    @property
    def mask(self) -> Tensor:
        """Return which steps [N, R, T] were taken."""
        return torch.arange(self.rewards.shape[2], device=self.length.device) < self.length[..., None]

    @property
    def total(self) -> Tensor:
        """Return the mean distance [N] that the rollouts of a task moved in its direction."""
        return self.rewards.sum(2).mean(1)

    @property
    def usable(self) -> Tensor:
        """Return which tasks [N] can be learned from: they have steps, and all numbers are finite."""
        usable = self.length.any(1)
        for tensor in (self.observations, self.actions, self.rewards, self.final):
            usable = usable & tensor.isfinite().flatten(1).all(1)
        return usable

    def steps(self, discount: float) -> Steps:
        mask = self.mask.flatten(1)
        weight = mask / mask.sum(1, keepdim=True).clamp(min=1)
        advantages = self.advantages(discount).flatten(1)
        return Steps(self.observations.flatten(1, 2), self.actions.flatten(1, 2), advantages.float(), weight.float())

    def advantages(self, discount: float) -> Tensor:
        """Return the advantages [N, R, T]: discounted returns minus a linear feature baseline (Duan et al. 2016).

        They have mean 0 and standard deviation 1 over the steps of a task; padded steps have 0.
        """
        mask = self.mask.double()
        count = mask.sum((1, 2), keepdim=True).clamp(min=1)
        target = self.returns(discount) * mask
        rest = target - self.predicted(target)
        rest = (rest - rest.sum((1, 2), keepdim=True) / count) * mask
        return rest / ((rest.square().sum((1, 2), keepdim=True) / count).sqrt() + 1e-8)

    def returns(self, discount: float) -> Tensor:
        """Return the discounted sums of the present and all later rewards [N, R, T]."""
        time = torch.arange(self.rewards.shape[2], device=self.rewards.device)
        later = time[:, None] - time  # steps from the column to the row
        return self.rewards @ torch.where(later >= 0, discount ** later.clamp(min=0).double(), 0.0)

    def predicted(self, target: Tensor) -> Tensor:
        """Return the linear fits [N, R, T] of a target to the features of the steps."""
        seen, mask = self.observations.double(), self.mask
        time = (torch.arange(seen.shape[2], device=seen.device).double() / TIME_SCALE).expand(mask.shape)[..., None]
        features = torch.cat([seen, seen.square(), time, time**2, time**3, torch.ones_like(time)], -1)
        features = (features * mask[..., None]).flatten(1, 2)
        gram = features.mT @ features + RIDGE * torch.eye(features.shape[2], dtype=seen.dtype, device=seen.device)
        weights: Tensor = torch.linalg.solve(gram, features.mT @ target.flatten(1)[..., None])
        return (features @ weights).view(mask.shape)


@dataclass(frozen=True)
class Pairs:
    """The rollouts of some tasks of an iteration before and after their adaptation."""

    index: list[int]
    before: TaskRollouts
    after: TaskRollouts

    def __getitem__(self, places: Any) -> "Pairs":
        index: list[int] = np.array(self.index)[places].tolist()
        return Pairs(index, self.before[places], self.after[places])

    def rows(self) -> Floats:
        """Return a row for each task: index, valid, length, fitness, behaviour, observation sums."""
        before, after = self.before, self.after
        usable = before.usable & after.usable
        length = before.length.sum(1) + after.length.sum(1)
        sums = torch.where(usable[:, None], before.sums + after.sums, 0.0)
        index = torch.tensor(self.index, device=length.device)
        columns = [index, usable, length, after.total, *after.final.mean(1).T, *sums.T]
        return torch.stack([column.double() for column in columns], 1).cpu().numpy()


def maml_of(config: Config) -> MamlSettings:
    """Return the section `maml` of a config."""
    if not isinstance(config.method, Maml):
        raise TypeError(f'expected a config with method = "maml", got {config.method.name!r}')
    return config.method.settings


def theta_of(state: State) -> Singles:
    """Return the parameters of the policy of a state as one vector: the mean, then the log standard deviations."""
    return np.concatenate([state.mean[0], state.learned["log_std"]])


def draws(config: Config, generation: int, index: int) -> tuple[Singles, NDArray[np.bool_]]:
    """Return the action noise [2, R, T, A] of a task, before and after adaptation, and its sampled rollouts [2, R]."""
    task, settings = config.task, maml_of(config)
    shape = (2, settings.rollouts, settings.steps(task), task.layers[-1])
    noise = stream(config.run.seed, f"actions of task {index}", generation).standard_normal(shape, np.float32)
    chance = stream(config.run.seed, f"observe task {index}", generation).random(shape[:2])
    return noise, chance < task.observation_share


def direction_of(task: Task, sign: int) -> float:
    """Return the direction of a task of the iteration, in degrees."""
    return (task.heading or 0.0) + (0.0 if sign > 0 else 180.0)


def rollouts_of(walked: Walked, directions: Sequence[float], place: int) -> TaskRollouts:
    """Return rollouts with the rewards of their tasks.

    directions: of the tasks, in degrees; place: how many of the last numbers of a behaviour are a place; 0: all are
    """
    position = walked.position.double()  # [N, R, 1 + T, B]
    places = position[..., -place:][..., :2]
    axes = [[along(direction, *unit) for unit in ((1.0, 0.0), (0.0, 1.0))] for direction in directions]
    along_axes = torch.tensor(axes, dtype=position.dtype, device=position.device)[:, None, None, : places.shape[3]]
    rewards = (places * along_axes).sum(-1).diff(dim=2)
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


class CpuWalks:
    """The robot of a CPU rank, which is controlled step by step; as `tasks.mujoco.noisy_walks.GpuNoisyWalks`."""

    device = "cpu"

    def __init__(self, task: Task, seed: int):
        self._walker: Any = task.walker(seed)  # `Maml.check` refuses a task that has none
        self._network, self._dim = MLP(task.layers), task.behavior_dim

    def walk(
        self,
        parameters: Tensor,
        stds: Tensor,
        noise: Singles,
        sampled: NDArray[np.bool_],
        statistics: tuple[Floats, Floats],
    ) -> Walked:
        """Roll out one policy after the other; without observation statistics, observations are not normalised."""
        if not len(statistics[0]):  # a custom task without observation statistics
            statistics = np.zeros(self._network.sizes[0]), np.ones(self._network.sizes[0])
        self._network.normalise(*statistics)
        mean, std = (part.astype(np.float32) for part in statistics)
        walks = []
        for flat, deviations, drawn, observed in zip(parameters.numpy(), stds.numpy(), noise, sampled, strict=True):
            self._network.load(flat)
            with np.errstate(all="ignore"):
                rollouts = [self._walk(each * deviations) for each in drawn]
            raw, actions, places, length = (np.array(arrays) for arrays in zip(*rollouts, strict=True))
            seen = np.clip((raw - mean) / std, -CLIP, CLIP)
            seen[np.arange(len(drawn[0])) >= length[:, None]] = 0.0
            sums = [observation_sums(list(raw[n, : length[n]])) for n in np.flatnonzero(observed & (length > 0))]
            walks.append((seen, actions, places, length, sum(sums, start=np.zeros(1 + 2 * len(mean)))))
        # Tensors are copies, so that their alignment, which can change bits, is fixed.
        return Walked(*(torch.tensor(np.array(arrays)) for arrays in zip(*walks, strict=True)))

    def _walk(self, noise: Singles) -> tuple[Singles, Singles, Floats, int]:
        """Make one rollout; return what it saw, its actions, its positions and its length.

        It ends before the first step that is not finite.
        """
        walker, length = self._walker, 0
        seen = np.zeros((len(noise), self._network.sizes[0]), np.float32)
        actions, places = np.zeros_like(noise), np.zeros((1 + len(noise), self._dim))
        observation = walker.reset()
        places[0] = tuple(walker.position)
        for step in range(len(noise)):
            action = self._network.act(observation) + noise[step]
            if not math.isfinite(action.dot(action)):
                break
            seen[step], actions[step] = observation, action  # before the step: the walker may reuse its array
            observation, done = walker.step(action)
            place = tuple(walker.position)
            if not (math.isfinite(sum(place)) and math.isfinite(observation.dot(observation))):
                seen[step], actions[step] = 0.0, 0.0
                break
            places[step + 1], length = place, step + 1
            if done:
                break
        return seen, actions, places, length

    def close(self) -> None:
        self._walker.close()
