"""Launching steps, with stand-ins for torch and Warp: the real ones need a GPU."""

import threading

import pytest

from ees_mpi.errors import TaskError
from ees_mpi.tasks.mujoco.buffers import missing_memory_is_refused
from ees_mpi.tasks.mujoco.gpu import preparing_kernels


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
