"""The task `mujoco`: Gymnasium v5's cheetah and ant, or an MJCF model of the user, on the CPU or on a GPU."""

from collections.abc import Callable

from ees_mpi.contracts import BatchEvaluator, NoisyWalks, View
from ees_mpi.outcomes import Singles
from ees_mpi.tasks.locomotion import Rollouts
from ees_mpi.tasks.mujoco.engine import MujocoEngine
from ees_mpi.tasks.mujoco.film import Filmed
from ees_mpi.tasks.mujoco.rollouts import RobotWalker
from ees_mpi.tasks.mujoco.settings import Settings


class Mujoco(Settings, frozen=True):
    """A robot in MuJoCo."""

    @property
    def label(self) -> str:
        """Return the name of the robot, or of the user's file."""
        return f"MuJoCo {self.model}"

    def check(self) -> None:
        """Compile the model, and try the user's own network."""
        self._engine().check()
        super().check()

    def open(self, seed: int) -> Rollouts:
        """Return rollouts of the robot on the CPU."""
        return Rollouts(self, self.walker(seed))

    def walker(self, seed: int) -> RobotWalker:
        """Return the robot on the CPU, controlled step by step."""
        return self._engine().walker(self.start_seed(seed))

    def film(self, seed: int, view: View) -> Filmed:
        """Return rollouts of the robot on the CPU in front of a camera."""
        return self._engine().film(self.start_seed(seed), view)

    def lacks_for_gpu(self) -> str:
        """Return what this process lacks for a GPU; empty: nothing. Imports no torch."""
        return self._engine().lacks_for_gpu()

    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> BatchEvaluator:
        """Return rollouts on the first visible GPU, for `wanted` individuals or as many as fit into its memory."""
        return self._engine().open_batches(self.start_seed(seed), noise, wanted, antithetic, say)

    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Callable[[str], None]) -> NoisyWalks:
        """Return robots on the first visible GPU that walk with noisy actions, `rollouts` of each policy."""
        return self._engine().open_walks(self.start_seed(seed), policies, rollouts, steps, say)

    def _engine(self) -> MujocoEngine:
        return MujocoEngine(self, self.plant, self.contacts, self.constraints)
