"""MuJoCo as the engine of a task, on the CPU or on a GPU: it works with every `Plant`."""

from collections.abc import Callable

from ees_mpi.contracts import BatchEvaluator, NoisyWalks, Say, View
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Singles
from ees_mpi.policies import CLIP
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco.gpu import lacking
from ees_mpi.tasks.mujoco.plant import Plant
from ees_mpi.tasks.mujoco.rollouts import MujocoFilm, MujocoWalker

GPU_NETWORK = f"GPUs evaluate the built-in tanh network only, and clip observations to {CLIP:g}; got"


class MujocoEngine:
    """Makes the robots of a task. `plant`: compiles the robot; `contacts`, `constraints`: sizes of buffers on a GPU."""

    def __init__(self, task: WalkingTask, plant: Callable[[], Plant], contacts: int = 0, constraints: int = 0):
        self._task, self._plant, self._sizes = task, plant, (contacts, constraints)
        self._terminates = task.terminate == "environment"

    def check(self) -> None:
        """Compile the robot. A GPU is looked for at the start of a run only: it is not needed for reading one."""
        if self._task.unlike_gpu and self._task.device == "cuda":
            raise ConfigError(f'task.device = "cuda": {GPU_NETWORK} {self._task.unlike_gpu}; use task.device = "cpu"')
        self._plant()

    def walker(self, seed: int) -> MujocoWalker:
        """Return the robot on the CPU, controlled step by step."""
        return MujocoWalker(self._plant(), self._terminates, seed)

    def film(self, seed: int, view: View) -> MujocoFilm:
        """Return rollouts of the robot on the CPU in front of a camera."""
        return MujocoFilm(self._task, self._plant(), seed, view)

    def lacks_for_gpu(self) -> str:
        """Return a sentence fragment that says what this process lacks for a GPU; empty: nothing. Imports no torch."""
        return f"{GPU_NETWORK} {self._task.unlike_gpu}" if self._task.unlike_gpu else lacking()

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchEvaluator:
        """Return rollouts on the first visible GPU, for `wanted` individuals or as many as fit into its memory."""
        from ees_mpi.tasks.mujoco.cuda import open_batches  # imports torch and Warp

        return open_batches(self._task, self._plant(), self._sizes, seed, noise, wanted, antithetic, say)

    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Say) -> NoisyWalks:
        """Return robots on the first visible GPU that walk with noisy actions, `rollouts` of each policy."""
        from ees_mpi.tasks.mujoco.walks import open_walks  # imports torch and Warp

        return open_walks(self._task, self._plant(), self._sizes, seed, policies, rollouts, steps, say)
