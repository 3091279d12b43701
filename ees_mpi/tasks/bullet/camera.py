"""Pictures of a Bullet robot, drawn by Bullet's software renderer, which needs no screen."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ees_mpi.contracts import View
from ees_mpi.tasks.bullet.world import World, pybullet

PITCH = -25.0  # degrees
LENS = 45.0  # degrees, from the lower edge of the picture to the upper
NEAR, FAR = 0.1, 200.0
DISTANCE = 3.6  # of the camera from the point that it looks at
HEIGHT = 0.4  # of the point that the camera looks at
LIGHTING = {
    "lightDirection": (-0.4, -0.5, 1.0),
    "shadow": 0,  # with shadows, drawing takes twice as long
    "lightAmbientCoeff": 0.65,
    "lightDiffuseCoeff": 0.45,
    "lightSpecularCoeff": 0.05,
}


class Camera:
    """A camera that looks along +y, with +x to the right, at the robot, at a fixed angle."""

    def __init__(self, view: View) -> None:
        self._view, self._point = view, (0.0, 0.0)
        self._lens = pybullet.computeProjectionMatrixFOV(LENS, view.width / view.height, NEAR, FAR)

    def picture(self, world: World, place: Sequence[float]) -> NDArray[np.uint8]:
        """Draw the world as uint8[height, width, 3]; `place`: the robot's position, which the camera follows."""
        if np.isfinite(place).all():
            self._point = (float(place[0]), float(place[1]))
        target, size = (*self._point, HEIGHT), (self._view.height, self._view.width)
        matrix = pybullet.computeViewMatrixFromYawPitchRoll(target, DISTANCE, 0, PITCH, 0, 2)
        options = {**LIGHTING, "renderer": pybullet.ER_TINY_RENDERER, "physicsClientId": world.client}
        _, _, pixels, _, _ = pybullet.getCameraImage(size[1], size[0], matrix, self._lens, **options)
        return np.asarray(pixels, np.uint8).reshape(*size, 4)[..., :3]
