"""Films of MuJoCo robots: rollouts on the CPU, drawn by an offscreen renderer."""

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.errors import MissingExtra
from ees_mpi.tasks.locomotion import Rollouts, WalkingTask
from ees_mpi.tasks.mujoco.plant import Plant, library
from ees_mpi.tasks.mujoco.rollouts import RobotWalker
from ees_mpi.tasks.screen import HINT, draw_without_a_screen
from ees_mpi.tasks.silence import silence

FOLLOWING_DISTANCE = 4.0  # of Gymnasium's camera


class Filmed(Rollouts):
    """Rollouts with the same bits, in front of a camera."""

    def __init__(self, task: WalkingTask, plant: Plant, seed: int, view: View):
        draw_without_a_screen()
        walker = RobotWalker(plant, task.terminate == "environment", seed)
        super().__init__(task, walker)
        mujoco, model, self._walker, self._view = library(), plant.model, walker, view
        self.step_seconds = plant.step_seconds
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, view.width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, view.height)
        failure = ""
        try:
            with silence():
                self._renderer = mujoco.Renderer(model, view.height, view.width)
        except Exception as error:  # renderers raise many kinds of errors without a screen, a library or a driver
            failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if failure:  # outside of the handler: an incomplete renderer raises another error when it is deleted
            raise MissingExtra(f"MuJoCo cannot draw on this machine ({failure}); {HINT}")
        self._camera = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, self._camera)
        self._camera.distance = view.distance if view.point else FOLLOWING_DISTANCE

    def picture(self) -> Pixels:
        """Draw the robot."""
        data, root = self._walker.data, self._walker.plant.root
        self._camera.lookat[:2] = self._view.point or data.xpos[root][:2]
        self._renderer.update_scene(data, self._camera)
        pixels: Pixels = np.asarray(self._renderer.render())
        return pixels

    def close(self) -> None:
        """Release the renderer."""
        self._renderer.close()
