"""Launching steps, with stand-ins for torch and Warp: the real ones need a GPU."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ees_mpi.errors import TaskError
from ees_mpi.tasks.mujoco.buffers import missing_memory_is_refused
from ees_mpi.tasks.mujoco.gpu import Toolkit, preparing_kernels
from ees_mpi.tasks.mujoco.physics import Scratch
from ees_mpi.tasks.mujoco.worlds import Recorder


class Device:
    """A stand-in for torch and Warp that notes what happens on the device."""

    CaptureMode = SimpleNamespace(RELAXED="relaxed")

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.cuda = SimpleNamespace(Stream=lambda device: self, memory_stats=lambda device: self.statistics)
        self.statistics = {"allocation.all.allocated": 0}

    def stream_from_torch(self, stream: Any) -> Any:
        return stream

    def synchronize(self) -> None:
        self.calls.append("wait")

    @contextmanager
    def ScopedCapture(self, stream: Any, capture_mode: str) -> Iterator[Any]:
        self.calls.append("capture")
        yield SimpleNamespace(graph="graph")
        self.calls.append("captured")

    def capture_launch(self, graph: str, stream: Any) -> None:
        self.calls.append(graph)


def test_steps_are_tried_once_and_then_captured_together() -> None:
    device = Device()
    launch = Recorder(Toolkit(device, device, None, "cuda:0")).record(lambda: device.calls.append("step"), repeat=3)
    launch()
    assert device.calls == ["step", "wait", "capture", "step", "step", "step", "captured", "graph"]


def test_steps_in_which_torch_takes_memory_cannot_be_captured() -> None:
    device = Device()
    with pytest.raises(RuntimeError, match="torch took memory"):
        Recorder(Toolkit(device, device, None, "cuda:0")).record(
            lambda: device.statistics.update({"allocation.all.allocated": len(device.calls)}), repeat=1
        )


@pytest.mark.parametrize("text", ["CUDA out of memory. Tried to", "Failed to allocate 8 bytes on device 'cuda:0'"])
def test_missing_memory_is_one_sentence(text: str) -> None:
    with (
        pytest.raises(TaskError, match=r"^out of GPU memory; lower noise\.size") as caught,
        missing_memory_is_refused(),
    ):
        raise RuntimeError(text)
    assert "\n" not in str(caught.value)


def test_a_wait_says_what_it_waits_for_until_it_ends() -> None:
    said, enough = [], threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            enough.set()

    with preparing_kernels(say, every=1e-4):
        assert enough.wait(60)
    count = len(said)
    assert all(line.startswith("preparing kernels (") for line in said) and len(said) == count


class Memory:
    """A stand-in for Warp's memory: each array has an address."""

    uint8, is_capturing = "uint8", False

    def __init__(self) -> None:
        self.taken = 0

    def get_device(self, name: str) -> "Memory":
        return self

    def ScopedAllocator(self, device: Any, allocator: Any) -> Any:
        assert allocator is None  # Warp's own
        return nullcontext()

    def empty(self, size: int, dtype: str, device: Any) -> Any:
        self.taken += 1
        return SimpleNamespace(ptr=1000 + self.taken)


def test_steps_use_the_same_memory_again_and_what_a_graph_takes_stays_with_the_graph() -> None:
    memory = Memory()
    scratch = Scratch(memory, "cuda:0")
    one, two = scratch.allocate(8), scratch.allocate(8)
    scratch.deallocate(two, 8)
    scratch.deallocate(one, 8)
    memory.is_capturing = True
    assert {scratch.allocate(8), scratch.allocate(8)} == {one, two} and memory.taken == 2
    third = scratch.allocate(8)
    scratch.deallocate(third, 8)
    assert memory.taken == 3 and scratch.allocate(8) != third
