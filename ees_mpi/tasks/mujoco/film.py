"""Rollouts on the CPU, drawn by an offscreen renderer."""

import ctypes.util
import importlib
import os
import re
import sys

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.errors import MissingExtra
from ees_mpi.tasks.mujoco.model import library
from ees_mpi.tasks.mujoco.rollouts import Rollouts
from ees_mpi.tasks.mujoco.settings import Settings
from ees_mpi.tasks.silence import silence

FOLLOWING_DISTANCE = 4.0  # of Gymnasium's camera


class Filmed(Rollouts):
    """Rollouts with the same bits, under a camera."""

    def __init__(self, task: Settings, seed: int, view: View):
        _draw_without_a_screen()
        super().__init__(task, seed)
        mujoco = library()
        model, self._view = self._simulation.plant.model, view
        self.step_seconds = float(model.opt.timestep) * task.frame_skip
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, view.width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, view.height)
        why = ""
        try:
            with silence():
                self._renderer = mujoco.Renderer(model, view.height, view.width)
        except Exception as error:  # renderers raise many kinds without a screen, a library or a driver
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if why:  # not while the error is handled: a half-made renderer complains when it is collected
            hint = "without a screen MuJoCo needs a library (Debian: libegl1 or libosmesa6)"
            raise MissingExtra(f"task.model {task.model!r} cannot be drawn here ({why}); {hint}")
        self._camera = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, self._camera)
        self._camera.distance = view.distance if view.point else FOLLOWING_DISTANCE

    def place(self) -> tuple[float, ...]:
        """Return the robot's position now, as its behaviour counts it."""
        return self._simulation.position

    def picture(self) -> Pixels:
        """Draw the robot as it is now."""
        data, root = self._simulation.data, self._simulation.plant.root
        self._camera.lookat[:2] = self._view.point or data.xpos[root][:2]
        self._renderer.update_scene(data, self._camera)
        pixels: Pixels = np.asarray(self._renderer.render())
        return pixels

    def close(self) -> None:
        """Release the renderer."""
        self._renderer.close()


def _draw_without_a_screen() -> None:
    """Choose a way for MuJoCo to draw without a screen, unless the user has chosen one."""
    if {"DISPLAY", "MUJOCO_GL"} & os.environ.keys():
        return
    found = [name for library, name in (("EGL", "egl"), ("OSMesa", "osmesa")) if ctypes.util.find_library(library)]
    if found:
        os.environ["MUJOCO_GL"] = found[0]
        for name in [name for name in sys.modules if re.fullmatch(r"mujoco\..*gl_context", name)]:
            importlib.reload(sys.modules[name])  # it has read the variable when MuJoCo was imported
