"""Rollouts of several policies with noisy actions on a GPU, recorded step by step: MAML learns from them."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.policies import CLIP
from ees_mpi.tasks.locomotion import Walked
from ees_mpi.tasks.mujoco.gpu_robots import STEPS_PER_GRAPH, GpuRobots, GpuSetup
from ees_mpi.tasks.mujoco.policy import BatchPolicy, noise_rows
from ees_mpi.tasks.mujoco.robot_model import MujocoWalker

SPARE = 2 * STEPS_PER_GRAPH + 12  # steps behind the last one, into which steps are recorded while they are tried


class GpuNoisyWalks(GpuRobots):
    """Robots of `policies` policies, `rollouts` of each; a row of worlds has one policy."""

    def __init__(self, setup: GpuSetup, policies: int, rollouts: int, steps: int):
        """Take all memory now, and record the steps."""
        task, robot_model = msgspec.structs.replace(setup.task, steps=steps), setup.robot_model
        super().__init__(setup._replace(task=task), policies, rollouts)
        torch, self.device = setup.tools.torch, setup.tools.device
        walker = MujocoWalker(robot_model, terminates=False, seed=setup.seed)
        walker.reset()
        self._start = torch.tensor(walker.position, dtype=torch.float32, device=self.device)

        def track(size: int) -> Any:
            return torch.zeros((steps + SPARE, self.worlds, size), dtype=torch.float32, device=self.device)

        self._drawn, self._seen, self._acted, self._places = (
            track(size) for size in (task.layers[-1], task.layers[0], task.layers[-1], robot_model.axes)
        )
        self._stds, self._now = torch.zeros_like(self._drawn[0]), torch.zeros_like(self._drawn[:1])
        self._number = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._noise = noise_rows(policies, task.parameters, self.device)
        self._prepare(1)

    def _policies(self, components: int) -> BatchPolicy:
        return BatchPolicy(self._task.layers, self._rows, self._width, components, self._noise)

    def walk(
        self,
        parameters: Any,
        stds: Any,
        noise: Singles,
        sampled: NDArray[np.bool_],
        statistics: tuple[Floats, Floats],
    ) -> Walked:
        """Roll out policies [N, D] with action noise [N, R, T, A] times stds [N, A].

        parameters, stds: tensors on any device; sampled: [N, R]; statistics: mean and std of the observations
        """
        with self.recorder.on_stream():
            self._load(parameters, stds, noise, statistics)
            results = self._run(np.arange(len(noise) * self._width))
            self._places[0].copy_(self._start)
            self._places[self._task.steps].copy_(self.physics.position)
        length = self._tools.torch.from_numpy(results.length - ~results.valid)  # without the step that broke
        return self._walked(length.to(self.device).view(len(noise), self._width), sampled, statistics)

    def _load(self, parameters: Any, stds: Any, noise: Singles, statistics: tuple[Floats, Floats]) -> None:
        """Bring policies and noise to the device, and all robots to the start."""
        torch, count, zero = self._tools.torch, len(noise), np.zeros((1, parameters.shape[1]), np.float32)
        # The rows of noise are the policies themselves, around a mean of 0.
        self._policy.load(zero, np.ones(self.worlds, np.float32), np.zeros(self.worlds, np.int64))
        self._policy.normalise(*statistics)
        self._noise[:count, : parameters.shape[1]].copy_(parameters)
        self._stds.view(self._rows, self._width, -1)[:count].copy_(stds[:, None])
        self._of_policies(self._drawn, count).copy_(torch.from_numpy(noise))
        self._reset(np.empty(0, np.int64))

    def _of_policies(self, track: Any, count: int, more: int = 0) -> Any:
        """Return a view [N, R, T + more, ...] of what was recorded of the first policies."""
        shape = (len(track), self._rows, self._width, track.shape[2])
        return track.view(shape)[: self._task.steps + more, :count].permute(1, 2, 0, 3)

    def _reset(self, watched: NDArray[np.int64], seeds: tuple[Any, Any] | None = None) -> None:
        super()._reset(watched, seeds)
        self._number.zero_()

    def act(self) -> None:
        """Write noisy actions to the controls; record them, the observations and the positions before the step."""
        torch, step, physics = self._tools.torch, self._number, self.physics
        action = self._policy.act(physics.observation)
        torch.index_select(self._drawn, 0, step, out=self._now)
        torch.addcmul(action, self._stds, self._now[0], out=action)
        for track, present in (
            (self._seen, physics.observation),
            (self._acted, action),
            (self._places, physics.position),
        ):
            track.index_copy_(0, step, present[None])
        torch.clamp(action, self._low, self._high, out=physics.ctrl)
        step.add_(1)

    def _walked(self, length: Any, sampled: NDArray[np.bool_], statistics: tuple[Floats, Floats]) -> Walked:
        """Return copies of what was recorded; `length`: [N, R] of the rollouts."""
        torch, count = self._tools.torch, len(length)
        mean, std = (torch.from_numpy(part.astype(np.float32)).to(self.device) for part in statistics)
        taken = (torch.arange(self._task.steps, device=self.device) < length[..., None])[..., None]
        raw = torch.where(taken, self._of_policies(self._seen, count), 0.0)
        summed = raw.double() * torch.from_numpy(sampled).to(self.device)[..., None, None]
        number = (length * torch.from_numpy(sampled).to(self.device)).sum(1, keepdim=True)
        return Walked(
            torch.where(taken, ((raw - mean) / std).clamp(-CLIP, CLIP), 0.0),
            torch.where(taken, self._of_policies(self._acted, count), 0.0),
            self._of_policies(self._places, count, more=1).clone(),
            length,
            torch.cat([number.double(), summed.sum((1, 2)), summed.square().sum((1, 2))], 1),
        )
