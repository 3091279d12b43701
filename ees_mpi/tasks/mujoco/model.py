"""Compile MJCF to a MuJoCo model, with its observations, its controls and the starts of its rollouts."""

import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.outcomes import Floats, Singles
from ees_mpi.registry import unknown
from ees_mpi.tasks.mujoco.robots import ROBOTS

RESET_NOISE = 0.1  # of Gymnasium v5's robots, in qpos (uniform) and qvel (normal)
INTEGRATORS = {"euler": "mjINT_EULER", "rk4": "mjINT_RK4", "implicitfast": "mjINT_IMPLICITFAST"}


@dataclass(frozen=True)
class Plant:
    """A compiled model and the numbers that rollouts need."""

    model: Any  # mujoco.MjModel
    root: int  # the body whose position is the behaviour
    axes: int
    kept: slice | NDArray[np.int64]  # the entries of qpos that are observed
    low: Singles  # [actions] bounds of the controls
    high: Singles
    height: tuple[float, float] | None  # range of qpos[2] outside of which a rollout ends

    @property
    def positions(self) -> int:
        """The number of entries of qpos that are observed."""
        return len(np.arange(self.model.nq)[self.kept])

    @property
    def observations(self) -> int:
        """The number of observations: the kept part of qpos, and qvel."""
        return self.positions + int(self.model.nv)

    def start(self, seed: int) -> tuple[Floats, Floats]:
        """Return qpos and qvel at the start: the same as a reset of Gymnasium v5's robots with this seed."""
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        qpos = self.model.qpos0 + generator.uniform(low=-RESET_NOISE, high=RESET_NOISE, size=self.model.nq)
        qvel = RESET_NOISE * generator.standard_normal(self.model.nv)
        return qpos, qvel


def library() -> Any:
    """Import MuJoCo, or raise an error that says how to install it."""
    try:
        import mujoco
    except ImportError:
        raise MissingExtra("task mujoco needs MuJoCo: pip install 'ees_mpi[mujoco]'") from None
    # Otherwise every rank writes MUJOCO_LOG.TXT; a rollout that blows up is marked invalid instead.
    mujoco.set_mju_user_warning(lambda message: None)
    return mujoco


def xml_text(model: str) -> str:
    """Return the text of a user's MJCF file, which must be self-contained: the run file carries the text."""
    try:
        text = Path(model).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(ROBOTS)
        raise ConfigError(
            f"task.model: expected one of {known} or an MJCF file; cannot read {model!r}: {error}"
        ) from None
    return _alone(model, text)


def _alone(model: str, text: str) -> str:
    """Return MJCF text; raise a ConfigError if it refers to other files."""
    if re.search(r"file\w*\s*=", text, re.IGNORECASE):
        raise ConfigError(
            f"task.model {model!r}: expected a single file; it refers to other files (include, mesh, ...)"
        )
    return text


@lru_cache(maxsize=4)
def load(model: str, xml: str, root: str, axes: int, integrator: str) -> Plant:
    """Compile a built-in robot, or the user's MJCF text, and look up the root body."""
    mujoco, robot = library(), ROBOTS.get(model)
    text = "" if robot else _alone(model, xml or xml_text(model))
    try:
        if robot:
            compiled = mujoco.MjModel.from_xml_path(str(_assets() / robot.file))
        else:
            compiled = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise ConfigError(f"task.model {model!r} is not a valid MJCF model: {' '.join(str(error).split())}") from None
    if compiled.nu == 0:
        raise ConfigError(f"task.model {model!r}: expected a model with actuators, got one without")
    if integrator:
        compiled.opt.integrator = getattr(mujoco.mjtIntegrator, INTEGRATORS[integrator])
    body = mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_BODY, root)
    if body < 1:
        names = [compiled.body(number).name for number in range(1, compiled.nbody)]
        raise ConfigError(f"task.root: {unknown(root, [name for name in names if name])}")
    limited = compiled.actuator_ctrllimited.astype(bool)
    low, high = compiled.actuator_ctrlrange.astype(np.float32).T
    return Plant(
        compiled,
        body,
        axes,
        _kept(mujoco, compiled, body, axes),
        np.where(limited, low, np.float32(-np.inf)),
        np.where(limited, high, np.float32(np.inf)),
        robot.height if robot else None,
    )


def _assets() -> Path:
    """Return the folder of Gymnasium's MJCF files, without importing Gymnasium."""
    spec = importlib.util.find_spec("gymnasium")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("task mujoco takes its robots from Gymnasium: pip install 'ees_mpi[mujoco]'")
    return Path(spec.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"


def _kept(mujoco: Any, model: Any, body: int, axes: int) -> slice | NDArray[np.int64]:
    """Return the entries of qpos without the coordinates that the behaviour measures."""
    top = int(model.body_rootid[body])
    first = int(model.body_jntadr[top])
    dropped: list[int] = []
    for joint in range(first, first + int(model.body_jntnum[top])):
        start = int(model.jnt_qposadr[joint])
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            dropped += range(start, start + axes)
        elif model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
            direction = np.abs(model.jnt_axis[joint])
            dropped += [start] * any(direction[axis] > 0.999 for axis in range(axes))
    if dropped == list(range(len(dropped))):  # a slice is faster than a list of entries
        return slice(len(dropped), None)
    return np.setdiff1d(np.arange(model.nq), dropped).astype(np.int64)
