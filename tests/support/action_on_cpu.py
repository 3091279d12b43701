"""The kernel of the replicas' action, compiled for the CPU: in double precision, one thread playing all lanes."""

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.tasks.mujoco.replica import action

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
