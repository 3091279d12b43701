"""Replicas of Bullet's robots in MuJoCo Warp: Bullet's rules as Warp kernels; imports Warp.

The arithmetic of `robots.py`, for all worlds at once: MuJoCo Warp computes positions, the mass matrix and inertial
forces, the kernels here all the rest. Nothing takes memory in a step, for the sake of CUDA graphs.
"""

from typing import Any

import numpy as np
import warp as wp

from ees_mpi.tasks.mujoco.gpu import Toolkit
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS, TIME_STEP
from ees_mpi.tasks.mujoco.replica.impulse_kernels import constrain, respond, sweep_kernel
from ees_mpi.tasks.mujoco.replica.motion_kernels import accelerate, drag, move
from ees_mpi.tasks.mujoco.replica.rules import (
    CLIP,
    INITIAL_Z,
    JOINTS_AT,
    SWEEPS,
    TARGET_X,
    Rules,
)

PI = float(np.pi)
BLOCK = 32  # threads, if each computes a whole world; larger blocks leave processors of the GPU without work
BLOCK_OF_MANY = 256  # threads, if a world has many of them


class ManyReplicas:
    """Robots that step together."""

    def __init__(self, rules: Rules, compiled: Any, tools: Toolkit, model: Any, data: Any, worlds: int):
        """Take the memory; `compiled`: MuJoCo's model; `model`, `data`: MuJoCo Warp's."""
        self._library, self._model, self._data = tools.mujoco_warp, model, data
        self._arrays: list[Any] = []
        nv, slots, axes = int(compiled.nv), 2 * len(rules.geoms), 1 if rules.planar else 2
        most = len(rules.joints) + slots * (1 + axes)
        self._touching, place, observation = (
            wp.zeros((worlds, size), dtype=float) for size in (len(rules.feet), 2, rules.observations)
        )
        self._point, self._spot = (wp.zeros((slots, worlds), dtype=wp.vec3) for _ in range(2))
        J, X = (wp.zeros((most, nv, worlds), dtype=float) for _ in range(2))
        missing, own, impulse = (wp.zeros((most, worlds), dtype=float) for _ in range(3))
        rows, change = wp.zeros((2, worlds), dtype=int), wp.zeros((nv, worlds), dtype=float)
        factor = wp.zeros((data.M.shape[1], worlds), dtype=float)
        wrench = wp.zeros((int(compiled.nbody), worlds), dtype=wp.spatial_vector)
        root = int(compiled.body_rootid[compiled.nbody - 1])
        qpos_at, dof_at, lower, upper, rate = (
            _whole(rules.qpos_at),
            _whole(rules.dof_at),
            _real(rules.lower),
            _real(rules.upper),
            _real(rules.rate),
        )
        mass, inertia = _real(compiled.body_mass), wp.array(compiled.body_inertia.astype(np.float32), dtype=wp.vec3)
        ancestor, body_of = _whole(compiled.dof_parentid), _whole(compiled.dof_bodyid)
        parent, gear = _whole(compiled.body_parentid), _real(compiled.actuator_gear[:, 0])
        sparse = [_whole(compiled.M_rowadr), _whole(compiled.M_rownnz), _whole(compiled.M_colind)]
        d, one = data, (worlds,)
        drags = [d.cvel, d.xipos, d.ximat, d.subtree_com, mass, inertia, root]
        forces = [d.ctrl, gear, dof_at, d.qfrc_bias, d.cdof, body_of, parent, wrench, d.M, *sparse]
        joints = [_whole(rules.order), qpos_at, dof_at, lower, upper, rate]
        shapes = [_whole(rules.geoms), _whole(_last_dofs(compiled, rules.bodies))]
        shapes += [_real(rules.half), _real(rules.radius), _real(rules.near), axes]
        state = [d.qpos, d.geom_xpos, d.geom_xmat, d.subtree_com, root, d.cdof, ancestor]
        points, solved = [self._point, self._spot], [J, X, missing, own, rows, axes, float(rules.friction), SWEEPS]
        self.launches = [  # the kernels of a physics step that are not MuJoCo Warp's
            self._recorded(drag, (worlds, int(compiled.nbody)), drags, [wrench]),
            self._recorded(accelerate, one, forces, [factor, change, d.qvel]),
            self._recorded(constrain, one, [*state, *joints, *shapes], [*points, J, missing, rows]),
            self._recorded(
                respond, (most, worlds), [d.qvel, rows, axes, *sparse, factor, J], [X, missing, own, impulse]
            ),
            self._recorded(sweep_kernel(nv), one, solved, [impulse, change]),
            self._recorded(move, one, [change, qpos_at, dof_at, rate, int(rules.planar)], [d.qpos, d.qvel, d.time]),
        ]
        weights = [float(rules.torso), _real(rules.frames), _real(rules.centers)]
        seen = [d.qpos, d.qvel, d.xpos, d.xipos, qpos_at, dof_at, lower, upper, rate]
        self._look = self._recorded(
            look,
            one,
            [*seen, _whole(rules.feet), self._spot, *weights, int(rules.planar)],
            [self._touching, place, observation],
        )
        wp.synchronize()  # torch reads these arrays on another stream
        self.position = wp.to_torch(place)[:, : 1 if rules.planar else 2]
        self.observation = wp.to_torch(observation)

    def _recorded(self, kernel: Any, size: tuple[int, ...], inputs: list[Any], outputs: list[Any]) -> Any:
        """Return a launch that can be repeated with little overhead, on the current stream."""
        self._arrays += [*inputs, *outputs]  # a launch knows addresses only
        block = BLOCK if len(size) == 1 else BLOCK_OF_MANY
        return wp.launch(kernel, dim=size, inputs=inputs, outputs=outputs, record_cmd=True, block_dim=block)

    def reset(self) -> None:
        """Begin a batch: forget contacts, and observe the start."""
        for array in (self._touching, self._spot):
            array.zero_()
        self._library.kinematics(self._model, self._data)
        self._library.com_pos(self._model, self._data)
        self._look.launch()

    def step(self) -> None:
        """Advance by one action, and observe."""
        library, model, data = self._library, self._model, self._data
        for _ in range(SUB_STEPS):
            for part in (library.kinematics, library.com_pos, library.crb, library.com_vel, library.rne):
                part(model, data)
            for launch in self.launches:
                launch.launch()
        self._look.launch()

    def observe(self) -> None:
        """Do nothing: `step` and `reset` have observed."""


