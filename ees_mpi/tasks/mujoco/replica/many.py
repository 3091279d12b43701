"""Many replicas on one device: each action of all robots is one launch of `action.cpp`; imports Warp."""

from functools import cache
from typing import Any

import warp as wp

from ees_mpi.outcomes import Singles
from ees_mpi.tasks.mujoco.replica import action
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS
from ees_mpi.tasks.mujoco.replica.rules import Rules
from ees_mpi.tasks.mujoco.robot_model import ManyRobots


@wp.struct
class Arrays:
    """The arrays of all robots, float32[worlds, ...]; `action.cpp` has them by these names."""

    qpos: wp.array2d[float]
    qvel: wp.array2d[float]
    ctrl: wp.array2d[float]
    memory: wp.array2d[float]
    rows: wp.array2d[float]  # constraints that are not at hand
    time: wp.array2d[float]
    place: wp.array2d[float]
    observation: wp.array2d[float]


class ManyReplicas(ManyRobots):
    """Robots that step together; tensors share memory with Warp's arrays."""

    def __init__(self, rules: Rules, compiled: Any, worlds: int):
        """Take the memory on Warp's current device; `compiled`: MuJoCo's model."""
        sizes = action.sizes_of(rules, compiled)
        widths = {"qpos": compiled.nq, "qvel": compiled.nv, "ctrl": compiled.nu, "memory": sizes["MEMORY"]}
        widths |= {"rows": max(1, action.more_rows(sizes)), "time": 1, "place": 2, "observation": rules.observations}
        found = {name: wp.zeros((worlds, int(width)), dtype=float) for name, width in widths.items()}
        self._bytes, arrays = sum(int(array.capacity) for array in found.values()), Arrays()
        wp.synchronize()  # torch reads these arrays on another stream
        tensors = {name: wp.to_torch(array) for name, array in found.items()}
        for name, array in found.items():
            setattr(arrays, name, array)
        self.qpos, self.qvel, self.ctrl = tensors["qpos"], tensors["qvel"], tensors["ctrl"]
        self.memory, self._time, self.observation = tensors["memory"], tensors["time"], tensors["observation"]
        self.position = tensors["place"][:, : 1 if rules.planar else 2]
        self.start = self.qpos.clone(), self.qvel.clone()
        layout, block = action.LAYOUT, action.LAYOUT.lanes * action.LAYOUT.worlds
        names = "".join(f"auto& {name} = arrays.{name};\n" for name in widths)
        kernel = action_kernel(names + action.source(rules, compiled), (block, layout.blocks))
        how = {"dim": worlds * layout.lanes, "record_cmd": True, "block_dim": block}
        self._look, self._act = (wp.launch(kernel, inputs=[steps, arrays], **how) for steps in (0, SUB_STEPS))

    def reset(self, qpos: Singles, qvel: Singles) -> None:
        super().reset(qpos, qvel)
        for tensor in (self.memory, self._time, self.ctrl):
            tensor.zero_()
        self._look.launch()

    def step(self) -> None:
        """Advance all robots by one action, and observe."""
        self._act.launch()

    def seconds(self) -> float:
        return float(self._time[0, 0])

    def bytes(self) -> int:
        return self._bytes


@cache
def action_kernel(source: str, blocks: tuple[int, int]) -> Any:
    """Return the kernel of a robot; `blocks`: threads of a block, and blocks that should fit a processor."""

    @wp.func_native(source)  # type: ignore[untyped-decorator]
    def act(thread: int, steps: int, arrays: Arrays) -> None: ...

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False, launch_bounds=blocks)  # type: ignore[untyped-decorator]
    def kernel(steps: int, arrays: Arrays) -> None:
        """Move all robots for so many physics steps, and observe."""
        act(wp.tid(), steps, arrays)

    return kernel
