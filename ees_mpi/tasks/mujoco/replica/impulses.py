"""Contacts and joint limits of one replica on the CPU, solved as Bullet does: five sweeps of impulses.

Bullet (btMultiBodyConstraintSolver) demands a speed of each constraint, and corrects one constraint after the other:

    limit     a joint outside of its limits goes back with 0.2 of its error per physics step, or just stops if the error
              is larger than 0.04 rad
    contact   a point near the floor may just reach it in this step; a point below goes up with 0.9 of its depth
    friction  a point stops along the floor, with an impulse of at most friction times that of the contact

Five sweeps do not reach the exact solution, so the order matters: it is Bullet's. `action.cpp` computes the same
for many robots.
"""

import math
from typing import Any

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.tasks.mujoco.replica.bodies import TIME_STEP
from ees_mpi.tasks.mujoco.replica.rules import CONTACT_SHARE, LIMIT_SHARE, SLACK, SLOP, SWEEPS, Rules
from ees_mpi.tasks.mujoco.robot_model import library

Point = tuple[float, float, float]


class Impulses:
    """The constraints of one robot. It remembers contact points from one physics step to the next."""

    def __init__(self, rules: Rules, model: Any, data: Any):
        self._mujoco, self._rules, self._model, self._data = library(), rules, model, data
        self._places, self._frames = data.geom_xpos, data.geom_xmat
        self._jacobian = np.zeros((3, model.nv))
        self._axes = (0,) if rules.planar else (1, 0)  # of the friction; in a plane nothing moves along y
        # Numbers of Python, because those of numpy are slow one by one.
        self._order, joints = rules.order.tolist(), (rules.dof_at, rules.lower, rules.upper, rules.rate)
        shapes = (rules.geoms, rules.bodies, rules.half, rules.radius, rules.near)
        self._joints, self._shapes = (
            list(zip(*(numbers.tolist() for numbers in columns), strict=True)) for columns in (joints, shapes)
        )
        self._feet = rules.feet.tolist()
        self._points: dict[int, tuple[Point, float, float]] = {}

    def reset(self) -> None:
        """Forget all contact points."""
        self._points.clear()

    def touching(self) -> Floats:
        """Return 1 for feet with a contact point, 0 for others."""
        return np.array([float(2 * foot in self._points or 2 * foot + 1 in self._points) for foot in self._feet])

    def solve(self, speed: Floats) -> Floats:
        """Return the change of `speed`, float64[nv], that satisfies the constraints as far as Bullet does."""
        rows, targets = self._limit_rows()
        limits, touched = len(rows), self._contact_points()
        jacobians = [self._jacobian_at(slot, point) for slot, point in touched]
        rows += [jacobian[2] for jacobian in jacobians]
        targets += [_target(point[2] + SLOP) for _, point in touched]
        for axis in self._axes:
            rows += [jacobian[axis] for jacobian in jacobians]
        if not rows:
            return np.zeros_like(speed)
        J = np.array(rows)
        answers = np.empty_like(J)  # the change of speed by each unit of impulse
        self._mujoco.mj_solveM(self._model, self._data, answers, J)
        wanted = np.zeros(len(J))
        wanted[: len(targets)] = targets
        impulses = sweeps(J @ answers.T, wanted - J @ speed, limits, len(touched), self._rules.friction)
        return impulses @ answers

    def _limit_rows(self) -> tuple[list[Floats], list[float]]:
        """Return the rows and target speeds of joints outside of their limits."""
        angles = self._data.qpos[self._rules.qpos_at].tolist()
        rows, targets = [], []
        for joint in self._order:
            dof, lower, upper, rate = self._joints[joint]
            angle = angles[joint]
            if lower < angle < upper:
                continue
            inside = min(angle - lower, upper - angle)
            row = np.zeros(self._model.nv)
            row[dof] = rate if angle <= lower else -rate
            rows.append(row)
            targets.append(-inside * LIMIT_SHARE / TIME_STEP if inside > -SLACK else 0.0)
        return rows, targets

    def _contact_points(self) -> list[tuple[int, Point]]:
        """Return slots and positions of contact points: the lowest of each capsule, and earlier ones still there."""
        self._find_points()
        touched = []
        for slot in sorted(self._points, key=lambda slot: slot // 2):  # those of a capsule: in the order of their steps
            (a, b, c), x, y = self._points[slot]
            geom, _, _, _, near = self._shapes[slot // 2]
            frame, (px, py, pz) = self._frames[geom].tolist(), self._places[geom].tolist()
            px += frame[0] * a + frame[1] * b + frame[2] * c
            py += frame[3] * a + frame[4] * b + frame[5] * c
            pz += frame[6] * a + frame[7] * b + frame[8] * c
            if pz <= near and (px - x) ** 2 + (py - y) ** 2 <= near**2:
                touched.append((slot, (px, py, pz)))
            else:
                del self._points[slot]
        return touched

    def _find_points(self) -> None:
        """Note the lowest point of each capsule near the floor, in the capsule's frame."""
        rules = self._rules
        lowest = self._places[rules.geoms, 2] - np.abs(self._frames[rules.geoms, 8]) * rules.half - rules.radius
        for index in np.flatnonzero(lowest < rules.near).tolist():
            geom, _, half, radius, _ = self._shapes[index]
            frame, (x, y, _) = self._frames[geom].tolist(), self._places[geom].tolist()
            other = half > 0 and frame[8] > 0  # the end at -half is the lower one
            a, b, c = -radius * frame[6], -radius * frame[7], (-half if other else half) - radius * frame[8]
            x += frame[0] * a + frame[1] * b + frame[2] * c
            y += frame[3] * a + frame[4] * b + frame[5] * c
            self._points[2 * index + other] = (a, b, c), x, y

    def _jacobian_at(self, slot: int, point: Point) -> Floats:
        """Return the Jacobian of a point of a link, float64[3, nv]."""
        body = self._shapes[slot // 2][1]
        self._mujoco.mj_jac(self._model, self._data, self._jacobian, None, np.array(point), body)
        return self._jacobian.copy()


def _target(distance: float) -> float:
    """Return the least speed away from the floor."""
    return -distance * (1.0 if distance > 0 else CONTACT_SHARE) / TIME_STEP


def sweeps(matrix: Floats, missing: Floats, limits: int, contacts: int, friction: float) -> Floats:
    """Return the impulses of all rows: limits, contacts, then frictions along one or two axes.

    `matrix`: the change of the speed of each row by each impulse; `missing`: the speed that each row lacks.
    """
    impulses, first = np.zeros(len(missing)), limits + contacts
    rows = list(zip(matrix, missing.tolist(), matrix.diagonal().tolist(), strict=True))

    def asked(row: int) -> float:
        change, lacks, size = rows[row]
        return impulses.item(row) + (lacks - change.dot(impulses)) / size

    for sweep in range(SWEEPS):
        for row in range(limits) if sweep % 2 else reversed(range(limits)):
            impulses[row] = max(0.0, asked(row))
        for row in range(limits, first):
            impulses[row] = max(0.0, asked(row))
        for contact in range(first, first + contacts):
            most = friction * impulses.item(contact - contacts)
            if most == 0:  # the point is above the floor
                impulses[contact::contacts] = 0.0
                continue
            along = [asked(row) for row in range(contact, len(rows), contacts)]
            size = math.hypot(*along)
            impulses[contact::contacts] = along if size <= most else [most / size * impulse for impulse in along]
    return impulses
