"""Pictures of a Bullet robot: Bullet's software renderer draws the robot, numpy draws the floor and the shadow.

The software renderer can also draw a floor, but that takes two to three times as long, and the floor is finite.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ees_mpi.contracts import View
from ees_mpi.outcomes import Floats
from ees_mpi.tasks.bullet.world import World, pybullet

PITCH = -25.0  # degrees
LENS = 45.0  # degrees, from the lower edge of the picture to the upper
NEAR, FAR = 0.1, 200.0
HEIGHT = 0.4  # of the point that the camera looks at
LIGHT = (-0.4, -0.5, 1.0)  # the direction from which the light comes
LIGHTING = {
    "lightDirection": LIGHT,
    "shadow": 0,
    "lightAmbientCoeff": 0.65,
    "lightDiffuseCoeff": 0.45,
    "lightSpecularCoeff": 0.05,
}
SKY = np.array([236.0, 241.0, 247.0])
HAZE = 4.5  # the visible range of the floor, in units of the camera's distance
DARK, BRIGHT = np.array([178.0, 190.0, 205.0]), np.array([205.0, 214.0, 225.0])
AXIS, AXIS_WIDTH = np.array([214.0, 120.0, 60.0]), 0.02  # the lines x = 0 and y = 0
SHADOW = 0.72  # the brightness of the floor in the shadow


class Camera:
    """A camera that looks along +y, with +x to the right, at the robot or at a fixed point, at a fixed angle."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._point = view.point or (0.0, 0.0)
        w, h = view.width, view.height
        self._lens = pybullet.computeProjectionMatrixFOV(LENS, w / h, NEAR, FAR)
        half = np.tan(np.radians(LENS / 2))
        self._rays: Floats = np.full((h, w, 3), -1.0)  # the direction of view of each pixel, as the camera sees it
        self._rays[..., 0] = (2 * (np.arange(w) + 0.5) / w - 1) * half * w / h
        self._rays[..., 1] = (1 - 2 * (np.arange(h)[:, None] + 0.5) / h) * half

    def picture(self, world: World, place: Sequence[float]) -> NDArray[np.uint8]:
        """Draw the world as uint8[height, width, 3]; `place`: the robot's position, which a free camera follows."""
        if self._view.point is None and np.isfinite(place).all():
            self._point = (float(place[0]), float(place[1]))
        to_camera = self._view.distance, 0, PITCH, 0, 2
        numbers = pybullet.computeViewMatrixFromYawPitchRoll((*self._point, HEIGHT), *to_camera)
        matrix = np.array(numbers).reshape(4, 4).T  # from the world to the camera
        flat = np.eye(4)  # projects the robot onto the floor along the light
        flat[0, 2], flat[1, 2], flat[2, 2] = -LIGHT[0] / LIGHT[2], -LIGHT[1] / LIGHT[2], 0.0
        pixels, robot = self._render(world, matrix)
        _, shaded = self._render(world, matrix @ flat)
        painted = self._floor(matrix)
        painted[shaded] = (SHADOW * painted[shaded]).astype(np.uint8)
        painted[robot] = pixels[robot]
        return painted

    def _floor(self, matrix: Floats) -> NDArray[np.uint8]:
        """Return a picture of unit squares, the lines x = 0 and y = 0, and the sky."""
        eye, rays = -matrix[:3, :3].T @ matrix[:3, 3], self._rays @ matrix[:3, :3]
        with np.errstate(divide="ignore"):
            reach = np.minimum(np.where(rays[..., 2] < 0, -eye[2] / rays[..., 2], np.inf), FAR)
        x, y = (eye[axis] + reach * rays[..., axis] for axis in (0, 1))
        odd = (np.floor(x) + np.floor(y)) % 2 == 1
        line = np.minimum(np.abs(x), np.abs(y)) < AXIS_WIDTH + 0.002 * reach  # far away still one pixel wide
        clear = np.where(reach < FAR, np.exp(-((reach / (HAZE * self._view.distance)) ** 2)), 0.0)[..., None]
        color = np.where(line[..., None], AXIS, np.where(odd[..., None], DARK, BRIGHT))
        return np.asarray(clear * color + (1 - clear) * SKY, np.uint8)

    def _render(self, world: World, matrix: Floats) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Draw the robot alone with Bullet; return all pixels, and a mask of the robot's pixels."""
        w, h = self._view.width, self._view.height
        options = {**LIGHTING, "renderer": pybullet.ER_TINY_RENDERER, "physicsClientId": world.client}
        _, _, pixels, _, body = pybullet.getCameraImage(w, h, tuple(matrix.T.ravel()), self._lens, **options)
        shape = np.asarray(body).reshape(h, w)
        return np.asarray(pixels, np.uint8).reshape(h, w, 4)[..., :3], shape == world.body
