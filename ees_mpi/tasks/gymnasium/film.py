"""Films of Gymnasium environments, which draw themselves. MuJoCo needs no screen if the machine has EGL or OSMesa."""

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.errors import MissingExtra
from ees_mpi.tasks.gymnasium.environment import Environment, library
from ees_mpi.tasks.gymnasium.rollouts import Rollouts
from ees_mpi.tasks.screen import HINT, draw_without_a_screen
from ees_mpi.tasks.silence import silence

FPS = 30  # of an environment that does not define its own


class Filmed(Rollouts):
    """Rollouts with the same bits, in an environment that draws itself."""

    def __init__(self, task: Environment, seed: int, dim: int, view: View):
        self._view = view
        draw_without_a_screen()
        try:
            super().__init__(task, seed, dim, render_mode="rgb_array", **_size(task, view))
        except AttributeError as error:  # the error of MuJoCo if a library is missing
            raise _cannot_draw(task, str(error)) from None
        self.step_seconds = 1.0 / float(self._env.metadata.get("render_fps") or FPS)
        self._env.reset(seed=self._seed)
        try:
            with silence():
                self.picture()
        except MissingExtra:
            self.close()
            raise

    def place(self) -> tuple[float, ...]:
        """Return the present position of the robot, if the environment has one."""
        if self._task.behavior in ("final_x", "final_xy"):
            return tuple(self._behavior(self.rollout))
        info = self.rollout.infos[-1] if self.rollout.infos else {}
        return tuple(float(info[key]) for key in ("x_position", "y_position")[: self._dim] if key in info)

    def picture(self) -> Pixels:
        """Return the picture that the environment draws."""
        failure = ""
        try:
            self._aim()
            pixels = np.asarray(self._env.render())
        except Exception as error:  # renderers raise many kinds of errors without a screen, a library or a driver
            failure = f"{type(error).__name__}: {error}"
        if failure:  # outside of the handler: an incomplete renderer raises another error when it is deleted
            raise _cannot_draw(self._task, failure)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise _cannot_draw(self._task, f"expected uint8 pictures, got {pixels.dtype} of shape {pixels.shape}")
        return pixels

    def _aim(self) -> None:
        """Point MuJoCo's camera at the robot or at the point of the view; otherwise it stays at the start."""
        viewer = getattr(getattr(self._env.unwrapped, "mujoco_renderer", None), "viewer", None)
        if viewer is None:
            return
        viewer.cam.lookat[:2] = self._view.point or self._env.unwrapped.data.xpos[1][:2]  # body 0 is the world
        if self._view.point:
            viewer.cam.distance = self._view.distance


def _size(task: Environment, view: View) -> dict[str, int]:
    """Return the arguments that set the size of pictures; only MuJoCo's environments have them."""
    spec = library().registry.get(task.env)
    return {"width": view.width, "height": view.height} if "mujoco" in str(getattr(spec, "entry_point", "")) else {}


def _cannot_draw(task: Environment, reason: str) -> MissingExtra:
    return MissingExtra(f"task.env {task.env!r} cannot be drawn on this machine ({' '.join(reason.split())}); {HINT}")
