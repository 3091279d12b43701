"""MuJoCo as the engine of a task, on the CPU or on a GPU: it works with every `RobotModel`.

Whether this process can use a GPU is found without importing torch as far as possible.
"""

import ctypes
import importlib.util
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ees_mpi.arrays import Singles
from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.policies import CLIP
from ees_mpi.tasks.base import BatchRollouts, Say
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco.gpu_robots import GpuRobots, GpuSetup, missing_memory_is_refused
from ees_mpi.tasks.mujoco.physics import measured_buffers
from ees_mpi.tasks.mujoco.robot_model import MujocoWalker, RobotModel, Toolkit

PACKAGES = {"torch": "torch with CUDA", "warp": "warp-lang", "mujoco_warp": "mujoco-warp"}
HINT = "pip install 'ees_mpi[gpu]'"

Made = TypeVar("Made", bound=GpuRobots)

GPU_NETWORK = f"GPUs evaluate the built-in tanh network only, and clip observations to {CLIP:g}; got"


class MujocoEngine:
    """Makes the robots of a task. `robot_model`: compiles it; `contacts`, `constraints`: sizes of buffers on a GPU."""

    def __init__(
        self, task: WalkingTask, robot_model: Callable[[], RobotModel], contacts: int = 0, constraints: int = 0
    ):
        self._task, self._robot_model, self._sizes = task, robot_model, (contacts, constraints)
        self._terminates = task.terminate == "environment"

    def check(self) -> None:
        """Compile the robot. A GPU is looked for at the start of a run only: it is not needed for reading one."""
        if self._task.unlike_gpu and self._task.device == "cuda":
            raise ConfigError(f'task.device = "cuda": {GPU_NETWORK} {self._task.unlike_gpu}; use task.device = "cpu"')
        self._robot_model()

    def walker(self, seed: int) -> MujocoWalker:
        """Return the robot on the CPU, controlled step by step."""
        return MujocoWalker(self._robot_model(), self._terminates, seed)

    def lacks_for_gpu(self) -> str:
        """Return a sentence fragment that says what this process lacks for a GPU; empty: nothing. Imports no torch."""
        return f"{GPU_NETWORK} {self._task.unlike_gpu}" if self._task.unlike_gpu else lacking()

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchRollouts:
        """Return rollouts on the first visible GPU, for `wanted` individuals or as many as fit into its memory."""
        from ees_mpi.tasks.mujoco.gpu_rollouts import GpuRollouts, bytes_of_a_row, rows_that_fit  # only for a GPU

        def make(setup: GpuSetup) -> GpuRollouts:
            width = 2 if antithetic else 1
            per_row = bytes_of_a_row(setup, width)
            rows = rows_that_fit(wanted, width, setup.tools.torch.cuda.mem_get_info(0)[0], noise.nbytes, per_row)
            say(f"copying the noise table to the GPU: {noise.nbytes / 1e9:.2f} GB")
            return GpuRollouts(setup, noise, rows, width)

        return self._on_gpu(make, seed, say)

    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Say) -> Any:
        """Return robots on the first visible GPU that walk with noisy actions, `rollouts` of each policy."""
        from ees_mpi.tasks.mujoco.noisy_walks import GpuNoisyWalks  # only for a GPU

        def make(setup: GpuSetup) -> GpuNoisyWalks:
            return GpuNoisyWalks(setup, policies, rollouts, steps)

        return self._on_gpu(make, seed, say)

    def _on_gpu(self, make: Callable[[GpuSetup], Made], seed: int, say: Say) -> Made:
        """Return the robots that `make` makes on the first visible GPU."""
        robot_model, tools, start = self._robot_model(), toolkit(say), time.perf_counter()
        setup = GpuSetup(tools, self._task, robot_model, seed, measured_buffers(robot_model, *self._sizes))
        with missing_memory_is_refused(), tools.torch.cuda.device(0), tools.warp.ScopedDevice(tools.device):
            robots = make(setup)
        say(f"the GPU is ready for {robots.worlds} robots after {time.perf_counter() - start:.0f} s")
        return robots


def lacking() -> str:
    """Return a sentence fragment that says what this process lacks for a GPU; empty: nothing. Imports no torch.

    CUDA must not start here: it would read CUDA_VISIBLE_DEVICES before a rank has chosen its GPU.
    """
    if not has_driver():
        return "this machine has no NVIDIA driver"
    missing = missing_package()
    return f"{missing} is missing ({HINT})" if missing else ""


def has_driver() -> bool:
    """Return whether the machine has the library of the NVIDIA driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def missing_package() -> str:
    """Name the first package that the GPU needs and that is missing here; empty if there is none."""
    for name, package in PACKAGES.items():
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            return package
        if name == "torch" and _built_for_cpu(Path(spec.origin).parent / "version.py"):
            return "torch with CUDA (the installed torch is built for the CPU)"
    return ""


def _built_for_cpu(version: Path) -> bool:
    try:
        return re.search(r"^cuda\b.*= *None", version.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except OSError:
        return False


def toolkit(say: Say) -> Toolkit:
    """Import torch, warp and mujoco_warp for the first visible GPU."""
    problem = lacking()
    if problem:
        raise ConfigError(f'task.device = "cuda": {problem}')
    try:
        import torch
        import warp

        warp.config.log_level = max(warp.config.log_level, getattr(warp, "LOG_WARNING", 30))
        warp.init()
        import mujoco_warp
    except ImportError as error:
        raise MissingExtra(f'task.device = "cuda": cannot import {error.name} ({error}): {HINT}') from None
    if not torch.cuda.is_available() or not warp.is_cuda_available():
        raise ConfigError(
            'task.device = "cuda": torch or Warp cannot use the GPU; is the NVIDIA driver too old for them?'
        )
    torch.set_float32_matmul_precision("highest")
    say(f"preparing {torch.cuda.get_device_name(0)}; the first time kernels are compiled, for up to a minute")
    return Toolkit(torch, warp, mujoco_warp, "cuda:0")
