"""The rollouts of N tasks as tensors on one device, and their advantages.

The same numbers as `rollouts.Batch` and `learning.advantages`, for all tasks at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ees_mpi.maml.learning import RIDGE, TIME_SCALE, Steps
from ees_mpi.maml.network import Tensor, torch
from ees_mpi.maml.rollouts import Batch


@dataclass(frozen=True)
class Tracks:
    """N batches of R rollouts of at most T steps; a step that was not taken is zero everywhere."""

    observations: Tensor  # [N, R, T, O], normalised and clipped
    actions: Tensor  # [N, R, T, A], before the robot clips them
    rewards: Tensor  # [N, R, T], in double precision like all that follow
    length: Tensor  # [N, R]
    final: Tensor  # [N, R, B]
    sums: Tensor  # [N, 1 + 2 O]: of the observations of the sampled rollouts

    @classmethod
    def of(cls, batches: Sequence[Batch], device: Any) -> "Tracks":
        """Bring batches to a device."""
        stacked = (np.stack([getattr(batch, field.name) for batch in batches]) for field in fields(cls))
        return cls(*(torch.from_numpy(array).to(device) for array in stacked))

    def batches(self) -> list[Batch]:
        """Return the batches on the host."""
        arrays = [getattr(self, field.name).cpu().numpy() for field in fields(self)]
        return [Batch(*(array[task].copy() for array in arrays)) for task in range(len(self.length))]

    def __getitem__(self, tasks: Any) -> "Tracks":
        """Return the rollouts of some tasks."""
        return Tracks(*(getattr(self, field.name)[tasks] for field in fields(self)))

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
        """Return whether a task can be learned from: it has steps, and all numbers are finite."""
        usable = self.length.any(1)
        for tensor in (self.observations, self.actions, self.rewards, self.final):
            usable = usable & tensor.isfinite().flatten(1).all(1)
        return usable

    def steps(self, discount: float) -> Steps:
        """Return the steps of all tasks, [N, R T, ...], to learn from."""
        mask = self.mask.flatten(1)
        weight = mask / mask.sum(1, keepdim=True).clamp(min=1)
        advantages = self.advantages(discount).flatten(1)
        return Steps(self.observations.flatten(1, 2), self.actions.flatten(1, 2), advantages.float(), weight.float())

    def advantages(self, discount: float) -> Tensor:
        """Return the advantages [N, R, T], with mean 0 and standard deviation 1 over the steps of a task."""
        mask = self.mask.double()
        count = mask.sum((1, 2), keepdim=True).clamp(min=1)
        target = self._returns(discount) * mask
        rest = target - self._predicted(target, mask)
        rest = (rest - rest.sum((1, 2), keepdim=True) / count) * mask
        return rest / ((rest.square().sum((1, 2), keepdim=True) / count).sqrt() + 1e-8)

    def _returns(self, discount: float) -> Tensor:
        """Return the discounted sums of the present and all later rewards [N, R, T]."""
        time = torch.arange(self.rewards.shape[2], device=self.rewards.device)
        later = time[:, None] - time  # steps from the column to the row
        return self.rewards @ torch.where(later >= 0, discount ** later.clamp(min=0).double(), 0.0)

    def _predicted(self, target: Tensor, mask: Tensor) -> Tensor:
        """Return the linear fits [N, R, T] of the returns to the features of the steps."""
        seen = self.observations.double()
        time = (torch.arange(seen.shape[2], device=seen.device).double() / TIME_SCALE).expand(mask.shape)[..., None]
        features = torch.cat([seen, seen.square(), time, time**2, time**3, torch.ones_like(time)], -1)
        features = (features * mask[..., None]).flatten(1, 2)
        across = features.transpose(1, 2)
        gram = across @ features + RIDGE * torch.eye(features.shape[2], dtype=features.dtype, device=features.device)
        weights: Tensor = torch.linalg.solve(gram, across @ target.flatten(1)[..., None])
        return (features @ weights).view(mask.shape)
