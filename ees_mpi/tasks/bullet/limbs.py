"""The limbs of a Bullet robot, for drawings. They are read from its MJCF file: Bullet does not return their ends."""

import os
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from ees_mpi.outcomes import Floats
from ees_mpi.tasks.bullet.world import MODELS, pybullet


@dataclass(frozen=True)
class Limb:
    """A capsule of a link; a ball is a capsule of length 0."""

    link: str
    ends: tuple[tuple[float, ...], tuple[float, ...]]  # of its axis, in the frame of the link
    radius: float


def read_limbs(model: str) -> list[Limb]:
    """Return the capsules and balls of a robot in `pybullet_data`."""
    root = ElementTree.parse(os.path.join(MODELS, "mjcf", model)).getroot()
    return [_limb(body.attrib["name"], geom) for body in root.iter("body") for geom in body.findall("geom")]


def _limb(link: str, geom: ElementTree.Element) -> Limb:
    """Return a `geom`, whose axis is given by `fromto`, or by its middle, its turn and half its length."""
    radius, *half = _numbers(geom, "size")
    if "fromto" in geom.attrib:
        numbers = _numbers(geom, "fromto")
        return Limb(link, (tuple(numbers[:3]), tuple(numbers[3:])), radius)
    *axis, angle = _numbers(geom, "axisangle", "0 0 1 0")
    turn = pybullet.getQuaternionFromAxisAngle(axis, angle)
    middle, length = _numbers(geom, "pos"), half[0] if half else 0.0
    ends = [pybullet.multiplyTransforms(middle, turn, (0, 0, z), (0, 0, 0, 1))[0] for z in (-length, length)]
    return Limb(link, (ends[0], ends[1]), radius)


def _numbers(geom: ElementTree.Element, name: str, default: str = "0 0 0") -> list[float]:
    return [float(word) for word in geom.get(name, default).split()]


def in_space(limbs: list[Limb], frames: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Return limbs [n, 7]: both ends and the radius; `frames`: position and orientation of each link."""
    rows = np.empty((len(limbs), 7))
    for row, limb in zip(rows, limbs, strict=True):
        for k, end in enumerate(limb.ends):
            row[3 * k : 3 * k + 3] = pybullet.multiplyTransforms(*frames[limb.link], end, (0, 0, 0, 1))[0]
        row[6] = limb.radius
    return rows
