"""Draw robots together in one scene. Each was rolled out alone, and all begin at the same place.

The picture is drawn here, not by a physics engine: limbs are capsules, the floor has rings, or lanes if the robots
move along x only, and every robot leaves a trail. The colour of a robot is the direction in which it ends.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ees_mpi.analysis.video import packages
from ees_mpi.arrays import Floats
from ees_mpi.tasks.base import Pixels

Color = tuple[int, int, int]

BALL = 0.35  # radius of a place, in units of the floor
ROUND = (1, 2, 5, 10)  # numbers at the marks, times a power of ten

SMOOTH = 3  # everything is drawn so many times larger and then reduced
LENS = math.radians(28.0)  # from the lower edge of the picture to the upper
ELEVATION = {1: math.radians(30.0), 2: math.radians(42.0)}  # of the camera above the floor, by the axes of movement
FILLED = 0.86  # of the width or the height of the picture
NEAREST = 3.2  # height of the first picture, in lengths of a robot
ZOOM = 0.45  # share of the video in which the camera moves away
LANE = 0.8  # between robots that move along x only, in lengths of a robot
SHADOW_OF_1 = np.array([0.35, -0.25])  # on the floor, of a point at height 1
MARK = 5  # units between the marks on the floor
MARKS = range(MARK, 40 * MARK, MARK)
SHADES = ((0.42, 0.09), (0.74, 0.145), (0.88, 0.08), (0.52, 0.08))  # of limbs: edge, middle, light; of the trail
FLOOR, LINES, SHADOW, TEXT = (23, 27, 38), (50, 58, 77), (13, 16, 24), (165, 174, 192)


@dataclass(frozen=True)
class Pinhole:
    """A pinhole camera that looks along +y at a point of the floor, from above."""

    target: Floats  # [2]
    distance: float
    elevation: float
    size: tuple[int, int]

    def project(self, points: Floats) -> tuple[Floats, Floats]:
        """Return pixels [..., 2] and the pixels per unit of length [...] of points [..., 3]."""
        x, y, z = points[..., 0] - self.target[0], points[..., 1] - self.target[1], points[..., 2]
        sin, cos = math.sin(self.elevation), math.cos(self.elevation)
        depth = np.maximum(self.distance + y * cos - z * sin, 0.1 * self.distance)
        scale = self.size[1] / (2 * math.tan(LENS / 2)) / depth
        up = y * sin + z * cos
        return np.stack([self.size[0] / 2 + x * scale, self.size[1] / 2 - up * scale], axis=-1), scale

    def fitted(self, points: Floats, nearest: float) -> "Pinhole":
        """Return the camera from which the points [n, 3] fill the picture, from `nearest` or farther away."""
        camera, size = self, np.array(self.size)
        for _ in range(40):
            pixels, scale = camera.project(points)
            low, high = pixels.min(axis=0), pixels.max(axis=0)
            right, down = (low + high - size) / 2 / np.median(scale)
            target = camera.target + 0.7 * np.array([right, -down / math.sin(camera.elevation)])
            filled = float(((high - low) / size).max()) / FILLED
            camera = replace(camera, target=target, distance=max(nearest, camera.distance * filled**0.7))
        return camera


def color_of(hue: float, lightness: float, chroma: float) -> Color:
    """Return a colour of OKLCH, where all hues of one lightness look equally bright (Ottosson 2020); hue: radians."""
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    red, green, blue = (round(255 * min(max(value, 0.0), 1.0) ** (1 / 2.2)) for value in linear)
    return red, green, blue


def balls(walks: Sequence[Floats]) -> tuple[list[Floats], float]:
    """Return places, [frames, 1 or 2] of each walk, as robots of one ball, and the length of a unit of the floor.

    The start of the first walk is in the middle. The unit makes the farthest place about four marks away.
    """
    begin = walks[0][0]
    quarter = max(float(np.abs(walk - begin).max()) for walk in walks) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(quarter))
    unit = next(number * power for number in ROUND if number * power >= 0.999 * quarter) / MARK
    limbs = []
    for walk in walks:
        ball = np.full((len(walk), 1, 7), BALL)
        ball[..., [1, 4]] = 0.0
        for axis, column in enumerate((walk - begin).T / unit):
            ball[:, 0, axis] = ball[:, 0, 3 + axis] = column
        limbs.append(ball)
    return limbs, unit


class Scene:
    """The frames of a video of several robots.

    walks: of each robot its limbs, [frames, n, 7]: both ends and the radius of a capsule
    axes: 1 if the robots move along x only; then each has its own lane
    unit: the number that one unit of the floor stands for
    numbers: of the robots, by which a text names them; drawn at each one that has left the start

    A robot whose walk is shorter than the others stays where it ends. Robots begin near the camera, which then moves
    away; of places, which have no size of their own, the first picture shows as much as the last one.
    """

    def __init__(
        self,
        walks: Sequence[Floats],
        axes: int,
        size: tuple[int, int],
        frame_seconds: float,
        title: str,
        unit: float = 1.0,
        numbers: Sequence[str] = (),
    ):
        _, self._image, self._draw, fonts, _ = packages()
        self.width, self.height = size
        self._large = (self.width * SMOOTH, self.height * SMOOTH)
        self._title, self._seconds, self._axes, self._unit = title, frame_seconds, axes, unit
        self._font = fonts.load_default(13 * SMOOTH)
        self.count = max(len(walk) for walk in walks)
        limbs = np.stack([np.concatenate([w, np.repeat(w[-1:], self.count - len(w), axis=0)]) for w in walks], axis=1)
        length = float(np.ptp(limbs[0, 0][:, [0, 3]]))  # of a robot; a ball has none
        self._length, self._zooms, self._numbers = length or 1.0, length > 0, numbers
        if axes == 1:
            lanes = (np.arange(len(walks)) - (len(walks) - 1) / 2) * LANE * self._length
            limbs[..., [1, 4]] += lanes[:, None, None]
        self._ends = limbs[..., :6].reshape(*limbs.shape[:3], 2, 3)  # [frame, robot, limb, end, xyz]
        self._radii = limbs[0, 0, :, 6]
        self._paths = self._ends.mean(axis=(2, 3)) * np.array([1.0, 1.0, 0.0])  # [frame, robot, xyz], on the floor
        self._paints = [[color_of(hue, *shade) for shade in SHADES] for hue in self._hues()]

    def _hues(self) -> list[float]:
        """Return a hue for each robot: the direction of its end; along x only, a warm or a cold one."""
        away = (self._paths[-1] - self._paths[0]).tolist()
        if self._axes == 2:
            return [math.atan2(y, x) for x, y, _ in away]
        spread = np.linspace(-0.5, 0.5, len(away)).tolist()
        return [(0.9 if x > 0 else 4.2) + more for (x, _, _), more in zip(away, spread, strict=True)]

    def _cameras(self) -> list[Pinhole]:
        """Return the camera of each frame: it moves away until it sees the ends of all walks, and then stands still."""
        nearest = NEAREST * self._length / (2 * math.tan(LENS / 2))
        begin = Pinhole(np.zeros(2), nearest, ELEVATION[self._axes], self._large)
        last = begin.fitted(self._ends.reshape(-1, 3), nearest)
        first = begin.fitted(self._ends[0].reshape(-1, 3), nearest) if self._zooms else last
        turn, away = last.target - first.target, last.distance - first.distance
        time = np.clip(np.arange(self.count) / (ZOOM * self.count), 0.0, 1.0)
        shares = (time * time * (3 - 2 * time)).tolist()
        return [replace(last, target=first.target + s * turn, distance=first.distance + s * away) for s in shares]

    def frames(self) -> Iterator[Pixels]:
        return itertools.starmap(self._frame, enumerate(self._cameras()))

    def last(self) -> Pixels:
        """Return the last picture alone."""
        return self._frame(self.count - 1, self._cameras()[-1])

    def _frame(self, number: int, camera: Pinhole) -> Pixels:
        image = self._image.new("RGB", self._large, FLOOR)
        draw = self._draw.Draw(image)
        (self._lanes if self._axes == 1 else self._rings)(draw, camera)
        for robot, (*_, trail) in enumerate(self._paints):
            _line(draw, camera, self._paths[: number + 1, robot], trail, 2 * SMOOTH)
        self._shadows(draw, camera, number)
        self._robots(draw, camera, number)
        self._names(draw, camera, number)
        edge, seconds = 10 * SMOOTH, f"{number * self._seconds:.1f} s"
        draw.text((edge, edge), self._title, TEXT, self._font, anchor="lt")
        draw.text((self._large[0] - edge, edge), seconds, TEXT, self._font, anchor="rt")
        return np.ascontiguousarray(image.reduce(SMOOTH))

    def _rings(self, draw: Any, camera: Pinhole) -> None:
        """Draw circles and rays around the start."""
        turns = np.linspace(0, 2 * math.pi, 145)
        circle = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)
        for radius in (1, *MARKS):
            _line(draw, camera, radius * circle, LINES, SMOOTH)
        for ray in circle[:-1:12]:
            _line(draw, camera, np.array([1, *MARKS])[:, None] * ray, LINES, SMOOTH)
        for radius in MARKS:
            self._label(draw, camera, radius * circle[-19], radius)

    def _lanes(self, draw: Any, camera: Pinhole) -> None:
        """Draw lines across the lanes."""
        edge = LANE * self._length
        low, high = self._paths[0, 0, 1] - edge, self._paths[0, -1, 1] + edge
        for x in (0, *MARKS, *(-mark for mark in MARKS)):
            _line(draw, camera, np.array([[x, low, 0.0], [x, high, 0.0]]), LINES if x else TEXT, SMOOTH)
            self._label(draw, camera, np.array([x, low - edge, 0.0]), abs(x))

    def _label(self, draw: Any, camera: Pinhole, place: Floats, number: int) -> None:
        x, y = camera.project(place)[0].tolist()
        if 0 < x < self._large[0] and 0 < y < self._large[1]:
            draw.text((x, y), f"{number * self._unit:g}", TEXT, self._font, anchor="mm")

    def _shadows(self, draw: Any, camera: Pinhole, number: int) -> None:
        ends = self._ends[number].copy()
        ends[..., :2] += ends[..., 2:] * SHADOW_OF_1
        ends[..., 2] = 0.0
        pixels, scale = camera.project(ends)
        for spots, scales in zip(pixels, scale, strict=True):
            for ends, radii in zip(spots, scales * self._radii[:, None], strict=True):
                _capsule(draw, ends, 0.9 * radii, SHADOW)

    def _robots(self, draw: Any, camera: Pinhole, number: int) -> None:
        """Draw the limbs of all robots, the farthest first."""
        pixels, scale = camera.project(self._ends[number])
        radii = scale * self._radii[:, None]
        for place in np.argsort(scale.mean(axis=-1), axis=None).tolist():
            robot, limb = divmod(place, len(self._radii))
            (dark, plain, bright, _), ends, radius = self._paints[robot], pixels[robot, limb], radii[robot, limb]
            _capsule(draw, ends, radius + 0.8 * SMOOTH, dark)
            _capsule(draw, ends, radius, plain)
            _capsule(draw, ends + radius[:, None] * np.array([0.12, -0.3]), 0.4 * radius, bright)

    def _names(self, draw: Any, camera: Pinhole, number: int) -> None:
        """Write the number of each robot above it, once it has left the start, where numbers would hide each other."""
        pixels, scale = camera.project(self._ends[number])
        x = pixels[..., 0].mean(axis=(1, 2))
        top = (pixels[..., 1] - scale * self._radii[:, None]).min(axis=(1, 2)) - 3 * SMOOTH
        left = np.linalg.norm(self._paths[number] - self._paths[0], axis=1) > self._length
        for robot, text in enumerate(self._numbers):
            if left[robot]:
                edge: dict[str, Any] = {"stroke_width": 2 * SMOOTH, "stroke_fill": FLOOR}
                draw.text((x[robot], top[robot]), text, self._paints[robot][2], self._font, anchor="mb", **edge)


def _line(draw: Any, camera: Pinhole, points: Floats, color: Color, width: int) -> None:
    draw.line([(x, y) for x, y in camera.project(points)[0].tolist()], color, width, joint="curve")


def _capsule(draw: Any, ends: Floats, radii: Floats, color: Color) -> None:
    """Draw two discs and the area between them; ends: pixels [2, 2]; radii: [2]."""
    (x, y), (u, v) = ends.tolist()
    r, s = radii.tolist()
    draw.ellipse((x - r, y - r, x + r, y + r), color)
    draw.ellipse((u - s, v - s, u + s, v + s), color)
    length = math.hypot(u - x, v - y)
    if length > 0:
        a, b = (y - v) / length, (u - x) / length
        corners = [(x + r * a, y + r * b), (u + s * a, v + s * b), (u - s * a, v - s * b), (x - r * a, y - r * b)]
        draw.polygon(corners, color)
