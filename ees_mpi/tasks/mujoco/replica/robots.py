"""The replicas of Bullet's robots: Bullet's rules around the steps of MuJoCo, on the CPU; and their engine."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.tasks.mujoco.engine import MujocoEngine
from ees_mpi.tasks.mujoco.gpu import Toolkit
from ees_mpi.tasks.mujoco.replica import rules as bullet
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS, TIME_STEP, XML
from ees_mpi.tasks.mujoco.replica.impulses import Impulses
from ees_mpi.tasks.mujoco.replica.rules import JOINTS_AT, Rules
from ees_mpi.tasks.mujoco.robot_model import ManyRobots, RobotModel, library
from ees_mpi.tasks.paper_robots import PaperRobot


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
