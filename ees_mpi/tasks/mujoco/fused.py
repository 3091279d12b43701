"""Policies of a whole batch with one Warp kernel per layer; imports Warp.

The noise is read where it is, in the noise table: a table of 40 MB nearly fits into the fast memory of a GPU. A thread
computes four neighbouring outputs for all worlds of a row. It reads each noise value once, neighbouring threads read
neighbouring values, and the results go straight to the inputs of the next layer.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import warp as wp

from ees_mpi.policies import CLIP
from ees_mpi.tasks.mujoco.policy import BatchPolicy

FEW_OUTPUTS = 16  # up to here, 32 threads share the inputs of a row
BLOCK = 64


class FusedPolicy(BatchPolicy):
    """The same networks as `BatchPolicy`, on the CPU or the GPU.

    `noise`: float32[rows, D or more]; or a table, float32[1, size], in which the noise of row r begins at `offset[r]`.
    """

    def __init__(
        self, layers: Sequence[int], rows: int, width: int, components: int, noise: Any, offset: Any | None = None
    ):
        """Take memory on the device of `noise`."""
        super().__init__(layers, rows, width, components, noise)
        share, self._layer_launches = wp.from_torch, []
        device, starts = wp.device_from_torch(noise.device), 0
        if offset is None:
            offset = self._torch.arange(rows, device=noise.device) * noise.stride(0)
        self._offset = offset
        begin = share(noise.view(-1)[:1])  # an address: Warp has no arrays of 2^31 numbers
        inputs = [share(tensor) for tensor in self._inputs]
        results = [*inputs[1:], share(self._outputs[-1])]
        for layer, (count, outputs) in enumerate(pairwise(layers)):
            kernel, threads = layer_kernel(count + 1, outputs, width, starts, layer + 2 < len(layers))
            arrays = [inputs[layer], begin, share(offset), share(self._shared[layer])]
            arrays.append(share(self._scale.view(rows, width)))
            self._layer_launches.append(_recorded(kernel, (rows * threads,), arrays, results[layer], device))
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


def _recorded(kernel: Any, size: tuple[int, ...], arrays: list[Any], result: Any, device: Any) -> Any:
    """Return a launch that can be repeated with little overhead, on the current stream."""
    return wp.launch(kernel, dim=size, inputs=arrays, outputs=[result], device=device, record_cmd=True, block_dim=BLOCK)


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


# result = shared + scale * (x E) for each world of a row, with E the noise, float32[INPUTS, OUTPUTS]
LAYER = """
struct alignas(4 * AT_ONCE) Numbers { float at[AT_ONCE]; };
const int row = thread / THREADS, place = thread % THREADS;
const int part = PARTS > 1 ? place / OUTPUTS : 0, group = PARTS > 1 ? place % OUTPUTS : place;
const size_t begin = (size_t)offset.data[row] + START;
const int shift = (int)(begin % AT_ONCE);  // memory is read from multiples of AT_ONCE
const Numbers* noise_here = (const Numbers*)(noise.data + (begin - shift)) + group;
const float* x = inputs.data + (size_t)row * WIDTH * INPUTS;
float sums[WIDTH][AT_ONCE], before[WIDTH];
bool late[AT_ONCE];  // the first numbers of the first thread are those of the last outputs, one input late
for (int i = 0; i < AT_ONCE; ++i) late[i] = group == 0 && i < shift;
for (int world = 0; world < WIDTH; ++world) {
  before[world] = 0;
  for (int i = 0; i < AT_ONCE; ++i) sums[world][i] = 0;
}
auto add = [&](int first) {
  #pragma unroll 8
  for (int k = first; k < INPUTS; k += PARTS) {
    const Numbers numbers = noise_here[(size_t)k * (OUTPUTS / AT_ONCE)];
    for (int world = 0; world < WIDTH; ++world) {
      const float now = x[world * INPUTS + k];
      for (int i = 0; i < AT_ONCE; ++i) sums[world][i] += (late[i] ? before[world] : now) * numbers.at[i];
      before[world] = now;
    }
  }
};
#if defined(__CUDA_ARCH__)
if (part < PARTS) add(part);
if (PARTS > 1)
  for (int world = 0; world < WIDTH; ++world) {
    const float mine = sums[world][0];
    sums[world][0] = 0;
    for (int i = 0; i < PARTS; ++i) sums[world][0] += __shfl_sync(0xffffffffu, mine, i * OUTPUTS + group);
  }
#else
if (part == 0)
  for (int i = 0; i < PARTS; ++i) add(i);
#endif
if (part > 0) return;
if (group == 0 && shift > 0) {
  const Numbers numbers = noise_here[(size_t)INPUTS * (OUTPUTS / AT_ONCE)];
  for (int world = 0; world < WIDTH; ++world)
    for (int i = 0; i < AT_ONCE; ++i)
      if (late[i]) sums[world][i] += before[world] * numbers.at[i];
}
for (int i = 0; i < AT_ONCE; ++i) {
  const int output = (AT_ONCE * group + i - shift + OUTPUTS) % OUTPUTS;
  for (int world = 0; world < WIDTH; ++world) {
    const size_t at = (size_t)row * WIDTH + world;
    const float value = shared.data[at * OUTPUTS + output] + scale.data[at] * sums[world][i];
    result.data[at * (OUTPUTS + HIDDEN) + output] = HIDDEN ? tanhf(value) : value;
  }
}
"""


@cache
def layer_kernel(inputs: int, outputs: int, width: int, start: int, hidden: bool) -> tuple[Any, int]:
    """Return the kernel of a layer whose noise begins at `start` of a row, and its threads for a row.

    `hidden`: with tanh; the inputs of the next layer end with a 1, the factor of the bias.
    """
    few = outputs <= FEW_OUTPUTS
    at_once = 4 if outputs % 4 == 0 and not few else 1
    threads = 32 if few else outputs // at_once
    sizes = {"INPUTS": inputs, "OUTPUTS": outputs, "WIDTH": width, "START": start, "HIDDEN": int(hidden)}
    sizes |= {"AT_ONCE": at_once, "THREADS": threads, "PARTS": 32 // outputs if few else 1}
    constants = "enum { " + ", ".join(f"{name} = {value}" for name, value in sizes.items()) + " };\n"

    @wp.func_native(constants + LAYER)  # type: ignore[untyped-decorator]
    def layer(
        thread: int,
        inputs: wp.array3d[float],
        noise: wp.array[float],
        offset: wp.array[wp.int64],
        shared: wp.array2d[float],
        scale: wp.array2d[float],
        result: wp.array3d[float],
    ) -> None: ...

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False)  # type: ignore[untyped-decorator]
    def kernel(
        x: wp.array3d[float],  # [rows, width, inputs]
        noise: wp.array[float],  # begins here
        offset: wp.array[wp.int64],  # [rows]
        shared: wp.array2d[float],  # [rows * width, outputs]
        scale: wp.array2d[float],  # [rows, width]
        result: wp.array3d[float],  # [rows, width, outputs, and one more if hidden]
    ) -> None:
        layer(wp.tid(), x, noise, offset, shared, scale, result)

    return kernel, threads
