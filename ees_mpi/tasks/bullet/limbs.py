"""The limbs of a Bullet robot, from which it is drawn."""

import os
from collections.abc import Sequence
from functools import cache
from xml.etree import ElementTree

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.tasks.bullet.world import MODELS, pybullet

Limb = tuple[str, Sequence[Sequence[float]], float]  # a link, the ends of a capsule's axis in its frame, the radius


@cache
def read_limbs(model: str) -> list[Limb]:
    """Return the capsules and balls of a robot in its MJCF file: Bullet does not return their ends."""
    root = ElementTree.parse(os.path.join(MODELS, "mjcf", model)).getroot()
    return [_limb(body.attrib["name"], geom) for body in root.iter("body") for geom in body.findall("geom")]


def _limb(link: str, geom: ElementTree.Element) -> Limb:
    """Return a `geom`, whose axis is given by `fromto`, or by its middle, its turn and half its length (a ball: 0)."""
    radius, *half = _numbers(geom, "size")
    if "fromto" in geom.attrib:
        numbers = _numbers(geom, "fromto")
        return link, (numbers[:3], numbers[3:]), radius
    *axis, angle = _numbers(geom, "axisangle", "0 0 1 0")
    turn = pybullet.getQuaternionFromAxisAngle(axis, angle)
    middle, length = _numbers(geom, "pos"), half[0] if half else 0.0
    ends = [pybullet.multiplyTransforms(middle, turn, (0, 0, z), (0, 0, 0, 1))[0] for z in (-length, length)]
    return link, ends, radius


def _numbers(geom: ElementTree.Element, name: str, default: str = "0 0 0") -> list[float]:
    return [float(word) for word in geom.get(name, default).split()]


def in_space(limbs: list[Limb], frames: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Return limbs [n, 7]: both ends and the radius; `frames`: position and orientation of each link."""
    rows = np.empty((len(limbs), 7))
    for row, (link, ends, radius) in zip(rows, limbs, strict=True):
        places = [pybullet.multiplyTransforms(*frames[link], end, (0, 0, 0, 1))[0] for end in ends]
        row[:] = *places[0], *places[1], radius
    return rows
