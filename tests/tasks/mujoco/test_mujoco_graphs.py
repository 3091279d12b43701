"""Launching steps, with stand-ins for torch and Warp: the real ones need a GPU."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ees_mpi.errors import TaskError
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco.cuda import GpuRollouts
from ees_mpi.tasks.mujoco.graphs import Recorder

WARP = SimpleNamespace(ScopedDevice=lambda device: nullcontext())


def test_steps_without_a_graph_come_in_order() -> None:
    done: list[str] = []
    parts = [lambda name=name: done.append(name) for name in ("policy", "physics", "notes")]
    Recorder(None, WARP, "cpu").record("eager", *parts, repeat=2)()
    assert done == ["policy", "physics", "notes"] * 2


def rollouts(monkeypatch: pytest.MonkeyPatch, ways: tuple[str, ...], broken: dict[str, Exception]) -> Any:
    """An evaluator of which only the choice between the ways is real."""
    evaluator: Any = object.__new__(GpuRollouts)
    evaluator._ways, evaluator._torch, evaluator._warp, evaluator._device = ways, None, WARP, "cpu"
    evaluator._task, evaluator._rows, evaluator._width, evaluator._noise = TASKS.build({"name": "mujoco"}), 1, 1, None
    monkeypatch.setattr("ees_mpi.tasks.mujoco.cuda.BatchPolicy", lambda *arguments: None)

    def record(way: str) -> None:
        if way in broken:
            raise broken[way]

    evaluator._record = record
    return evaluator


def test_the_next_way_is_tried_where_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = rollouts(monkeypatch, ("joint", "split"), {"joint": RuntimeError("capture\nfailed")})
    evaluator._prepare(1)
    assert evaluator.way == "split" and evaluator.failures == ["joint: capture failed"]


def test_an_error_names_all_ways_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = rollouts(monkeypatch, ("joint", "split"), {way: RuntimeError("no") for way in ("joint", "split")})
    with pytest.raises(TaskError, match="joint: no; split: no"):
        evaluator._prepare(1)
