"""Several steps of policy and physics as one CUDA graph, so that launching kernels costs nothing.

Warp captures its stream; torch's kernels on the same stream go into the same graph. On the CPU there are no graphs:
steps run one by one, for tests.
"""

import gc
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ees_mpi.tasks.mujoco.gpu import Toolkit

Step = Callable[[], None]


class Recorder:
    """Turns steps into something that launches them fast; torch and Warp share one stream."""

    def __init__(self, tools: Toolkit):
        self._torch, self._warp, self._device = tools.torch, tools.warp, tools.device
        self._cuda = tools.device.startswith("cuda")
        self._stream: Any = tools.torch.cuda.Stream(tools.device) if self._cuda else None
        self._warp_stream: Any = tools.warp.stream_from_torch(self._stream) if self._cuda else None

    def on_stream(self) -> ExitStack:
        """Let torch and Warp work on this recorder's stream, until the returned context ends."""
        stack = ExitStack()
        stack.enter_context(self._warp.ScopedDevice(self._device))
        if self._cuda:
            self._stream.wait_stream(self._torch.cuda.current_stream(self._device))
            stack.enter_context(self._torch.cuda.stream(self._stream))
            stack.enter_context(self._warp.ScopedStream(self._warp_stream))
        return stack

    def synchronize(self) -> None:
        """Wait until all work of the stream is done."""
        if self._cuda:
            self._stream.synchronize()

    def record(self, step: Step, repeat: int) -> Step:
        """Return a function that does `repeat` steps. Call it on the stream."""

        def steps() -> None:
            for _ in range(repeat):
                step()

        if not self._cuda:
            return steps
        step()  # loads kernels and takes the memory of cuBLAS before the capture
        self.synchronize()
        gc.collect()  # nothing may be freed by chance while a graph is captured
        return self.captured(steps)

    def captured(self, work: Step) -> Step:
        """Capture `work` as a graph; return a function that launches it."""
        mode = self._warp.CaptureMode.RELAXED
        with self._warp.ScopedCapture(stream=self._warp_stream, capture_mode=mode) as capture:
            before = self._allocations()
            work()
            if self._allocations() != before:  # others could overwrite that memory between two launches
                raise RuntimeError("torch took memory while a graph was captured")
        return lambda: self._warp.capture_launch(capture.graph, stream=self._warp_stream)

    def _allocations(self) -> int:
        return int(self._torch.cuda.memory_stats(self._device).get("allocation.all.allocated", 0))
