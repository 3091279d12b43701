"""A replica of one of Bullet's robots on the CPU: Bullet's rules around the steps of MuJoCo."""

import math
from typing import Any

import numpy as np

from ees_mpi.outcomes import Floats, Singles
from ees_mpi.tasks.mujoco.plant import library
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS, TIME_STEP
from ees_mpi.tasks.mujoco.replica.rules import (
    CATCH,
    CLIP,
    DRAG,
    DRAG_OF_SPEED,
    INITIAL_Z,
    JOINTS_AT,
    SLACK,
    TARGET_X,
    Rules,
    angles,
    planar_angles,
)


class OneReplica:
    """One robot on the CPU. It changes the limits in its model."""

    def __init__(self, rules: Rules, model: Any, data: Any):
        self._mujoco, self._rules, self._model, self._data = library(), rules, model, data
        self._width = rules.upper - rules.lower
        self._inner_low, self._inner_high = rules.lower - SLACK, rules.upper + SLACK
        self._mass, self._inertia = model.body_mass[:, None].copy(), model.body_inertia.copy()
        self._lags = bool((rules.rate != 1).any())
        self._lag = (1 - rules.rate) * TIME_STEP
        self._root = int(model.body_rootid[model.nbody - 1])
        # Views of MuJoCo's memory, looked up once because each lookup costs a microsecond.
        self._qpos, self._qvel, self._limits = data.qpos, data.qvel, model.jnt_range
        self._xpos, self._xipos, self._frames_of_bodies = data.xpos, data.xipos, data.ximat.reshape(-1, 3, 3)
        self._place = [0.0] if rules.planar else [0.0, 0.0]
        self._cvel, self._com, self._force = data.cvel, data.subtree_com[self._root], data.xfrc_applied

    def reset(self) -> None:
        """Begin a rollout: joints that start outside of their limits stay there."""
        rules, q = self._rules, self._qpos[self._rules.qpos_at]
        self._low, self._high = np.minimum(rules.lower, q + CATCH), np.maximum(rules.upper, q - CATCH)
        self._outside = True
        self._seen = self._touching = np.zeros(len(rules.feet))
        self._set_limits()
        self._mujoco.mj_forward(self._model, self._data)
        self._place = self._mean_position()

    def step(self) -> None:
        """Advance by one action."""
        rules, step = self._rules, self._mujoco.mj_step
        self._drag()
        for _ in range(SUB_STEPS):
            step(self._model, self._data)
            if self._lags:
                self._qpos[rules.qpos_at] -= self._lag * self._qvel[rules.dof_at]
            self._move_limits()
        self._place = self._mean_position()
        self._seen, self._touching = self._touching, self._touch()

    def _drag(self) -> None:
        """Write the drag of all links for the next action."""
        turn, arm = self._cvel[:, :3], self._xipos - self._com
        speed = self._cvel[:, 3:].copy()
        speed[:, 0] += turn[:, 1] * arm[:, 2] - turn[:, 2] * arm[:, 1]
        speed[:, 1] += turn[:, 2] * arm[:, 0] - turn[:, 0] * arm[:, 2]
        speed[:, 2] += turn[:, 0] * arm[:, 1] - turn[:, 1] * arm[:, 0]
        size = np.sqrt((speed * speed).sum(1, keepdims=True))
        self._force[:, :3] = -self._mass * (DRAG + DRAG_OF_SPEED * size) * speed
        size = np.sqrt((turn * turn).sum(1, keepdims=True))
        local = (turn[:, None] @ self._frames_of_bodies)[:, 0] * self._inertia
        torque = (self._frames_of_bodies @ local[..., None])[..., 0]
        self._force[:, 3:] = -(DRAG + DRAG_OF_SPEED * size) * torque

    def _move_limits(self) -> None:
        """Let a joint that is far outside of its limits stay there, but not go further."""
        rules, q = self._rules, self._qpos[self._rules.qpos_at]
        inside = bool(np.logical_and(q > self._inner_low, q < self._inner_high).all())
        if inside and not self._outside:
            return
        low = np.where(self._low < rules.lower, np.maximum(self._low, q), q + CATCH)
        high = np.where(self._high > rules.upper, np.minimum(self._high, q), q - CATCH)
        self._low = np.where(q > self._inner_low, rules.lower, low)
        self._high = np.where(q < self._inner_high, rules.upper, high)
        self._set_limits()
        self._outside = not inside

    def _set_limits(self) -> None:
        self._limits[self._rules.joints, 0] = self._low
        self._limits[self._rules.joints, 1] = self._high

    def _touch(self) -> Floats:
        """Return 1 for feet that touch the floor, 0 for others."""
        rules, data = self._rules, self._data
        lowest = data.geom_xpos[rules.feet, 2] - np.abs(data.geom_xmat[rules.feet, 8]) * rules.reach - rules.radius
        touching: Floats = (lowest < rules.near).astype(np.float64)
        return touching

    def position(self) -> list[float]:
        """Return the position along the axes of the behaviour."""
        return self._place

    def _mean_position(self) -> list[float]:
        """Return the position as in Bullet: the mean over the parts, of which the floor is one."""
        rules = self._rules
        if rules.planar:
            return [float(rules.frames.dot(self._xpos[:, 0]))]
        x, y = (rules.frames @ self._xpos[:, :2] + rules.centers @ self._xipos[:, :2]).tolist()
        return [x + rules.torso * self._qpos.item(0), y + rules.torso * self._qpos.item(1)]

    def observation(self) -> Singles:
        """Return the observation, float32[O]."""
        rules, qpos, qvel = self._rules, self._qpos, self._qvel
        if rules.planar:
            _, z, theta = qpos[:3].tolist()
            vx, vz, turn = qvel[:3].tolist()
            vy = 0.0
            rise, theta = z - TIME_STEP * vz, theta - TIME_STEP * turn  # Bullet's links are one physics step late
            roll, pitch, yaw = planar_angles(theta)
            angle = -yaw
        else:
            x, y = self._place
            roll, pitch, yaw = angles(*qpos[3:7].tolist())
            angle, rise = math.atan2(-y, TARGET_X - x) - yaw, qpos.item(2) - INITIAL_Z
            vx, vy, vz = qvel[:3].tolist()
        cos, sin = math.cos(yaw), math.sin(yaw)
        end = JOINTS_AT + 2 * len(rules.joints)
        values = np.empty(rules.observations)
        values[:3] = rise, math.sin(angle), math.cos(angle)
        values[3:8] = 0.3 * (cos * vx + sin * vy), 0.3 * (cos * vy - sin * vx), 0.3 * vz, roll, pitch
        values[JOINTS_AT:end:2] = 2 * (qpos[rules.qpos_at] - rules.lower) / self._width - 1
        values[JOINTS_AT + 1 : end : 2] = 0.1 * rules.rate * qvel[rules.dof_at]
        values[end:] = self._seen
        return np.clip(values, -CLIP, CLIP).astype(np.float32)
