"""Replicas of Bullet's robots in MuJoCo Warp: Bullet's rules as Warp kernels; imports Warp.

The same arithmetic as in `cpu.py`, for all worlds at once: one kernel per physics step, and two per action. Nothing
takes memory in a step, for the sake of CUDA graphs.
"""

from typing import Any

import numpy as np
import warp as wp

from ees_mpi.tasks.mujoco.gpu import Toolkit
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
)

PI = float(np.pi)


class ManyReplicas:
    """Robots that step together."""

    def __init__(self, rules: Rules, compiled: Any, tools: Toolkit, model: Any, data: Any, worlds: int):
        """Give every world its own limits of joints; `compiled`: MuJoCo's model; `model`, `data`: MuJoCo Warp's."""
        self._library, self._model, self._data = tools.mujoco_warp, model, data
        self._arrays: list[Any] = []
        limits = np.tile(compiled.jnt_range.astype(np.float32)[None], (worlds, 1, 1))
        model.jnt_range = wp.array(limits, dtype=wp.vec2)
        joints, bodies = len(rules.joints), int(compiled.nbody)
        sizes = (len(rules.feet), 2, rules.observations)
        self._touching, place, observation = (wp.zeros((worlds, size), dtype=float) for size in sizes)
        at_joints = [_whole(rules.joints), _whole(rules.qpos_at), _whole(rules.dof_at)]
        limits_of_joints = [_real(rules.lower), _real(rules.upper), _real(rules.rate)]
        self._joints = self._recorded(
            joints_kernel,
            (worlds, joints),
            [data.qvel, *at_joints, *limits_of_joints, 0],
            [data.qpos, model.jnt_range],
        )
        root = int(compiled.body_rootid[bodies - 1])
        inertia = wp.array(compiled.body_inertia.astype(np.float32), dtype=wp.vec3)
        self._drag = self._recorded(
            drag,
            (worlds, bodies),
            [data.cvel, data.xipos, data.ximat, data.subtree_com, _real(compiled.body_mass), inertia, root],
            [data.xfrc_applied],
        )
        of_feet = [_whole(rules.feet), _real(rules.reach), _real(rules.radius), _real(rules.near)]
        state = [data.qpos, data.qvel, data.xpos, data.xipos, data.geom_xpos, data.geom_xmat]
        weights = [float(rules.torso), _real(rules.frames), _real(rules.centers)]
        self._look = self._recorded(
            look,
            (worlds,),
            [*state, *at_joints[1:], *limits_of_joints, *of_feet, *weights, int(rules.planar)],
            [self._touching, place, observation],
        )
        wp.synchronize()  # torch reads these arrays on another stream
        self.position = wp.to_torch(place)[:, : 1 if rules.planar else 2]
        self.observation = wp.to_torch(observation)

    def _recorded(self, kernel: Any, size: tuple[int, ...], inputs: list[Any], outputs: list[Any]) -> Any:
        """Return a launch that can be repeated with little overhead, on the current stream."""
        self._arrays += [*inputs, *outputs]  # a launch knows addresses only
        return wp.launch(kernel, dim=size, inputs=inputs, outputs=outputs, record_cmd=True)

    def reset(self) -> None:
        """Begin a batch: observe the start; joints that start outside of their limits stay there."""
        for array in (self._touching, self._data.cvel, self._data.xfrc_applied):
            array.zero_()
        self._launch_joints(start=1)
        self._library.kinematics(self._model, self._data)
        self._library.com_pos(self._model, self._data)
        self._look.launch()
        self._touching.zero_()

    def step(self) -> None:
        """Advance by one action, and observe."""
        self._drag.launch()
        for _ in range(SUB_STEPS):
            self._library.step(self._model, self._data)
            self._joints.launch()
        self._look.launch()

    def observe(self) -> None:
        """Do nothing: `step` and `reset` have observed."""

    def _launch_joints(self, start: int) -> None:
        self._joints.set_param_at_index(7, start)
        self._joints.launch()
        self._joints.set_param_at_index(7, 0)


