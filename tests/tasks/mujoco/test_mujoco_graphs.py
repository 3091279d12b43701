"""Launching steps, with stand-ins for torch and Warp: the real ones need a GPU."""

import threading
from types import SimpleNamespace
from unittest import mock

import pytest

from ees_mpi.errors import TaskError
from ees_mpi.tasks.mujoco.buffers import missing_memory_is_refused
from ees_mpi.tasks.mujoco.gpu import Toolkit, preparing_kernels
from ees_mpi.tasks.mujoco.gpu_robots import Recorder
from ees_mpi.tasks.mujoco.physics import Scratch


def test_steps_are_tried_once_and_then_captured_together_unless_torch_takes_memory() -> None:
    torch, warp, step = (mock.MagicMock() for _ in range(3))
    recorder = Recorder(Toolkit(torch, warp, None, "cuda:0"))
    torch.cuda.memory_stats.side_effect = [{"allocation.all.allocated": count} for count in (1, 1, 1, 2)]
    recorder.record(step, repeat=3)()
    assert step.call_count == 1 + 3 and warp.capture_launch.call_count == 1
    with pytest.raises(RuntimeError, match="torch took memory"):
        recorder.record(step, repeat=1)


def test_steps_use_the_same_memory_again_and_what_a_graph_takes_stays_with_the_graph() -> None:
    memory = mock.MagicMock(is_capturing=False)
    memory.get_device.return_value = memory
    memory.empty.side_effect = lambda *words, **named: SimpleNamespace(ptr=1000 + memory.empty.call_count)
    scratch = Scratch(memory, "cuda:0")
    one, two = scratch.allocate(8), scratch.allocate(8)
    scratch.deallocate(two, 8)
    scratch.deallocate(one, 8)
    memory.is_capturing = True
    assert {scratch.allocate(8), scratch.allocate(8)} == {one, two} and memory.empty.call_count == 2
    third = scratch.allocate(8)
    scratch.deallocate(third, 8)
    assert memory.empty.call_count == 3 and scratch.allocate(8) != third


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
