"""Contacts and joint limits of many replicas as Warp kernels: the arithmetic of `impulses.py`; imports Warp.

One thread computes one world. The world is the last index of all scratch memory, so that neighbouring threads read
neighbouring numbers. A row of M has the ancestors of its degree of freedom as columns, and itself as the last one.
"""

from functools import cache
from typing import Any

import warp as wp

from ees_mpi.tasks.mujoco.replica.bodies import TIME_STEP
from ees_mpi.tasks.mujoco.replica.rules import CONTACT_SHARE, LIMIT_SHARE, SLACK, SLOP


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def constrain(
    qpos: wp.array2d[float],
    place: wp.array2d[wp.vec3],
    frame: wp.array2d[wp.mat33],
    com: wp.array2d[wp.vec3],
    root: int,
    cdof: wp.array2d[wp.spatial_vector],
    ancestor: wp.array[int],
    order: wp.array[int],
    qpos_at: wp.array[int],
    dof_at: wp.array[int],
    lower: wp.array[float],
    upper: wp.array[float],
    rate: wp.array[float],
    geoms: wp.array[int],
    last_dof: wp.array[int],
    half: wp.array[float],
    radius: wp.array[float],
    near: wp.array[float],
    axes: int,
    point: wp.array2d[wp.vec3],
    spot: wp.array2d[wp.vec3],
    J: wp.array3d[float],
    target: wp.array2d[float],
    rows: wp.array2d[int],
) -> None:
    """Write rows and target speeds of all constraints: limits, contacts, then frictions along one or two axes."""
    world = wp.tid()
    nv = J.shape[1]
    row = wp.int32(0)
    for number in range(order.shape[0]):
        joint = order[number]
        below = qpos[world, qpos_at[joint]] - lower[joint]
        above = upper[joint] - qpos[world, qpos_at[joint]]
        inside = wp.min(below, above)
        if inside <= 0.0:
            for k in range(nv):
                J[row, k, world] = 0.0
            J[row, dof_at[joint], world] = wp.where(below <= 0.0, rate[joint], -rate[joint])
            target[row, world] = wp.where(inside > -SLACK, -inside * LIMIT_SHARE / TIME_STEP, 0.0)
            row = row + 1
    rows[0, world] = row
    contacts = wp.int32(0)
    for shape in range(geoms.shape[0]):
        geom = geoms[shape]
        turn = frame[world, geom]
        up = wp.vec3(turn[2, 0], turn[2, 1], turn[2, 2])
        if place[world, geom][2] - wp.abs(up[2]) * half[shape] - radius[shape] < near[shape]:
            other = wp.where(half[shape] > 0.0 and up[2] > 0.0, 1, 0)
            end = wp.vec3(0.0, 0.0, wp.where(other == 1, -half[shape], half[shape])) - radius[shape] * up
            lowest = place[world, geom] + turn * end
            turn_of_point = spot[2 * shape + other, world][2]
            if turn_of_point == 0.0:
                turn_of_point = 1.0 + spot[2 * shape + 1 - other, world][2]
            point[2 * shape + other, world] = end
            spot[2 * shape + other, world] = wp.vec3(lowest[0], lowest[1], turn_of_point)
        for side in range(2):
            slot = 2 * shape + side
            if spot[slot, world][2] > 0.0:
                p = place[world, geom] + turn * point[slot, world]
                x = p[0] - spot[slot, world][0]
                y = p[1] - spot[slot, world][1]
                if p[2] <= near[shape] and x * x + y * y <= near[shape] * near[shape]:
                    contacts = contacts + 1
                else:
                    spot[slot, world] = wp.vec3()
    rows[1, world] = contacts
    for number in range(point.shape[0]):
        slot = number
        if spot[2 * (number // 2), world][2] > spot[2 * (number // 2) + 1, world][2]:
            slot = 4 * (number // 2) + 1 - number  # the other one came first
        if spot[slot, world][2] > 0.0:
            geom = geoms[slot // 2]
            p = place[world, geom] + frame[world, geom] * point[slot, world]
            arm = p - com[world, root]
            for axis in range(axes + 1):
                target[row + axis * contacts, world] = 0.0
                for k in range(nv):
                    J[row + axis * contacts, k, world] = 0.0
            k = last_dof[slot // 2]
            while k >= 0:
                motion = cdof[world, k]
                speed = wp.spatial_bottom(motion) + wp.cross(wp.spatial_top(motion), arm)
                J[row, k, world] = speed[2]
                J[row + axes * contacts, k, world] = speed[0]
                if axes == 2:
                    J[row + contacts, k, world] = speed[1]
                k = ancestor[k]
            distance = p[2] + SLOP
            target[row, world] = wp.where(distance > 0.0, -distance, -distance * CONTACT_SHARE) / TIME_STEP
            row = row + 1


@wp.kernel(enable_backward=False)  # type: ignore[untyped-decorator]
def respond(
    qvel: wp.array2d[float],
    rows: wp.array2d[int],
    axes: int,
    start: wp.array[int],
    count: wp.array[int],
    column: wp.array[int],
    factor: wp.array2d[float],
    J: wp.array3d[float],
    X: wp.array3d[float],
    missing: wp.array2d[float],
    own: wp.array2d[float],
    impulse: wp.array2d[float],
) -> None:
    """Write the change of speeds by a unit of impulse on a row; replace its target by the speed that it lacks."""
    row, world = wp.tid()
    if row >= rows[0, world] + (1 + axes) * rows[1, world]:
        return
    nv = qvel.shape[1]
    for k in range(nv):
        X[row, k, world] = J[row, k, world]
    for step in range(nv):
        k = nv - 1 - step
        value = X[row, k, world]
        if value != 0.0:
            for i in range(count[k] - 1):
                c = column[start[k] + i]
                X[row, c, world] = X[row, c, world] - factor[start[k] + i, world] * value
    lacks = missing[row, world]
    size = wp.float32(0.0)
    for k in range(nv):
        value = X[row, k, world] / factor[start[k] + count[k] - 1, world]
        for i in range(count[k] - 1):
            value = value - factor[start[k] + i, world] * X[row, column[start[k] + i], world]
        X[row, k, world] = value
        lacks = lacks - J[row, k, world] * qvel[world, k]
        size = size + J[row, k, world] * value
    missing[row, world] = lacks
    own[row, world] = wp.where(size > 0.0, 1.0 / size, 0.0)
    impulse[row, world] = 0.0


@cache
def sweep_kernel(nv: int) -> Any:
    """Return the kernel that solves the constraints of robots with `nv` degrees of freedom as far as Bullet does.

    The number is a constant of the kernel, so that the change of the speeds stays in registers.
    """
    speeds = wp.types.vector(length=nv, dtype=wp.float32)

    @wp.func  # type: ignore[untyped-decorator]
    def asked(
        row: int,
        world: int,
        J: wp.array3d[float],
        missing: wp.array2d[float],
        own: wp.array2d[float],
        impulse: wp.array2d[float],
        change: speeds,  # type: ignore[valid-type]
    ) -> float:
        """Return the impulse that a row needs after all changes so far."""
        lacks = missing[row, world]
        for k in range(nv):
            lacks = lacks - J[row, k, world] * change[k]  # type: ignore[index]
        return impulse[row, world] + lacks * own[row, world]  # type: ignore[no-any-return]

    @wp.func  # type: ignore[untyped-decorator]
    def pushed(
        row: int,
        world: int,
        value: float,
        X: wp.array3d[float],
        impulse: wp.array2d[float],
        change: speeds,  # type: ignore[valid-type]
    ) -> speeds:  # type: ignore[valid-type]
        """Set the impulse of a row; return the change of the speeds with it."""
        result = change
        more = value - impulse[row, world]
        if more != 0.0:
            impulse[row, world] = value
            for k in range(nv):
                result[k] = result[k] + X[row, k, world] * more  # type: ignore[index]
        return result

    @wp.kernel(module="unique", enable_backward=False)  # type: ignore[untyped-decorator]
    def sweep(
        J: wp.array3d[float],
        X: wp.array3d[float],
        missing: wp.array2d[float],
        own: wp.array2d[float],
        rows: wp.array2d[int],
        axes: int,
        friction: float,
        sweeps: int,
        impulse: wp.array2d[float],
        change: wp.array2d[float],
    ) -> None:
        """Solve the constraints; `change`: of the speeds."""
        world = wp.tid()
        limits = rows[0, world]
        contacts = rows[1, world]
        now = speeds()
        for turn in range(sweeps):
            for limit in range(limits):
                row = wp.where(turn % 2 == 1, limit, limits - 1 - limit)
                value = wp.max(0.0, asked(row, world, J, missing, own, impulse, now))
                now = pushed(row, world, value, X, impulse, now)
            for row in range(limits, limits + contacts):
                value = wp.max(0.0, asked(row, world, J, missing, own, impulse, now))
                now = pushed(row, world, value, X, impulse, now)
            for contact in range(contacts):
                along = limits + axes * contacts + contact
                across = limits + contacts + contact
                x = asked(along, world, J, missing, own, impulse, now)
                y = wp.float32(0.0)
                if axes == 2:
                    y = asked(across, world, J, missing, own, impulse, now)
                size = wp.sqrt(x * x + y * y)
                most = friction * impulse[limits + contact, world]
                share = wp.where(size > most, most / size, 1.0)
                if axes == 2:
                    now = pushed(across, world, share * y, X, impulse, now)
                now = pushed(along, world, share * x, X, impulse, now)
        for k in range(nv):
            change[k, world] = now[k]

    return sweep
