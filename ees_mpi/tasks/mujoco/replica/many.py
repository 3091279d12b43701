"""Many replicas on one device: each action of all robots is one launch of `action.cpp`; imports Warp."""

from functools import cache
from typing import Any

import warp as wp

from ees_mpi.arrays import Singles
from ees_mpi.tasks.mujoco.replica import action
from ees_mpi.tasks.mujoco.replica.bodies import SUB_STEPS
from ees_mpi.tasks.mujoco.replica.rules import Rules
from ees_mpi.tasks.mujoco.robot_model import ManyRobots


class ManyReplicas(ManyRobots):
    """Robots that step together; tensors share memory with Warp's arrays."""

    def __init__(self, rules: Rules, compiled: Any, worlds: int):
        """Take the memory on Warp's current device; `compiled`: MuJoCo's model."""
        sizes = action.sizes_of(rules, compiled)
        more = max(1, action.more_rows(sizes))
        widths = (compiled.nq, compiled.nv, compiled.nu, sizes["MEMORY"], more, 1, 2, rules.observations)
        self._arrays = [wp.zeros((worlds, int(width)), dtype=float) for width in widths]
        wp.synchronize()  # torch reads these arrays on another stream
        tensors = [wp.to_torch(array) for array in self._arrays]
        self.qpos, self.qvel, self.ctrl, self.memory, _, self._time, place, self.observation = tensors
        self.position = place[:, : 1 if rules.planar else 2]
        self.start = self.qpos.clone(), self.qvel.clone()
        layout, block = action.LAYOUT, action.LAYOUT.lanes * action.LAYOUT.worlds
        kernel = action_kernel(action.source(rules, compiled), (block, layout.blocks))
        self._look, self._act = (
            wp.launch(
                kernel,
                dim=worlds * layout.lanes,
                inputs=[steps, *self._arrays],
                record_cmd=True,
                block_dim=block,
            )
            for steps in (0, SUB_STEPS)
        )

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
        return sum(int(array.capacity) for array in self._arrays)


@cache
def action_kernel(source: str, blocks: tuple[int, int]) -> Any:
    """Return the kernel of a robot; `blocks`: threads of a block, and blocks that should fit a processor."""

    @wp.func_native(source)  # type: ignore[untyped-decorator]
    def act(
        thread: int,
        steps: int,
        qpos: wp.array2d[float],
        qvel: wp.array2d[float],
        ctrl: wp.array2d[float],
        memory: wp.array2d[float],
        rows: wp.array2d[float],
        time: wp.array2d[float],
        place: wp.array2d[float],
        observation: wp.array2d[float],
    ) -> None: ...

    @wp.kernel(module="unique", enable_backward=False, grid_stride=False, launch_bounds=blocks)  # type: ignore[untyped-decorator]
    def kernel(
        steps: int,
        qpos: wp.array2d[float],
        qvel: wp.array2d[float],
        ctrl: wp.array2d[float],
        memory: wp.array2d[float],
        rows: wp.array2d[float],
        time: wp.array2d[float],
        place: wp.array2d[float],
        observation: wp.array2d[float],
    ) -> None:
        """Move all robots for so many physics steps, and observe."""
        act(wp.tid(), steps, qpos, qvel, ctrl, memory, rows, time, place, observation)

    return kernel
