"""Drag, accelerations and motion of many replicas as Warp kernels: the arithmetic of `robots.py`; imports Warp.

One thread computes one world. The world is the last index of scratch memory, so that neighbouring threads read
neighbouring numbers. A row of the mass matrix M has the ancestors of its degree of freedom as columns, and itself last.
"""

import warp as wp

from ees_mpi.tasks.mujoco.replica.bodies import TIME_STEP
from ees_mpi.tasks.mujoco.replica.rules import DRAG, DRAG_OF_SPEED, FASTEST


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def drag(
    cvel: wp.array2d[wp.spatial_vector],
    xipos: wp.array2d[wp.vec3],
    ximat: wp.array2d[wp.mat33],
    subtree_com: wp.array2d[wp.vec3],
    mass: wp.array[float],
    inertia: wp.array[wp.vec3],
    root: int,
    wrench: wp.array2d[wp.spatial_vector],
) -> None:
    """Write the torque about the center of the robot, and the force, that slow every link down as in Bullet."""
    world, body = wp.tid()
    both = cvel[world, body]
    turn = wp.spatial_top(both)
    arm = xipos[world, body] - subtree_com[world, root]
    speed = wp.spatial_bottom(both) + wp.cross(turn, arm)
    frame = ximat[world, body]
    local = wp.cw_mul(wp.transpose(frame) * turn, inertia[body])
    force = -mass[body] * (DRAG + DRAG_OF_SPEED * wp.length(speed)) * speed
    torque = -(DRAG + DRAG_OF_SPEED * wp.length(turn)) * (frame * local)
    wrench[body, world] = wp.spatial_vector(torque + wp.cross(arm, force), force)


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def accelerate(
    ctrl: wp.array2d[float],
    gear: wp.array[float],
    dof_at: wp.array[int],
    bias: wp.array2d[float],
    cdof: wp.array2d[wp.spatial_vector],
    body_of: wp.array[int],
    parent: wp.array[int],
    wrench: wp.array2d[wp.spatial_vector],
    mass: wp.array2d[float],
    start: wp.array[int],
    count: wp.array[int],
    column: wp.array[int],
    factor: wp.array2d[float],
    change: wp.array2d[float],
    qvel: wp.array2d[float],
) -> None:
    """Factorise the mass matrix, and add the accelerations by motors, drag, gravity and inertia to the speeds."""
    world = wp.tid()
    for step in range(parent.shape[0] - 1):
        body = parent.shape[0] - 1 - step
        wrench[parent[body], world] = wrench[parent[body], world] + wrench[body, world]
    for dof in range(bias.shape[1]):
        change[dof, world] = wp.dot(cdof[world, dof], wrench[body_of[dof], world]) - bias[world, dof]
    for motor in range(dof_at.shape[0]):
        dof = dof_at[motor]
        change[dof, world] = change[dof, world] + gear[motor] * ctrl[world, motor]
    for entry in range(factor.shape[0]):
        factor[entry, world] = mass[world, entry]
    for step in range(bias.shape[1]):
        k = bias.shape[1] - 1 - step
        last = count[k] - 1
        inverse = 1.0 / factor[start[k] + last, world]
        for back in range(last):
            i = last - 1 - back
            share = factor[start[k] + i, world] * inverse
            row = start[column[start[k] + i]]
            for j in range(i + 1):
                factor[row + j, world] = factor[row + j, world] - share * factor[start[k] + j, world]
            factor[start[k] + i, world] = share
    for step in range(bias.shape[1]):
        k = bias.shape[1] - 1 - step
        for i in range(count[k] - 1):
            c = column[start[k] + i]
            change[c, world] = change[c, world] - factor[start[k] + i, world] * change[k, world]
    for k in range(bias.shape[1]):
        value = change[k, world] / factor[start[k] + count[k] - 1, world]
        for i in range(count[k] - 1):
            value = value - factor[start[k] + i, world] * change[column[start[k] + i], world]
        change[k, world] = value
        qvel[world, k] = qvel[world, k] + TIME_STEP * value


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def move(
    change: wp.array2d[float],
    qpos_at: wp.array[int],
    dof_at: wp.array[int],
    rate: wp.array[float],
    planar: int,
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    time: wp.array[float],
) -> None:
    """Change the speeds, and move all joints for one physics step."""
    world = wp.tid()
    for k in range(qvel.shape[1]):
        speed = qvel[world, k] + change[k, world]
        qvel[world, k] = wp.where(wp.isnan(speed), speed, wp.clamp(speed, -FASTEST, FASTEST))  # `clamp` drops NaN
    for axis in range(3):
        qpos[world, axis] = qpos[world, axis] + TIME_STEP * qvel[world, axis]
    if planar == 0:
        turn = wp.vec3(qvel[world, 3], qvel[world, 4], qvel[world, 5])
        w = qpos[world, 3]
        v = wp.vec3(qpos[world, 4], qpos[world, 5], qpos[world, 6])
        angle = 0.5 * TIME_STEP * wp.length(turn)
        c = wp.cos(angle)
        s = wp.sin(angle) * wp.normalize(turn)
        q = wp.normalize(wp.quat(w * s + c * v + wp.cross(v, s), w * c - wp.dot(v, s)))
        qpos[world, 3] = q[3]
        for axis in range(3):
            qpos[world, 4 + axis] = q[axis]
    for joint in range(dof_at.shape[0]):
        at = qpos_at[joint]
        qpos[world, at] = qpos[world, at] + TIME_STEP * rate[joint] * qvel[world, dof_at[joint]]
    time[world] = time[world] + TIME_STEP
