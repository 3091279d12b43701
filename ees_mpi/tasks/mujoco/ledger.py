"""Lengths, positions, validity and observation sums of all worlds, kept on the device while a batch runs.

All results go to memory taken at the start: CUDA graphs need fixed addresses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Floats
from ees_mpi.tasks.mujoco.plant import Plant

LIMIT = 1e10  # MuJoCo's own: a larger number in the state counts as an error


@dataclass(frozen=True)
class Notes:
    """The results of a batch, on the host."""

    behavior: Floats  # [worlds, marks, axes]
    position: Floats  # [worlds, axes] at the end
    length: NDArray[np.int64]  # [worlds]
    valid: NDArray[np.bool_]  # [worlds]
    sums: Floats  # [sampled, 1 + 2 O]


class Ledger:
    """Lengths, positions, validity and sums of observations of all worlds."""

    def __init__(self, plant: Plant, observation: Any, marks: tuple[int, ...], terminates: bool, sampled: int):
        """Take memory on the device of `observation`, float32[worlds, O]: the tensor of the present observations."""
        import torch

        device, (worlds, size) = observation.device, observation.shape

        def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
            return torch.zeros(shape, dtype=dtype, device=device)

        self._torch = torch
        state = int(plant.model.nq + plant.model.nv + plant.model.nu)
        self._height = plant.height if terminates else None
        self._parts = np.cumsum([0, plant.model.nq, plant.model.nv, plant.model.nu]).tolist()
        self.observation, self._state, self._largest = observation, zeros(worlds, state), zeros(worlds)
        self.step, self._marks = zeros(1, dtype=torch.int64), torch.tensor(marks, device=device).view(-1, 1, 1)
        self._alive, self._fine, self._valid, self._flag = (zeros(worlds, dtype=torch.bool) for _ in range(4))
        self._length, self._position = zeros(worlds, dtype=torch.int64), zeros(worlds, plant.axes)
        self._places, self._before = zeros(len(marks), worlds, plant.axes), zeros(len(marks), 1, 1, dtype=torch.bool)
        self._watched, self._watched_alive = zeros(sampled, dtype=torch.int64), zeros(sampled, dtype=torch.bool)
        self._rows, self._doubles = zeros(sampled, size), zeros(sampled, size, dtype=torch.float64)
        self._sums = zeros(sampled, 1 + 2 * size, dtype=torch.float64)
        self._zero = zeros(1)

    def reset(self, watched: NDArray[np.int64]) -> None:
        """Begin a batch in which the observations of the worlds `watched` are summed up."""
        self._watched.zero_()
        self._watched[: len(watched)] = self._torch.from_numpy(watched).to(self._watched.device)
        self._alive.fill_(True)
        self._valid.fill_(True)
        for tensor in (self.step, self._length, self._position, self._places, self._sums):
            tensor.zero_()

    def add_observations(self) -> None:
        """Add the observations of the watched worlds, as far as they are alive, to their sums."""
        torch, seen, size = self._torch, self.observation, self.observation.shape[1]
        torch.index_select(seen, 0, self._watched, out=self._rows)
        torch.index_select(self._alive, 0, self._watched, out=self._watched_alive)
        torch.where(self._watched_alive[:, None], self._rows, self._zero, out=self._rows)
        self._doubles.copy_(self._rows)
        self._sums[:, 0].add_(self._watched_alive)
        self._sums[:, 1 : 1 + size].add_(self._doubles)
        torch.square(self._doubles, out=self._doubles)
        self._sums[:, 1 + size :].add_(self._doubles)

    def note(self, qpos: Any, qvel: Any, action: Any, position: Any) -> Any:
        """Note the state after a step; return which worlds are sound, bool[worlds]."""
        torch = self._torch
        for part, (first, last) in zip(
            (qpos, qvel, action), zip(self._parts, self._parts[1:], strict=False), strict=True
        ):
            torch.abs(part, out=self._state[:, first:last])
        torch.amax(self._state, 1, out=self._largest)
        torch.le(self._largest, LIMIT, out=self._fine)  # False for NaN, too
        self.step.add_(1)
        self._length.add_(self._alive)
        torch.where(self._alive[:, None], position, self._position, out=self._position)
        torch.le(self.step, self._marks.view(-1), out=self._before.view(-1))
        torch.where(self._before, self._position, self._places, out=self._places)
        torch.logical_not(self._alive, out=self._flag)
        torch.logical_or(self._flag, self._fine, out=self._flag)
        torch.logical_and(self._valid, self._flag, out=self._valid)
        torch.logical_and(self._alive, self._fine, out=self._alive)
        if self._height is not None:
            for compare, bound in ((torch.ge, self._height[0]), (torch.le, self._height[1])):
                compare(qpos[:, 2], bound, out=self._flag)
                torch.logical_and(self._alive, self._flag, out=self._alive)
        return self._fine

    def read(self) -> Notes:
        """Copy the notes to the host; waits for the device."""
        places = self._places.permute(1, 0, 2).double().cpu().numpy()
        return Notes(
            places,
            self._position.double().cpu().numpy(),
            self._length.cpu().numpy(),
            self._valid.cpu().numpy(),
            self._sums.cpu().numpy(),
        )