def _whole(numbers: Any) -> Any:
    return wp.array(numbers.astype(np.int32), dtype=int)


def _real(numbers: Any) -> Any:
    return wp.array(numbers.astype(np.float32), dtype=float)


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def drag(
    cvel: wp.array2d[wp.spatial_vector],
    xipos: wp.array2d[wp.vec3],
    ximat: wp.array2d[wp.mat33],
    subtree_com: wp.array2d[wp.vec3],
    mass: wp.array[float],
    inertia: wp.array[wp.vec3],
    root: int,
    xfrc: wp.array2d[wp.spatial_vector],
) -> None:
    """Slow every link down as Bullet does."""
    world, body = wp.tid()
    both = cvel[world, body]
    turn = wp.spatial_top(both)
    speed = wp.spatial_bottom(both) + wp.cross(turn, xipos[world, body] - subtree_com[world, root])
    frame = ximat[world, body]
    local = wp.cw_mul(wp.transpose(frame) * turn, inertia[body])
    force = -mass[body] * (DRAG + DRAG_OF_SPEED * wp.length(speed)) * speed
    torque = -(DRAG + DRAG_OF_SPEED * wp.length(turn)) * (frame * local)
    result = wp.spatial_vector(force, torque)
    if wp.isnan(wp.dot(result, result)):
        result = wp.spatial_vector()
    xfrc[world, body] = result


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def joints_kernel(
    qvel: wp.array2d[float],
    joint: wp.array[int],
    qpos_at: wp.array[int],
    dof_at: wp.array[int],
    lower: wp.array[float],
    upper: wp.array[float],
    rate: wp.array[float],
    start: int,
    qpos: wp.array2d[float],
    limits: wp.array2d[wp.vec2],
) -> None:
    """Correct the angle of a slow joint; let a joint far outside of its limits stay there, but not go further."""
    world, each = wp.tid()
    at = qpos_at[each]
    q = float(qpos[world, at])
    if rate[each] != 1.0 and start == 0:
        q = q - (1.0 - rate[each]) * TIME_STEP * qvel[world, dof_at[each]]
        qpos[world, at] = q
    inner, outer = float(lower[each]), float(upper[each])
    low, high = float(lower[each]), float(upper[each])
    if start == 1:
        low = wp.min(inner, q + CATCH)
        high = wp.max(outer, q - CATCH)
    else:
        now = limits[world, joint[each]]
        if q <= inner - SLACK:
            low = q + CATCH
            if now[0] < inner:
                low = wp.max(now[0], q)
        if q >= outer + SLACK:
            high = q - CATCH
            if now[1] > outer:
                high = wp.min(now[1], q)
    limits[world, joint[each]] = wp.vec2(low, high)


@wp.func  # type: ignore[untyped-decorator]
def clipped(value: float) -> float:
    """Clip to +-5; NaN becomes 0: the world is broken, and NaN would make its policy and its solver slow."""
    return wp.where(wp.isnan(value), 0.0, wp.clamp(value, -CLIP, CLIP))  # type: ignore[no-any-return]


@wp.func  # type: ignore[untyped-decorator]
def planar_angles(theta: float) -> wp.vec3:
    """Return roll, pitch and yaw of a rotation about y, as Bullet does."""
    near = theta - 2.0 * PI * wp.round(theta / (2.0 * PI))
    if wp.abs(near) <= 0.5 * PI:
        return wp.vec3(0.0, near, 0.0)
    roll = wp.where(near > 0.0 and near < 2.0 * PI / 3.0, -PI, PI)
    return wp.vec3(roll, wp.where(near > 0.0, PI - near, -PI - near), PI)


