"""Many copies of one robot in MuJoCo Warp, with torch's view of their state; the sizes of their buffers."""

import dataclasses
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Singles
from ees_mpi.tasks.mujoco.robot_model import ManyRobots, RobotModel, Toolkit, library

LEAST_CONTACTS, LEAST_CONSTRAINTS = 12, 64  # three times the most that cheetahs and ants had in random rollouts
LEAST_CONTACTS_TOGETHER = 256  # of all robots, so that a few robots do not depend on averages
MARGIN = 2  # larger buffers are safer and slower: some kernels start a thread for every entry
TRIALS, TRIAL_STEPS = 20, 400  # random rollouts, and physics steps of each
STRENGTHS = (0.0, 0.1, 0.3, 1.0)  # of their controls: weak robots lie on the ground, strong ones jump
SCRATCH = 2  # memory of a world while it steps, in units of the memory of its state
CARRIED = ("act", "qacc_warmstart", "time", "ctrl", "history", "plastic", "overflow")  # state besides qpos and qvel


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


class Physics(ManyRobots):
    """Robots that step together; tensors share memory with Warp's arrays."""

    def __init__(self, tools: Toolkit, robot_model: RobotModel, kept: NDArray[np.int64], worlds: int, buffers: Buffers):
        """Take the memory on Warp's current device; `kept`: the entries of qpos that are observed, besides qvel."""
        warp, mujoco_warp, mujoco = tools.warp, tools.mujoco_warp, library()
        data = mujoco.MjData(robot_model.model)
        mujoco.mj_resetData(robot_model.model, data)  # before mj_forward: no contacts yet, so that any size is accepted
        self._model = mujoco_warp.put_model(robot_model.model)
        self._leave_out_idle_work(robot_model)
        contacts = buffers.contacts_of_each(worlds)
        self.data = mujoco_warp.put_data(
            robot_model.model, data, nworld=worlds, nconmax=contacts, njmax=buffers.constraints
        )
        warp.synchronize()  # torch reads these arrays on another stream
        self.qpos, self.qvel, self.ctrl = (warp.to_torch(getattr(self.data, name)) for name in ("qpos", "qvel", "ctrl"))
        self.position = warp.to_torch(self.data.xpos)[:, robot_model.root, : robot_model.axes]
        self.observation = self.qpos.new_zeros(worlds, len(kept) + self.qvel.shape[1])
        self._kept = tools.torch.from_numpy(kept).to(self.qpos.device)
        self._picked = self.qpos.new_zeros(worlds, len(kept))
        self._advance, self._sub_steps, self._buffers = mujoco_warp.step, robot_model.sub_steps, buffers
        self._overflows, self._select = mujoco_warp.OverflowType, tools.torch.index_select
        on_gpu = tools.device.startswith("cuda")
        self._scratch = warp.ScopedAllocator(tools.device, Scratch(warp, tools.device)) if on_gpu else nullcontext()
        arrays = {name: getattr(self.data, name, None) for name in CARRIED}
        self._carried = {
            name: warp.to_torch(array) for name, array in arrays.items() if array is not None and array.size
        }
        self._first = {name: tensor.clone() for name, tensor in self._carried.items()}
        self.start, self.memory = (self.qpos.clone(), self.qvel.clone()), self._carried["qacc_warmstart"]

    def _leave_out_idle_work(self, robot_model: RobotModel) -> None:
        """Skip kernels whose results are not used; the motion stays the same."""
        self._model.opt.warn_overflow = 0  # prints nothing from the device; the flags are set all the same
        self._model.ncam = self._model.nlight = 0  # nothing is drawn
        idle = library().mjtDisableBit
        self._model.opt.disableflags |= int(idle.mjDSBL_SENSOR)  # the policy sees qpos and qvel only
        dampings = ("dof_damping", "dof_dampingpoly", "actuator_damping", "actuator_dampingpoly")
        if not any(getattr(robot_model.model, name).any() for name in dampings):
            self._model.opt.disableflags |= int(idle.mjDSBL_EULERDAMP)  # a second factorisation of the masses
        if not robot_model.model.dof_frictionloss.any() and not robot_model.model.ntendon:
            self._model.opt.disableflags |= int(idle.mjDSBL_FRICTIONLOSS)

    def reset(self, qpos: Singles, qvel: Singles) -> None:
        super().reset(qpos, qvel)
        for name, tensor in self._carried.items():
            tensor.copy_(self._first[name])

    def step(self) -> None:
        with self._scratch:
            for _ in range(self._sub_steps):
                self._advance(self._model, self.data)

    def observe(self) -> None:
        """Copy qpos, as far as it is kept, and qvel."""
        self._select(self.qpos, 1, self._kept, out=self._picked)
        self.observation[:, : len(self._kept)].copy_(self._picked)
        self.observation[:, len(self._kept) :].copy_(self.qvel)

    def dropped(self, worlds: NDArray[np.int64]) -> str:
        flags = int(np.bitwise_or.reduce(self._carried["overflow"].cpu().numpy()[worlds], initial=0))
        return overflow_message(flags, self._overflows, self._buffers)

    def seconds(self) -> float:
        return float(self._carried["time"][0])

    def bytes(self) -> int:
        """Return the memory of the robots while they step, calculated from the arrays of their state."""
        return (1 + SCRATCH) * _bytes(self.data)


def _bytes(part: Any) -> int:
    total = 0
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value):
            total += _bytes(value)
        else:
            total += int(getattr(value, "capacity", 0) or 0)
    return total


class Scratch:
    """An allocator of Warp for the some 25 arrays of a physics step: it keeps returned memory for the next request.

    So a CUDA graph of steps contains kernels only: Warp's own allocator adds two nodes to the graph for every array.
    All requests must come from one stream: memory is used again in the order of the stream.
    """

    deallocate_requires_context_guard = False  # of Warp's allocators: `deallocate` calls no CUDA function

    def __init__(self, warp: Any, device: Any):
        self._warp, self._device = warp, warp.get_device(device)
        self._blocks: dict[int, tuple[Any, bool]] = {}  # address -> array, whether it belongs to a graph
        self._free: dict[int, list[int]] = {}  # size -> addresses

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes."""
        if waiting := self._free.get(size):
            return waiting.pop()
        belongs_to_graph = bool(self._device.is_capturing)
        with self._warp.ScopedAllocator(self._device, None):
            block = self._warp.empty(size, dtype=self._warp.uint8, device=self._device)
        self._blocks[block.ptr] = block, belongs_to_graph
        return block.ptr

    def deallocate(self, address: int, size: int) -> None:
        """Keep memory for later; memory that a graph has taken itself goes back to the graph."""
        if self._blocks[address][1]:
            del self._blocks[address]
        else:
            self._free.setdefault(size, []).append(address)
