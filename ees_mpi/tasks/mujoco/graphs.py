"""Several steps of policy and physics as one CUDA graph, so that launching kernels costs nothing.

Ways, best first:

    joint      Warp captures its stream, and torch's kernels on the same stream go into the same graph
    external   torch captures, and Warp joins in
    split      policy and physics are separate graphs, launched in turns
    eager      no graph: for tests on the CPU, and to look for errors
"""

import gc
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ees_mpi.tasks.mujoco.gpu import Toolkit

WAYS = ("joint", "external", "split")
Step = Callable[[], None]


class Recorder:
    """Turns the parts of a step into something that launches them fast; torch and Warp share one stream."""

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

    def record(self, way: str, policy: Step, physics: Step, notes: Step, repeat: int) -> Step:
        """Return a function that does `repeat` steps: policy, then physics, then notes. Call it on the stream."""

        def steps() -> None:
            for _ in range(repeat):
                policy()
                physics()
                notes()

        if way == "eager":
            return steps
        for part in (policy, physics, notes):  # loads kernels and takes the memory of cuBLAS before the capture
            part()
        self.synchronize()
        gc.collect()  # nothing may be freed by chance while a graph is captured
        if way == "joint":
            return self.captured_by_warp(steps)
        if way == "external":
            return self.captured_by_torch(steps, joined=True)
        parts = (self.captured_by_torch(policy), self.captured_by_warp(physics), self.captured_by_torch(notes))

        def in_turns() -> None:
            for _ in range(repeat):
                for part in parts:
                    part()

        return in_turns

    def captured_by_warp(self, work: Step) -> Step:
        """Capture `work` as a graph; return a function that launches it."""
        mode = self._warp.CaptureMode.RELAXED
        with self._warp.ScopedCapture(stream=self._warp_stream, capture_mode=mode) as capture:
            self._without_allocations(work)
        return lambda: self._warp.capture_launch(capture.graph, stream=self._warp_stream)

    def captured_by_torch(self, work: Step, joined: bool = False) -> Step:
        """Capture `work` as a graph of torch; `joined`: with kernels of Warp that take memory."""
        graph = self._torch.cuda.CUDAGraph()
        mode = self._warp.CaptureMode.RELAXED
        with self._torch.cuda.graph(graph, stream=self._stream, capture_error_mode="relaxed"):
            if joined:
                with self._warp.ScopedCapture(stream=self._warp_stream, external=True, capture_mode=mode):
                    self._without_allocations(work)
            else:
                work()
        replay: Step = graph.replay
        return replay

    def _without_allocations(self, work: Step) -> None:
        """Do some work in which torch must not take memory: others could overwrite it between two launches."""
        before = self._torch.cuda.memory_stats(self._device).get("allocation.all.allocated", 0)
        work()
        if self._torch.cuda.memory_stats(self._device).get("allocation.all.allocated", 0) != before:
            raise RuntimeError("torch took memory while a graph was captured")
