"""The kernel of the replicas' action computes what the robots on the CPU compute: here in double precision."""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")
from ees_mpi.arrays import Floats
from ees_mpi.tasks.mujoco.replica import action
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS
from ees_mpi.tasks.mujoco.replica.robots import replica_model
from ees_mpi.tasks.mujoco.robot_model import MujocoWalker

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
STRENGTHS = np.array([0.1, 0.5, 1.0])
ACTIONS = 25  # after which walks part because of rounding
ARRAYS = ("qpos", "qvel", "ctrl", "memory", "rows", "time", "place", "observation")
HEAD = """
#include <cmath>
#include <cstddef>
#define CUDA_CALLABLE
struct array { float* data; };
extern "C" void run(int worlds, int steps, float** at) {
"""
FORWARDS = "for (int i = 0; i < (count); ++i)"
BACKWARDS = "for (int i = (count)-1; i >= 0; --i)"


def compiled(robot_model: Any, folder: Path, backwards: bool = False) -> Any:
    """Compile the action of a robot; `backwards`: all work that lanes share is done from the last to the first."""
    text = action.source(robot_model.rules, robot_model.model)
    if backwards:
        assert FORWARDS in text
        text = text.replace(FORWARDS, BACKWARDS)
    arrays = "".join(f"array {name}{{at[{number}]}};\n" for number, name in enumerate(ARRAYS))
    text = f"{HEAD}{arrays}auto one = [&](int thread) {{\n{text}\n}};\n"
    text += f"for (int world = 0; world < worlds; ++world) one(world * {action.LAYOUT.lanes});\n}}\n"
    text = re.sub(r"\b(sqrt|cos|sin|atan2|asin|fabs|rint)f\(", r"\1(", text)
    text = re.sub(r"(?<=\d)f\b", "", re.sub(r"\bfloat\b", "double", text))
    source, library = folder / "action.cpp", folder / "action.so"
    source.write_text(text, encoding="utf-8")
    subprocess.run(["c++", "-std=c++17", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


class ActionOnCpu:
    """Robots that step together; arrays as in `many.py`, but float64. `library`: of `compiled`, with today's layout."""

    def __init__(self, robot_model: Any, worlds: int, library: Any):
        sizes, rules = action.sizes_of(robot_model.rules, robot_model.model), robot_model.rules
        more = max(1, action.more_rows(sizes))
        model = robot_model.model
        widths = (model.nq, model.nv, model.nu, sizes["MEMORY"], more, 1, 2, rules.observations)
        arrays = {name: np.zeros((worlds, width)) for name, width in zip(ARRAYS, widths, strict=True)}
        self.qpos, self.ctrl, self.place = arrays["qpos"], arrays["ctrl"], arrays["place"]
        self.observation, self._arrays, self._worlds = arrays["observation"], arrays, worlds
        addresses = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays.values()]
        self._at = (ctypes.c_void_p * len(addresses))(*addresses)
        self._library = library

    def run(self, steps: int) -> None:
        """Move all robots for so many physics steps, and observe; 0: only observe."""
        self._library.run(self._worlds, steps, self._at)

    def bits(self) -> bytes:
        """Return the state of all robots."""
        return b"".join(self._arrays[name].tobytes() for name in ARRAYS if name != "rows")


def actions_of(robot: str) -> Floats:
    """Return actions for each step and world."""
    size = len(replica_model(robot).rules.joints)
    drawn = STRENGTHS[:, None] * np.random.default_rng(3).standard_normal((ACTIONS, len(STRENGTHS), size))
    return np.clip(drawn.astype(np.float32), -1, 1)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Compile the kernel of a robot, once for both tests."""
    return cache(lambda robot: compiled(replica_model(robot), tmp_path_factory.mktemp(robot)))


def started(robot: str, library: Any) -> ActionOnCpu:
    robots = ActionOnCpu(replica_model(robot), len(STRENGTHS), library)
    robots.qpos[:] = [replica_model(robot).start(seed)[0] for seed in range(len(STRENGTHS))]
    robots.run(0)
    return robots


@pytest.mark.parametrize("robot", ["cheetah", "ant"])
def test_the_kernel_follows_the_rules_of_the_cpu(robot: str, library: Callable[[str], Any]) -> None:
    robots, walkers = started(robot, library(robot)), [MujocoWalker(replica_model(robot), False, s) for s in range(3)]
    np.testing.assert_allclose(robots.observation, [walker.reset() for walker in walkers], atol=1e-6)
    for actions in actions_of(robot):
        robots.ctrl[:] = actions
        robots.run(SUB_STEPS)
        seen = [walker.step(action)[0] for walker, action in zip(walkers, actions, strict=True)]
        np.testing.assert_allclose(robots.qpos, [walker.data.qpos for walker in walkers], atol=1e-8)
        np.testing.assert_allclose(robots.observation, seen, atol=1e-6)  # walkers round observations
        places = [walker.position for walker in walkers]
        np.testing.assert_allclose(robots.place[:, : len(places[0])], places, atol=1e-8)
    assert robots._arrays["memory"].any()  # they have touched the floor


@pytest.mark.parametrize("robot", ["cheetah", "ant"])
def test_neither_the_order_of_lanes_nor_where_rows_are_kept_changes_bits(
    robot: str, library: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robots = [started(robot, library(robot))]
    monkeypatch.setattr(action, "LAYOUT", action.Layout(32, 1, 1, rows=3))
    robots.append(started(robot, compiled(replica_model(robot), tmp_path, backwards=True)))
    for actions in actions_of(robot)[:15]:
        for some in robots:
            some.ctrl[:] = actions
            some.run(SUB_STEPS)
    assert robots[0].bits() == robots[1].bits()