def _last_dofs(compiled: Any, bodies: Any) -> Any:
    """Return the last degree of freedom that moves each body."""
    last = []
    for body in bodies:
        while not compiled.body_dofnum[body]:
            body = compiled.body_parentid[body]
        last.append(compiled.body_dofadr[body] + compiled.body_dofnum[body] - 1)
    return np.array(last)


def _whole(numbers: Any) -> Any:
    return wp.array(numbers.astype(np.int32), dtype=int)


def _real(numbers: Any) -> Any:
    return wp.array(numbers.astype(np.float32), dtype=float)


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
    qpos_at: wp.array[int],
    dof_at: wp.array[int],
    lower: wp.array[float],
    upper: wp.array[float],
    rate: wp.array[float],
    feet: wp.array[int],
    spot: wp.array2d[wp.vec3],
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
    lag = TIME_STEP * qvel[world, 2]
    turned = wp.vec3(0.0, 0.0, 0.0)
    ahead = wp.float32(0.0)
    if planar == 1:
        turned = planar_angles(qpos[world, 2] - lag)
        vx, vz = vx - lag * vz, vz + lag * vx
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
    for joint in range(count):
        share = (qpos[world, qpos_at[joint]] - lower[joint]) / (upper[joint] - lower[joint])
        observation[world, JOINTS_AT + 2 * joint] = clipped(2.0 * share - 1.0)
        observation[world, JOINTS_AT + 1 + 2 * joint] = clipped(0.1 * rate[joint] * qvel[world, dof_at[joint]])
    for foot in range(feet.shape[0]):
        observation[world, JOINTS_AT + 2 * count + foot] = touching[world, foot]
        points = spot[2 * feet[foot], world][2] + spot[2 * feet[foot] + 1, world][2]
        touching[world, foot] = wp.min(points, 1.0)
