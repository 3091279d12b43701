"""How much memory a batch takes on a GPU: solver and contact buffers, robots, noise."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ees_mpi.errors import TaskError
from ees_mpi.tasks.mujoco.robot_model import RobotModel, library

LEAST_CONTACTS, LEAST_CONSTRAINTS = 12, 64  # three times the most that cheetahs and ants had in random rollouts
LEAST_CONTACTS_TOGETHER = 256  # of all robots, so that a few robots do not depend on averages
MARGIN = 2  # larger buffers are safer and slower: some kernels start a thread for every entry
TRIALS, TRIAL_STEPS = 20, 400  # random rollouts, and physics steps of each
STRENGTHS = (0.0, 0.1, 0.3, 1.0)  # of their controls: weak robots lie on the ground, strong ones jump
FREE_SHARE = 0.9  # of the free memory of the device, that is taken at most
SCRATCH = 2  # memory of a world while it steps, in units of the memory of its state


@dataclass(frozen=True)
class Buffers:
    """Sizes per world: contacts on average over the worlds, constraints at most."""

    contacts: int
    constraints: int

    def contacts_of_each(self, worlds: int) -> int:
        """Return the contacts per world with so many worlds."""
        return max(self.contacts, -(-LEAST_CONTACTS_TOGETHER // worlds))


def measured_buffers(robot_model: RobotModel, contacts: int = 0, constraints: int = 0) -> Buffers:
    """Return buffer sizes; those that are 0 are measured in random rollouts on the CPU, with a margin."""
    if contacts and constraints:
        return Buffers(contacts, constraints)
    most_contacts, most_constraints = _random_rollouts(robot_model)
    return Buffers(
        contacts or max(LEAST_CONTACTS, _rounded_up(MARGIN * most_contacts, 4)),
        constraints or max(LEAST_CONSTRAINTS, _rounded_up(MARGIN * most_constraints, 16)),
    )


def _random_rollouts(robot_model: RobotModel) -> tuple[int, int]:
    """Return the largest numbers of contacts and constraints that a robot has under random controls."""
    mujoco, generator = library(), np.random.default_rng(0)
    data, most = mujoco.MjData(robot_model.model), np.zeros(2, np.int64)
    low, high = np.maximum(robot_model.low, -1e3), np.minimum(robot_model.high, 1e3)
    for trial in range(TRIALS):
        mujoco.mj_resetData(robot_model.model, data)
        data.qpos[:], data.qvel[:] = robot_model.start(trial)
        strength = STRENGTHS[trial % len(STRENGTHS)]
        for step in range(TRIAL_STEPS):
            if step % 5 == 0:
                data.ctrl[:] = strength * generator.uniform(low, high) if step % 10 else strength * high
            mujoco.mj_step(robot_model.model, data)
            most = np.maximum(most, (data.ncon, data.nefc))
    return int(most[0]), int(most[1])


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def overflow_message(flags: int, kinds: Any, buffers: Buffers) -> str:
    """Say which buffers were too small; empty if none. `kinds`: MuJoCo Warp's OverflowType."""
    too_small = []
    if flags & (kinds.NEFC | kinds.NJMAX_NNZ | kinds.NVMAX):
        too_small.append(f"task.constraints (now {buffers.constraints})")
    if flags & (kinds.BROADPHASE | kinds.NARROWPHASE | kinds.CCD | kinds.HFIELD):
        too_small.append(f"task.contacts (now {buffers.contacts})")
    if not too_small:
        return ""
    return f"the GPU has dropped contacts or constraints of robots; raise {' and '.join(too_small)}"


@contextmanager
def missing_memory_is_refused() -> Iterator[None]:
    """Turn errors of torch and Warp about missing memory into one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not re.search("out of memory|failed to allocate", str(error), re.IGNORECASE):
            raise
        raise TaskError("out of GPU memory; lower noise.size or population.size, or free the GPU") from None


def rows_that_fit(wanted: int, width: int, free: int, fixed: int, per_row: int) -> int:
    """Return how many rows of `width` worlds to make for `wanted` individuals: fewer if the memory is short.

    `free`: bytes that are free; `fixed`: bytes taken once; `per_row`: bytes of the worlds and the noise of a row. One
    more row than needed holds the unperturbed mean.
    """
    rows = -(-wanted // width) + 1
    possible = int(FREE_SHARE * free - fixed) // per_row
    if possible < 1:
        need = (fixed + per_row) / FREE_SHARE
        raise TaskError(
            f"out of GPU memory: one robot and the noise table need {need / 1e9:.2f} GB, {free / 1e9:.2f} GB are free; "
            "lower noise.size, or free the GPU"
        )
    return min(rows, possible)


def watched_worlds(share: float, worlds: int) -> int:
    """Return room for the observation sums of so many rollouts: practically never too few in one batch."""
    expected = share * worlds
    return min(worlds, int(expected + 6 * np.sqrt(expected) + 8))