@wp.func  # type: ignore[untyped-decorator]
def angles(w: float, x: float, y: float, z: float) -> wp.vec3:
    """Return roll, pitch and yaw of a quaternion, as Bullet does."""
    sine = 2.0 * (w * y - x * z)
    if sine <= -0.99999:
        return wp.vec3(0.0, -0.5 * PI, 2.0 * wp.atan2(x, -y))
    if sine >= 0.99999:
        return wp.vec3(0.0, 0.5 * PI, 2.0 * wp.atan2(-x, y))
    roll = wp.atan2(2.0 * (y * z + w * x), w * w - x * x - y * y + z * z)
    return wp.vec3(roll, wp.asin(sine), wp.atan2(2.0 * (x * y + w * z), w * w + x * x - y * y - z * z))


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def look(
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    xpos: wp.array2d[wp.vec3],
    xipos: wp.array2d[wp.vec3],
    geom_xpos: wp.array2d[wp.vec3],
    geom_xmat: wp.array2d[wp.mat33],
    qpos_at: wp.array[int],
    dof_at: wp.array[int],
    lower: wp.array[float],
    upper: wp.array[float],
    rate: wp.array[float],
    feet: wp.array[int],
    reach: wp.array[float],
    radius: wp.array[float],
    near: wp.array[float],
    torso: float,
    frames: wp.array[float],
    centers: wp.array[float],
    planar: int,
    touching: wp.array2d[float],
    place: wp.array2d[float],
    observation: wp.array2d[float],
) -> None:
    """Write position and observation of a world, and note which feet touch the floor."""
    world = wp.tid()
    x = torso * qpos[world, 0]
    y = torso * qpos[world, 1]
    for body in range(1, frames.shape[0]):
        frame = xpos[world, body]
        center = xipos[world, body]
        x += frames[body] * frame[0] + centers[body] * center[0]
        y += frames[body] * frame[1] + centers[body] * center[1]
    place[world, 0] = x
    place[world, 1] = y
    vx = qvel[world, 0]
    vy = wp.float32(0.0)
    vz = qvel[world, 1]
    rise = qpos[world, 1] - TIME_STEP * vz
    turned = wp.vec3(0.0, 0.0, 0.0)
    ahead = wp.float32(0.0)
    if planar == 1:
        turned = planar_angles(qpos[world, 2] - TIME_STEP * qvel[world, 2])
    else:
        vy = vz
        vz = qvel[world, 2]
        rise = qpos[world, 2] - INITIAL_Z
        q = wp.normalize(wp.vec4(qpos[world, 3], qpos[world, 4], qpos[world, 5], qpos[world, 6]))
        turned = angles(q[0], q[1], q[2], q[3])
        ahead = wp.atan2(-y, TARGET_X - x)
    cos = wp.cos(turned[2])
    sin = wp.sin(turned[2])
    observation[world, 0] = clipped(rise)
    observation[world, 1] = clipped(wp.sin(ahead - turned[2]))
    observation[world, 2] = clipped(wp.cos(ahead - turned[2]))
    observation[world, 3] = clipped(0.3 * (cos * vx + sin * vy))
    observation[world, 4] = clipped(0.3 * (cos * vy - sin * vx))
    observation[world, 5] = clipped(0.3 * vz)
    observation[world, 6] = clipped(turned[0])
    observation[world, 7] = clipped(turned[1])
    count = qpos_at.shape[0]
    for each in range(count):
        share = (qpos[world, qpos_at[each]] - lower[each]) / (upper[each] - lower[each])
        observation[world, JOINTS_AT + 2 * each] = clipped(2.0 * share - 1.0)
        observation[world, JOINTS_AT + 1 + 2 * each] = clipped(0.1 * rate[each] * qvel[world, dof_at[each]])
    for foot in range(feet.shape[0]):
        geom = feet[foot]
        frame_of_foot = geom_xmat[world, geom]
        lowest = geom_xpos[world, geom][2] - wp.abs(frame_of_foot[2, 2]) * reach[foot] - radius[foot]
        observation[world, JOINTS_AT + 2 * count + foot] = touching[world, foot]
        touching[world, foot] = wp.where(lowest < near[foot], 1.0, 0.0)
