"""Policies of a whole batch as batched matrix products of torch: MAML's, and the base of those in `fused`.

With x the inputs of a layer (1 appended for the bias), W the layer of the mean and E the layer of the noise:

    outputs = x W + sign std (x E)

All worlds share W; the worlds of a row share E, so that it is read once for an antithetic pair. All results go to
memory taken at the start: CUDA graphs need fixed addresses.
"""

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.policies import CLIP, parameter_count

CHUNK = 1 << 24  # noise values gathered at a time
ALIGNED = 32  # numbers in 128 bytes, the unit in which a GPU reads memory


class BatchPolicy:
    """Networks of the sizes `layers` for rows * width worlds, around `components` means."""

    def __init__(self, layers: Sequence[int], rows: int, width: int, components: int, noise: Any):
        """Take memory on the device of `noise`, float32[rows, D or more]."""
        import torch

        def zeros(*shape: int) -> Any:
            return torch.zeros(shape, dtype=torch.float32, device=noise.device)

        self._torch, self._noise, self._rows = torch, noise, rows
        self.components, self.worlds = components, rows * width
        shapes = [(inputs + 1, outputs) for inputs, outputs in pairwise(layers)]
        ends = np.cumsum([0] + [a * b for a, b in shapes]).tolist()
        self._means = zeros(components, parameter_count(layers))
        parts = [(slice(start, end), shape) for (start, end), shape in zip(pairwise(ends), shapes, strict=True)]
        self._mean_layers = [[mean[part].view(shape) for mean in self._means] for part, shape in parts]
        self._noise_layers = [noise[:, part].unflatten(1, shape) for part, shape in parts]
        self._inputs = [zeros(rows, width, shape[0]) for shape in shapes]
        for inputs in self._inputs:
            inputs[..., -1] = 1  # the factor of the bias
        self._outputs = [zeros(rows, width, shape[1]) for shape in shapes]
        self._shared = [zeros(self.worlds, shape[1]) for shape in shapes]
        self._spare = [zeros(self.worlds, shape[1]) for shape in shapes] if components > 1 else []
        self._scale = zeros(rows, width, 1)
        self._child_of = torch.zeros((components, self.worlds, 1), dtype=torch.bool, device=noise.device)
        self._center, self._spread = zeros(layers[0]), zeros(layers[0]) + 1
        self.action = self._outputs[-1].view(self.worlds, layers[-1])

    def load(self, means: Singles, scale: Singles, parent: NDArray[np.int64]) -> None:
        """Act from now on with these means [K, D], factors of the noise [worlds] and parents [worlds]."""
        upload = self._torch.from_numpy
        self._means.copy_(upload(means.copy()))
        self._scale.copy_(upload(scale).view(self._scale.shape))
        for component, mask in enumerate(self._child_of):
            mask.copy_(upload(parent == component).view(mask.shape))

    def normalise(self, mean: Floats, std: Floats) -> None:
        """See observations from now on as (x - mean) / std, clipped to +-5."""
        self._center.copy_(self._torch.from_numpy(mean.astype(np.float32)))
        self._spread.copy_(self._torch.from_numpy(std.astype(np.float32)))

    def act(self, observation: Any) -> Any:
        """Return the actions, float32[worlds, A], for observations, float32[worlds, O]; always the same tensor."""
        self._see(observation)
        for layer in range(len(self._inputs)):
            self._multiply_with_means(layer)
            self._add_noise(layer)
        return self.action

    def _see(self, observation: Any) -> None:
        """Write the normalised and clipped observations to the inputs of the first layer."""
        torch, first = self._torch, self._inputs[0][..., :-1]
        torch.sub(observation.view(first.shape), self._center, out=first)
        torch.div(first, self._spread, out=first)
        torch.clamp(first, -CLIP, CLIP, out=first)

    def _add_noise(self, layer: int) -> None:
        """Add the product of the inputs with the noise; write the results to the inputs of the next layer."""
        torch, inputs, outputs = self._torch, self._inputs[layer], self._outputs[layer]
        torch.bmm(inputs, self._noise_layers[layer], out=outputs)
        torch.addcmul(self._shared[layer].view(outputs.shape), self._scale, outputs, out=outputs)
        if layer + 1 < len(self._inputs):
            torch.tanh(outputs, out=self._inputs[layer + 1][..., :-1])

    def _multiply_with_means(self, layer: int) -> None:
        """Multiply the inputs with each world's own mean: one product per component, then a selection."""
        torch, shared = self._torch, self._shared[layer]
        inputs = self._inputs[layer].view(self.worlds, -1)
        torch.mm(inputs, self._mean_layers[layer][0], out=shared)
        for component in range(1, self.components):
            torch.mm(inputs, self._mean_layers[layer][component], out=self._spare[layer])
            torch.where(self._child_of[component], self._spare[layer], shared, out=shared)


def upload_table(noise_table: Singles, device: Any) -> Any:
    """Copy the noise table of the host to the device; numbers behind its end are read, and not used."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table is read-only, and is not written to here
        table = torch.zeros(len(noise_table) + ALIGNED, dtype=torch.float32, device=device)
        table[: len(noise_table)].copy_(torch.from_numpy(noise_table))
        return table


def noise_rows(rows: int, size: int, device: Any) -> Any:
    """Take memory for the noise of `rows` rows; each begins at a multiple of 128 bytes."""
    import torch

    return torch.zeros((rows, -(-size // ALIGNED) * ALIGNED), dtype=torch.float32, device=device)


def gather_rows(table: Any, offset: Any, rows: Any, stds: Singles | None = None) -> None:
    """Copy table[offset[r] : offset[r] + size] to all rows[r], float32[R, size]; times `stds` [D], if given."""
    import torch

    size = rows.shape[1]
    along = torch.arange(size, device=table.device)
    step = max(1, CHUNK // size)
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        places = (offset[first : first + step, None] + along).view(-1)
        torch.index_select(table, 0, places, out=part.view(-1))
        if stds is not None:
            part[:, : len(stds)] *= torch.from_numpy(stds).to(rows.device)
