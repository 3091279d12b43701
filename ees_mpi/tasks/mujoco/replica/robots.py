"""The replicas of Bullet's robots: Bullet's rules around the steps of MuJoCo, on the CPU; and their engine.

Bullet (btMultiBodyConstraintSolver) demands a speed of each constraint, and corrects one constraint after the other:

    limit     a joint outside of its limits goes back with 0.2 of its error per physics step, or just stops if the error
              is larger than 0.04 rad
    contact   a point near the floor may just reach it in this step; a point below goes up with 0.9 of its depth
    friction  a point stops along the floor, with an impulse of at most friction times that of the contact

Five sweeps do not reach the exact solution, so the order matters: it is Bullet's. `action.cpp` computes the same
for many robots.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.tasks.mujoco.engine import MujocoEngine
from ees_mpi.tasks.mujoco.replica import rules as bullet
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS, TIME_STEP, XML
from ees_mpi.tasks.mujoco.replica.rules import JOINTS_AT, Rules
from ees_mpi.tasks.mujoco.robot_model import ManyRobots, RobotModel, Toolkit, library
from ees_mpi.tasks.paper_robots import PaperRobot

Point = tuple[float, float, float]


class OneReplica:
    """One robot on the CPU."""

    def __init__(self, rules: Rules, model: Any, data: Any):
        self._mujoco, self._rules, self._model, self._data = library(), rules, model, data
        self._width = rules.upper - rules.lower
        self._impulses = Impulses(rules, model, data)
        self._mass, self._inertia = model.body_mass[:, None].copy(), model.body_inertia.copy()
        self._lags = bool((rules.rate != 1).any())
        self._lag = (1 - rules.rate) * TIME_STEP
        self._root = int(model.body_rootid[model.nbody - 1])
        # Views of MuJoCo's memory, looked up once because each lookup costs a microsecond.
        self._qpos, self._qvel, self._qacc = data.qpos, data.qvel, data.qacc_smooth
        self._xpos, self._xipos, self._frames_of_bodies = data.xpos, data.xipos, data.ximat.reshape(-1, 3, 3)
        self._place = [0.0] if rules.planar else [0.0, 0.0]
        self._cvel, self._com, self._force = data.cvel, data.subtree_com[self._root], data.xfrc_applied

    def reset(self) -> None:
        self._impulses.reset()
        self._seen = self._touching = np.zeros(len(self._rules.feet))
        self._mujoco.mj_forward(self._model, self._data)
        self._place = self._mean_position()

    def step(self) -> None:
        for _ in range(SUB_STEPS):
            self._advance()
        self._place = self._mean_position()
        self._seen, self._touching = self._touching, self._impulses.touching()

    def _advance(self) -> None:
        """Advance by one physics step: forces, then impulses, then positions."""
        mujoco, model, data, rules = self._mujoco, self._model, self._data, self._rules
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        self._drag()
        mujoco.mj_fwdActuation(model, data)
        mujoco.mj_fwdAcceleration(model, data)
        self._qvel += TIME_STEP * self._qacc
        self._qvel += self._impulses.solve(self._qvel)
        np.clip(self._qvel, -bullet.FASTEST, bullet.FASTEST, out=self._qvel)
        mujoco.mj_integratePos(model, self._qpos, self._qvel, TIME_STEP)
        if self._lags:
            self._qpos[rules.qpos_at] -= self._lag * self._qvel[rules.dof_at]
        data.time += TIME_STEP

    def _drag(self) -> None:
        """Write the drag of all links for the next physics step."""
        turn, arm = self._cvel[:, :3], self._xipos - self._com
        speed = self._cvel[:, 3:].copy()
        speed[:, 0] += turn[:, 1] * arm[:, 2] - turn[:, 2] * arm[:, 1]
        speed[:, 1] += turn[:, 2] * arm[:, 0] - turn[:, 0] * arm[:, 2]
        speed[:, 2] += turn[:, 0] * arm[:, 1] - turn[:, 1] * arm[:, 0]
        size = np.sqrt((speed * speed).sum(1, keepdims=True))
        self._force[:, :3] = -self._mass * (bullet.DRAG + bullet.DRAG_OF_SPEED * size) * speed
        size = np.sqrt((turn * turn).sum(1, keepdims=True))
        local = (turn[:, None] @ self._frames_of_bodies)[:, 0] * self._inertia
        torque = (self._frames_of_bodies @ local[..., None])[..., 0]
        self._force[:, 3:] = -(bullet.DRAG + bullet.DRAG_OF_SPEED * size) * torque

    def position(self) -> list[float]:
        return self._place

    def _mean_position(self) -> list[float]:
        """Return the position as in Bullet: the mean over the parts, of which the floor is one."""
        rules = self._rules
        if rules.planar:
            return [float(rules.frames.dot(self._xpos[:, 0]))]
        x, y = (rules.frames @ self._xpos[:, :2] + rules.centers @ self._xipos[:, :2]).tolist()
        return [x + rules.torso * self._qpos.item(0), y + rules.torso * self._qpos.item(1)]

    def observation(self) -> Singles:
        rules, qpos, qvel = self._rules, self._qpos, self._qvel
        if rules.planar:
            _, z, theta = qpos[:3].tolist()
            vx, vz, turn = qvel[:3].tolist()
            vy = 0.0
            rise, lag = z - TIME_STEP * vz, TIME_STEP * turn  # Bullet's links are one physics step late
            roll, pitch, yaw = bullet.planar_angles(theta - lag)
            vx, vz = vx - lag * vz, vz + lag * vx
            angle = -yaw
        else:
            x, y = self._place
            roll, pitch, yaw = bullet.angles(*qpos[3:7].tolist())
            angle, rise = math.atan2(-y, bullet.TARGET_X - x) - yaw, qpos.item(2) - bullet.INITIAL_Z
            vx, vy, vz = qvel[:3].tolist()
        cos, sin = math.cos(yaw), math.sin(yaw)
        end = JOINTS_AT + 2 * len(rules.joints)
        values = np.empty(rules.observations)
        values[:3] = rise, math.sin(angle), math.cos(angle)
        values[3:8] = 0.3 * (cos * vx + sin * vy), 0.3 * (cos * vy - sin * vx), 0.3 * vz, roll, pitch
        values[JOINTS_AT:end:2] = 2 * (qpos[rules.qpos_at] - rules.lower) / self._width - 1
        values[JOINTS_AT + 1 : end : 2] = 0.1 * rules.rate * qvel[rules.dof_at]
        values[end:] = self._seen
        return np.clip(values, -bullet.CLIP, bullet.CLIP).astype(np.float32)


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
        targets += [_target(point[2] + bullet.SLOP) for _, point in touched]
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
            targets.append(-inside * bullet.LIMIT_SHARE / TIME_STEP if inside > -bullet.SLACK else 0.0)
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
    return -distance * (1.0 if distance > 0 else bullet.CONTACT_SHARE) / TIME_STEP


def sweeps(matrix: Floats, missing: Floats, limits: int, contacts: int, friction: float) -> Floats:
    """Return the impulses of all rows: limits, contacts, then frictions along one or two axes.

    `matrix`: the change of the speed of each row by each impulse; `missing`: the speed that each row lacks.
    """
    impulses, first = np.zeros(len(missing)), limits + contacts
    rows = list(zip(matrix, missing.tolist(), matrix.diagonal().tolist(), strict=True))

    def asked(row: int) -> float:
        change, lacks, size = rows[row]
        return impulses.item(row) + (lacks - change.dot(impulses)) / size

    for sweep in range(bullet.SWEEPS):
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


@dataclass(frozen=True)
class ReplicaModel(RobotModel):
    """One of Bullet's robots in MuJoCo."""

    rules: Rules

    def start(self, seed: int) -> tuple[Floats, Floats]:
        """Return qpos and qvel at the start: the same as in Bullet with this seed."""
        qpos, at = self.model.qpos0.copy(), self.rules.qpos_at
        qpos[at] = np.random.default_rng(seed).uniform(-bullet.START_RANGE, bullet.START_RANGE, len(at))
        return qpos, np.zeros(self.model.nv)

    def one(self, data: Any) -> OneReplica:
        return OneReplica(self.rules, self.model, data)

    def many(self, tools: Toolkit, worlds: int, buffers: Any) -> ManyRobots:
        from ees_mpi.tasks.mujoco.replica.many import ManyReplicas  # imports Warp

        return ManyReplicas(self.rules, self.model, worlds)


@lru_cache(maxsize=2)
def replica_model(robot: str) -> ReplicaModel:
    """Compile a robot, cheetah or ant."""
    instead = "; the paper's robots also run with --set task.engine=bullet"
    model = library(instead).MjModel.from_xml_string(XML[robot]())
    ones, rules = np.ones(model.nu, np.float32), bullet.rules_of(robot, model)
    height = None if rules.planar else (bullet.LOWEST, float("inf"))
    axes = 1 if rules.planar else 2
    return ReplicaModel(model, int(model.body("torso").id), axes, SUB_STEPS, -ones, ones, height, rules)


def replica_engine(task: PaperRobot) -> MujocoEngine:
    """Return MuJoCo as the engine of one of the paper's tasks; its robots need no buffers, so none are measured."""
    return MujocoEngine(task, lambda: replica_model(task.robot), contacts=1, constraints=1)
