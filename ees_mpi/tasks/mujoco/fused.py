"""Policies of a whole batch with one Warp kernel per layer; imports Warp.

A thread computes one output of all worlds of a row. It reads each noise value once, neighbouring threads read
neighbouring values, and the result goes straight to the inputs of the next layer. A batched matrix product reads the
same noise at half the speed when a row has two worlds.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import warp as wp

from ees_mpi.policies import CLIP
from ees_mpi.tasks.mujoco.policy import BatchPolicy

AT_A_TIME = 8  # noise values that a thread asks for before it uses the first
AT_A_TIME_OF_FEW = 16  # the same if a layer has few outputs, hence few threads
FEW_OUTPUTS = 32


class FusedPolicy(BatchPolicy):
    """The same networks as `BatchPolicy`, on the CPU or the GPU."""

    def __init__(self, layers: Sequence[int], rows: int, width: int, components: int, noise: Any):
        """Take memory on the device of `noise`, float32[rows, D or more]."""
        super().__init__(layers, rows, width, components, noise)
        share, self._layer_launches = wp.from_torch, []
        device, starts = wp.device_from_torch(noise.device), 0
        inputs = [share(tensor) for tensor in self._inputs]
        results = [*inputs[1:], share(self._outputs[-1])]
        for layer, (count, outputs) in enumerate(pairwise(layers)):
            kernel = layer_kernel(count + 1, outputs, width, starts, layer + 2 < len(layers))
            arrays = [inputs[layer], share(noise), share(self._shared[layer]), share(self._scale.view(rows, width))]
            self._layer_launches.append(_recorded(kernel, (rows, outputs), arrays, results[layer], device))
            starts += (count + 1) * outputs
        self._seen = self._torch.zeros_like(self._inputs[0][..., :-1]).view(self.worlds, layers[0])
        arrays = [share(self._seen), share(self._center), share(self._spread)]
        first = share(self._inputs[0].view(self.worlds, layers[0] + 1))
        self._see_launch = _recorded(normalise, (self.worlds, layers[0]), arrays, first, device)
        self._seen_address = 0

    def _see(self, observation: Any) -> None:
        if observation.data_ptr() != self._seen_address:  # the same tensor every time, in practice
            self._see_launch.set_param_at_index(0, wp.from_torch(observation))
            self._seen, self._seen_address = observation, observation.data_ptr()
        self._see_launch.launch()

    def _add_noise(self, layer: int) -> None:
        self._layer_launches[layer].launch()


def _recorded(kernel: Any, size: tuple[int, int], arrays: list[Any], result: Any, device: Any) -> Any:
    """Return a launch that can be repeated with little overhead, on the current stream."""
    return wp.launch(kernel, dim=size, inputs=arrays, outputs=[result], device=device, record_cmd=True)


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def normalise(
    observation: wp.array2d[float],  # [worlds, O]
    center: wp.array[float],
    spread: wp.array[float],
    inputs: wp.array2d[float],  # [worlds, O + 1]
) -> None:
    """Write the normalised and clipped observations to the inputs of the first layer."""
    world, entry = wp.tid()
    value = (observation[world, entry] - center[entry]) / spread[entry]
    inputs[world, entry] = wp.where(wp.isnan(value), value, wp.clamp(value, -CLIP, CLIP))  # `clamp` drops NaN


@cache
def layer_kernel(inputs: int, outputs: int, width: int, start: int, hidden: bool) -> Any:
    """Return the kernel of a layer whose noise begins at `start` of a row; `hidden`: with tanh.

    The kernel computes result = shared + scale * (x E) for each world, with E the noise, float32[inputs, outputs].
    """
    at_a_time = AT_A_TIME_OF_FEW if outputs < FEW_OUTPUTS else AT_A_TIME
    rounds, rest, pairs = inputs // at_a_time, inputs % at_a_time, width == 2

    @wp.kernel(module="unique", enable_backward=False)  # type: ignore[untyped-decorator]
    def kernel(
        x: wp.array3d[float],  # [rows, width, inputs]
        noise: wp.array2d[float],  # [rows, D or more]
        shared: wp.array2d[float],  # [rows * width, outputs]
        scale: wp.array2d[float],  # [rows, width]
        result: wp.array3d[float],  # [rows, width, outputs or more]
    ) -> None:
        row, column = wp.tid()
        first = wp.float32(0.0)  # a variable, not a constant
        second = wp.float32(0.0)
        for number in range(rounds):
            begin = number * at_a_time
            for k in range(at_a_time):
                value = noise[row, start + (begin + k) * outputs + column]
                first += x[row, 0, begin + k] * value
                if wp.static(pairs):
                    second += x[row, 1, begin + k] * value
        for k in range(rest):
            place = rounds * at_a_time + k
            value = noise[row, start + place * outputs + column]
            first += x[row, 0, place] * value
            if wp.static(pairs):
                second += x[row, 1, place] * value
        first = shared[row * width, column] + scale[row, 0] * first
        if wp.static(hidden):
            first = wp.tanh(first)
        result[row, 0, column] = first
        if wp.static(pairs):
            second = shared[row * width + 1, column] + scale[row, 1] * second
            if wp.static(hidden):
                second = wp.tanh(second)
            result[row, 1, column] = second

    return kernel
