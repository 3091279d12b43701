"""Memory for the steps of MuJoCo Warp, which takes some 25 arrays in every physics step and gives them back."""

from typing import Any


class Scratch:
    """An allocator of Warp that keeps returned memory for the next request of the same size.

    So a CUDA graph of steps contains kernels only: Warp's own allocator adds two nodes to the graph for every array.
    All requests must come from one stream: memory is used again in the order of the stream.
    """

    deallocate_requires_context_guard = False  # of Warp's allocators: `deallocate` calls no CUDA function

    def __init__(self, warp: Any, device: Any):
        self._warp, self._device = warp, warp.get_device(device)
        self._blocks: dict[int, tuple[Any, bool]] = {}  # address -> array, whether it belongs to a graph
        self._free: dict[int, list[int]] = {}  # size -> addresses

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes."""
        if waiting := self._free.get(size):
            return waiting.pop()
        belongs_to_graph = bool(self._device.is_capturing)
        with self._warp.ScopedAllocator(self._device, None):
            block = self._warp.empty(size, dtype=self._warp.uint8, device=self._device)
        self._blocks[block.ptr] = block, belongs_to_graph
        address: int = block.ptr
        return address

    def deallocate(self, address: int, size: int) -> None:
        """Keep memory for later; memory that a graph has taken itself goes back to the graph."""
        if self._blocks[address][1]:
            del self._blocks[address]
        else:
            self._free.setdefault(size, []).append(address)
