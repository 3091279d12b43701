"""MuJoCo as the engine of a task, on the CPU or on a GPU: it works with every `RobotModel`."""

import time
from collections.abc import Callable
from typing import TypeVar

from ees_mpi.arrays import Singles
from ees_mpi.errors import ConfigError
from ees_mpi.policies import CLIP
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco.buffers import measured_buffers, missing_memory_is_refused, rows_that_fit
from ees_mpi.tasks.mujoco.gpu import lacking, toolkit
from ees_mpi.tasks.mujoco.gpu_robots import GpuRobots, GpuSetup
from ees_mpi.tasks.mujoco.robot_model import RobotModel
from ees_mpi.tasks.mujoco.walker import MujocoWalker
from ees_mpi.tasks.rollouts import BatchRollouts, NoisyWalks, Say

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
        from ees_mpi.tasks.mujoco.gpu_rollouts import GpuRollouts, bytes_of_a_row  # only for a GPU

        def make(setup: GpuSetup) -> GpuRollouts:
            width = 2 if antithetic else 1
            per_row = bytes_of_a_row(setup, width)
            rows = rows_that_fit(wanted, width, setup.tools.torch.cuda.mem_get_info(0)[0], noise.nbytes, per_row)
            say(f"copying the noise table to the GPU: {noise.nbytes / 1e9:.2f} GB")
            return GpuRollouts(setup, noise, rows, width)

        return self._on_gpu(make, seed, say)

    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Say) -> NoisyWalks:
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
