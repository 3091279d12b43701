"""The task `mujoco`: Gymnasium v5's cheetah and ant, or an MJCF model of the user, on the CPU or on a GPU."""

from collections.abc import Callable

from ees_mpi.contracts import BatchEvaluator, View
from ees_mpi.outcomes import Singles
from ees_mpi.policies import CLIP
from ees_mpi.tasks.locomotion import Rollouts
from ees_mpi.tasks.mujoco.film import Filmed
from ees_mpi.tasks.mujoco.gpu import lacking
from ees_mpi.tasks.mujoco.rollouts import RobotWalker
from ees_mpi.tasks.mujoco.settings import OWN_ON_GPU, Settings


class Mujoco(Settings, frozen=True):
    """A robot in MuJoCo."""

    @property
    def label(self) -> str:
        """Return the name of the robot, or of the user's file."""
        return f"MuJoCo {self.model}"

    def open(self, seed: int) -> Rollouts:
        """Return rollouts of the robot on the CPU."""
        return Rollouts(self, self.walker(seed))

    def walker(self, seed: int) -> RobotWalker:
        """Return the robot on the CPU, controlled step by step."""
        return RobotWalker(self, self.start_seed(seed))

    def film(self, seed: int, view: View) -> Filmed:
        """Return rollouts of the robot on the CPU in front of a camera."""
        return Filmed(self, self.start_seed(seed), view)

    def lacks_for_gpu(self) -> str:
        """Return a sentence fragment that says what this process lacks for a GPU; empty: nothing. Imports no torch."""
        if self.policy:
            return OWN_ON_GPU
        if self.observation_clip != CLIP:
            return f"GPUs clip observations to {CLIP:g}, and task.observation_clip is {self.observation_clip:g}"
        return lacking()

    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> BatchEvaluator:
        """Return rollouts on the first visible GPU, for `wanted` individuals or as many as fit into its memory."""
        from ees_mpi.tasks.mujoco.cuda import open_batches  # imports torch and Warp

        return open_batches(self, self.start_seed(seed), noise, wanted, 0, say, antithetic)
