"""Writes the source of a robot's action: `action.cpp`, with the robot's numbers above it. It needs no Warp."""

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.tasks.mujoco.replica import rules as bullet
from ees_mpi.tasks.mujoco.replica.bodies import TIME_STEP
from ees_mpi.tasks.mujoco.replica.rules import Rules
from ees_mpi.tasks.mujoco.robot_model import library


class Layout(NamedTuple):
    """How a GPU shares out the work. It changes the speed, and no bits."""

    lanes: int  # threads that compute a world together
    worlds: int  # in a block
    blocks: int  # that a processor of the GPU should hold; it limits the registers of a thread
    rows: int  # constraints of a world that stay in fast memory; more are in the memory of the device


LAYOUT = Layout(8, 4, 12, 24)  # the quickest of ten for 10,000 robots on an H200; more lanes are for few robots
LINKS = {True: 3, False: 2}  # of a leg


def sizes_of(rules: Rules, model: Any) -> dict[str, int]:
    """Return the sizes of a robot and of its work; the source has them as constants."""
    joints, geoms, dofs, links = len(rules.joints), len(rules.geoms), int(model.nv), LINKS[rules.planar]
    root, axes = dofs - joints, 1 if rules.planar else 2
    rows = joints + 2 * geoms * (1 + axes)
    return {
        "PLANAR": int(rules.planar),
        "AXES": axes,  # of friction
        "ROOT": root,  # degrees of freedom of the torso
        "ROOT_Q": int(model.nq) - joints,
        "LINKS": links,
        "LEGS": joints // links,
        "JOINTS": joints,
        "DOFS": dofs,
        "WIDE": -(-dofs // 4) * 4,
        "BODIES": int(model.nbody) - 1,  # without the world
        "GEOMS": geoms,
        "FEET": len(rules.feet),
        "MEMORY": 12 * geoms + len(rules.feet),  # numbers that a world carries from action to action
        "ENTRIES": int(model.nM),
        "LEG_ENTRIES": sum(root + link + 1 for link in range(links)),
        "ROWS": rows,
        "ROWS_AT_HAND": min(LAYOUT.rows, rows),
        "SWEEPS": bullet.SWEEPS,
        "LANES": LAYOUT.lanes,
        "WORLDS_IN_BLOCK": LAYOUT.worlds,
    }


def more_rows(sizes: dict[str, int]) -> int:
    """Return how many numbers a world needs for constraints that are not at hand: struct Row."""
    return (sizes["ROWS"] - sizes["ROWS_AT_HAND"]) * (2 * sizes["WIDE"] + 4)


def source(rules: Rules, model: Any) -> str:
    """Return the body of the function in C++."""
    links = model.jnt_bodyid[rules.joints]  # the body of each joint
    leg, depth = np.zeros(model.nbody, np.int64), np.zeros(model.nbody, np.int64)
    leg[links], depth[links] = np.divmod(np.arange(len(links)), LINKS[rules.planar])
    depth[links] += 1
    indices = {
        "LEG": leg[1:],
        "DEPTH": depth[1:],  # joints between the torso and the body
        "LINK_BODY": links - 1,
        "GEOM_BODY": rules.bodies - 1,
        "ORDER": rules.order,
        "FOOT": rules.feet,
    }
    tables = {
        "GEAR": model.actuator_gear[:, 0],
        "LOWER": rules.lower,
        "UPPER": rules.upper,
        "RATE": rules.rate,
        "AXIS": model.jnt_axis[rules.joints],
        "OFFSET": model.body_pos[links],
        "BODY_MASS": model.body_mass[1:],
        "BODY_INERTIA": model.body_inertia[1:],
        "CENTER": model.body_ipos[1:],
        "GEOM_PLACE": model.geom_pos[rules.geoms],
        "GEOM_AXIS": np.array([_axis(model.geom_quat[geom]) for geom in rules.geoms]),
        "HALF": rules.half,
        "RADIUS": rules.radius,
        "NEAR": rules.near,
        "FRAMES": rules.frames[1:],
        "CENTERS": rules.centers[1:],
    }
    numbers = {
        "TIME_STEP": TIME_STEP,
        "GRAVITY": -model.opt.gravity[2],
        "HEIGHT": model.body_pos[1, 2],  # of a planar torso where its slides are 0
        "FRICTION": rules.friction,
        "TORSO": rules.torso,
        "PI": np.pi,
    }
    shared = ("DRAG", "DRAG_OF_SPEED", "LIMIT_SHARE", "CONTACT_SHARE", "SLACK", "SLOP", "FASTEST", "CLIP", "INITIAL_Z")
    numbers |= {name: getattr(bullet, name) for name in (*shared, "TARGET_X")}
    sizes = ", ".join(f"{name} = {value}" for name, value in sizes_of(rules, model).items())
    lines = [f"enum {{ {sizes} }};"]
    lines += [f"constexpr float {name} = {_written(value)};" for name, value in numbers.items()]
    lines += [_table("signed char", name, values) for name, values in indices.items()]
    lines += [_table("float", name, values) for name, values in tables.items()]
    lines.append((files("ees_mpi.tasks.mujoco.replica") / "action.cpp").read_text(encoding="utf-8"))
    return "\n".join(lines)


def _axis(quaternion: Floats) -> Floats:
    """Return the axis of a capsule in the frame of its body."""
    frame = np.zeros(9)
    library().mju_quat2Mat(frame, quaternion)
    return frame[2::3]


def _table(kind: str, name: str, values: Any) -> str:
    return f"static const {kind} {name}{''.join(f'[{size}]' for size in values.shape)} = {_written(values.tolist())};"


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"{{{', '.join(map(_written, value))}}}"
    return str(value) if isinstance(value, int) else f"{float(value)!r}f"
