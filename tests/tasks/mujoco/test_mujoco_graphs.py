"""Launching steps, with stand-ins for torch and Warp: the real ones need a GPU."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ees_mpi.errors import TaskError
from ees_mpi.outcomes import Batch
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco.cuda import GpuRollouts
from ees_mpi.tasks.mujoco.gpu import Toolkit
from ees_mpi.tasks.mujoco.graphs import Recorder
from ees_mpi.tasks.mujoco.lane import Lane
from ees_mpi.tasks.mujoco.scratch import Scratch
from ees_mpi.tasks.mujoco.waiting import FirstSteps, Waiting

SCOPES = dict.fromkeys(("ScopedDevice", "ScopedLogger", "ScopedLogLevel"), lambda setting: nullcontext())
LOGGER = SimpleNamespace(warning=None, error=None)
TOOLS = Toolkit(None, SimpleNamespace(**SCOPES, get_logger=lambda: LOGGER, LOG_INFO=20), None, "cpu")


def test_steps_without_a_graph_come_in_order() -> None:
    done: list[str] = []
    parts = [lambda name=name: done.append(name) for name in ("policy", "physics", "notes")]
    Recorder(TOOLS).record("eager", *parts, repeat=2)()
    assert done == ["policy", "physics", "notes"] * 2


def lane(ways: tuple[str, ...], broken: dict[str, Exception]) -> Any:
    """Return a lane of which only the choice between the ways is real."""
    made: Any = object.__new__(Lane)
    made._ways, made._tools, made._policies = ways, TOOLS, lambda components: None

    def record(way: str) -> None:
        if way in broken:
            raise broken[way]

    made._record = record
    return made


def test_the_next_way_is_tried_where_one_fails() -> None:
    made = lane(("joint", "split"), {"joint": RuntimeError("capture\nfailed")})
    made.prepare(1)
    assert made.way == "split" and made.failures == ["joint: capture failed"]


def test_an_error_names_all_ways_that_failed() -> None:
    made = lane(("joint", "split"), {way: RuntimeError("no") for way in ("joint", "split")})
    with pytest.raises(TaskError, match="joint: no; split: no"):
        made.prepare(1)


@pytest.mark.parametrize("text", ["CUDA out of memory. Tried to", "Failed to allocate 8 bytes on device 'cuda:0'"])
def test_missing_memory_is_one_sentence(text: str) -> None:
    with pytest.raises(TaskError, match=r"^out of GPU memory; lower noise\.size") as caught:
        lane(("joint", "split"), {"joint": RuntimeError(text)}).prepare(1)
    assert "\n" not in str(caught.value)


class Noted:
    """A stand-in for a lane that notes the calls."""

    sampled, steps_per_launch = 8, 10

    def __init__(self, name: str, calls: list[str]):
        self._name, self._calls, self.members = name, calls, np.empty(0, np.int64)

    def __getattr__(self, call: str) -> Any:
        return lambda *arguments: self._calls.append(f"{self._name} {call}")

    def load(self, batch: Batch, seats: Any, *statistics: Any) -> None:
        self._calls.append(f"{self._name} load")
        self.members = seats.member

    def read(self, batch: Batch) -> dict[int, Any]:
        return {place: (self._name, place) for place in self.members.tolist()}


def test_lanes_take_turns_and_pairs_stay_in_one_lane() -> None:
    calls: list[str] = []
    rollouts: Any = object.__new__(GpuRollouts)
    rollouts._task, rollouts._rows, rollouts._width = TASKS.build({"name": "mujoco", "steps": 21}), 2, 2
    rollouts._tools, rollouts._say, rollouts._first = TOOLS, print, None
    rollouts._components, rollouts.lanes = 0, [Noted("a", calls), Noted("b", calls)]
    n = 10
    sign = np.tile(np.array([1, -1], np.int8), n // 2)
    nothing = np.zeros(n, np.int32), np.zeros(n, np.bool_)
    batch = Batch(np.arange(n), np.zeros((1, 3), np.float32), 0.1, np.repeat(np.arange(5), 2), sign, *nothing)
    outcomes = rollouts.evaluate_batch(batch, np.zeros(1), np.ones(1))
    assert [place for _, place in outcomes] == list(range(n))
    assert [name for name, _ in outcomes] == ["a"] * 4 + ["b"] * 4 + ["a"] * 2
    steps = ["launch", "launch", "launch_one"]
    first = ["a load", "b load", *(f"{name} {step}" for step in steps for name in "ab")]
    assert calls == ["a prepare", "b prepare", *first, "a load", *(f"a {step}" for step in steps)]


def test_a_wait_says_what_it_waits_for_until_it_ends() -> None:
    said, enough = [], threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            enough.set()

    with Waiting(say, lambda: "preparing kernels: 7 modules are ready", every=1e-4):
        assert enough.wait(60)
    count = len(said)
    assert all(line.startswith("preparing kernels: 7 modules are ready (") for line in said) and len(said) == count


def test_the_first_batch_says_how_many_steps_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ees_mpi.tasks.mujoco.waiting.EVERY", 0.0)
    said: list[str] = []
    waits: list[int] = []
    first = FirstSteps(said.append, 1000)
    first.done(250, lambda: waits.append(1))
    assert said == ["first batch: 250 of 1,000 steps"] and waits == [1]


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
