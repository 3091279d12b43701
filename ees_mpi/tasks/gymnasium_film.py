"""Gymnasium environments before a camera: they draw themselves, MuJoCo's without a screen where they can."""

import ctypes.util
import os

import numpy as np

from ees_mpi.errors import MissingExtra
from ees_mpi.tasks.filming import Pixels, View
from ees_mpi.tasks.gymnasium import Gymnasium, Rollouts, library
from ees_mpi.tasks.silence import silence

FPS = 30  # of an environment that does not say


class Filmed(Rollouts):
    """Rollouts with the same bits, of an environment that draws itself."""

    def __init__(self, task: Gymnasium, seed: int, view: View):
        self._view = view
        _draw_without_a_screen()
        try:
            super().__init__(task, seed, render_mode="rgb_array", **_size(task, view))
        except AttributeError as error:  # how MuJoCo's bindings say that a library is missing
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
        """Return where the robot is now, if the environment tells; nothing else is a place."""
        if self._task.behavior in ("final_x", "final_xy"):
            return tuple(self._behavior(self.rollout))
        info = self.rollout.infos[-1] if self.rollout.infos else {}
        return tuple(float(info[key]) for key in ("x_position", "y_position")[: self._dim] if key in info)

    def picture(self) -> Pixels:
        """Let the environment draw itself."""
        why = ""
        try:
            self._aim()
            pixels = np.asarray(self._env.render())
        except Exception as error:  # whatever a renderer raises where it has no screen, no library, no driver
            why = f"{type(error).__name__}: {error}"
        if why:  # not while the error is handled: a renderer that is half made complains when it goes
            raise _cannot_draw(self._task, why)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise _cannot_draw(self._task, f"it gave {pixels.dtype} of shape {pixels.shape}, not a picture")
        return pixels

    def _aim(self) -> None:
        """Let MuJoCo's camera follow the robot, or look where all are to be seen; left alone it stays at the start."""
        viewer = getattr(getattr(self._env.unwrapped, "mujoco_renderer", None), "viewer", None)
        if viewer is None:
            return
        viewer.cam.lookat[:2] = self._view.point or self._env.unwrapped.data.xpos[1][:2]  # body 0 is the world
        if self._view.point:
            viewer.cam.distance = self._view.distance


def _size(task: Gymnasium, view: View) -> dict[str, int]:
    """Return the arguments that set the size of pictures: MuJoCo's environments have some, others need not."""
    spec = library().registry.get(task.env)
    return {"width": view.width, "height": view.height} if "mujoco" in str(getattr(spec, "entry_point", "")) else {}


def _draw_without_a_screen() -> None:
    """Tell MuJoCo, which would look for a screen, what else it can draw with here."""
    if {"DISPLAY", "MUJOCO_GL"}.isdisjoint(os.environ):
        for library, name in (("EGL", "egl"), ("OSMesa", "osmesa")):
            if ctypes.util.find_library(library):
                os.environ["MUJOCO_GL"] = name
                return


def _cannot_draw(task: Gymnasium, why: str) -> MissingExtra:
    hint = "MuJoCo, where there is no screen, needs a library (Debian: libegl1 or libosmesa6)"
    return MissingExtra(f"task.env {task.env!r} cannot draw itself here ({' '.join(why.split())}). {hint}")
