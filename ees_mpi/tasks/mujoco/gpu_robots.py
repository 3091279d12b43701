"""Robots that step together on one device: their physics, their policies, and the notes on their rollouts."""

import gc
import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import TaskError
from ees_mpi.generation import Outcomes
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco.physics import Buffers
from ees_mpi.tasks.mujoco.policy import BatchPolicy
from ees_mpi.tasks.mujoco.robot_model import RobotModel, Toolkit

STEPS_PER_GRAPH = 10

Step = Callable[[], None]


class GpuSetup(NamedTuple):
    """What robots on a GPU are made of."""

    tools: Toolkit
    task: WalkingTask
    robot_model: RobotModel
    seed: int  # of their start
    buffers: Buffers


class GpuRobots:
    """One robot per world, in `rows` rows of `width` worlds; the worlds of a row share one row of noise."""

    def __init__(self, setup: GpuSetup, rows: int, width: int):
        """Take all memory now."""
        from ees_mpi.tasks.mujoco.gpu_results import GpuResults  # imports Warp

        tools, task, robot_model, self._seed, buffers = setup
        self._tools, self._task, self._robot_model = tools, task, robot_model
        self._rows, self._width, self.worlds = rows, width, rows * width
        with tools.warp.ScopedDevice(tools.device):
            self.physics = robot_model.many(tools, self.worlds, buffers)
        self._sampled = max(width, watched_worlds(task.observation_share, self.worlds))
        self.results = GpuResults(robot_model, self.physics, task, self._sampled)
        self._low, self._high = (
            tools.torch.from_numpy(bound).to(tools.device) for bound in (robot_model.low, robot_model.high)
        )
        self._steps_per_launch = min(STEPS_PER_GRAPH, task.steps)
        self._policy: BatchPolicy  # and the recorder and graphs below: made by `_prepare`
        self.recorder: Recorder
        self._launch: Step  # several steps
        self._launch_one: Step

    def close(self) -> None:
        tools = self._tools
        vars(self).clear()
        if tools.device != "cpu":
            tools.torch.cuda.empty_cache()

    def _prepare(self, components: int) -> None:
        """Make the policies around so many means, and record the steps."""
        self._policy = self._policies(components)
        self.results.watch_actions(self._policy.action)
        self.recorder = Recorder(self._tools)
        with self.recorder.on_stream():
            self._record()

    def _policies(self, components: int) -> BatchPolicy:
        """Return policies around so many means."""
        raise NotImplementedError

    def _record(self) -> None:
        """Record several steps and one step, and try both."""
        several = self._steps_per_launch
        self._launch = self.recorder.record(self._step, several)
        rest = self._task.steps % several
        self._launch_one = self.recorder.record(self._step, 1) if rest else self._launch
        self._reset(np.empty(0, np.int64))
        self._launch()
        self._launch_one()
        done = several + (1 if rest else several)
        self.recorder.synchronize()
        simulated = done * self._robot_model.step_seconds
        noted = int(self.results.step)
        if noted != done or not math.isclose(self.physics.seconds(), simulated, rel_tol=1e-3):
            raise RuntimeError(
                f"{done} steps were launched, {noted} were noted, and {self.physics.seconds():.3f} s "
                f"instead of {simulated:.3f} s simulated"
            )

    def _step(self) -> None:
        """Observe, act, and note the state after the action."""
        self.observe()
        self.act()
        self.physics.step()
        self.results.note()

    def observe(self) -> None:
        """Observe, and add observations to their sums."""
        self.physics.observe()
        self.results.add_observations()

    def act(self) -> None:
        """Write the actions to the controls."""
        action = self._policy.act(self.physics.observation)
        self._tools.torch.clamp(action, self._low, self._high, out=self.physics.ctrl)

    def _reset(self, watched: NDArray[np.int64], seeds: tuple[Any, Any] | None = None) -> None:
        """Put all worlds to the start of the task; the worlds of `seeds` (worlds, seeds) start from their seeds."""
        qpos, qvel = (np.tile(part, (self.worlds, 1)) for part in self._robot_model.start(self._seed))
        if seeds is not None:
            starts = {seed: self._robot_model.start(seed) for seed in set(seeds[1].tolist())}
            for world, seed in zip(seeds[0].tolist(), seeds[1].tolist(), strict=True):
                qpos[world], qvel[world] = starts[seed]
        self.physics.reset(qpos.astype(np.float32), qvel.astype(np.float32))
        self.results.reset(watched)

    def _run(self, worlds: NDArray[np.int64]) -> Outcomes:
        """Do all steps of the rollouts; return the results of some worlds, with all sums. Call it on the stream."""
        several, rest = divmod(self._task.steps, self._steps_per_launch)
        for _ in range(several):
            self._launch()
        for _ in range(rest):
            self._launch_one()
        results = self.results.read(worlds)
        dropped = self.physics.dropped(worlds[results.valid])
        if dropped:
            raise TaskError(dropped)
        return results


class Recorder:
    """Turns several steps of policy and physics into one CUDA graph, so that launching kernels costs nothing.

    Warp captures its stream; torch's kernels on the same stream go into the same graph. On the CPU there are no graphs:
    steps run one by one, for tests.
    """

    def __init__(self, tools: Toolkit):
        self._torch, self._warp, self._device = tools.torch, tools.warp, tools.device
        self._cuda = tools.device.startswith("cuda")
        self._stream: Any = tools.torch.cuda.Stream(tools.device) if self._cuda else None
        self._warp_stream: Any = tools.warp.stream_from_torch(self._stream) if self._cuda else None

    def on_stream(self) -> ExitStack:
        """Let torch and Warp work on this recorder's stream, until the returned context ends."""
        stack = ExitStack()
        stack.enter_context(self._warp.ScopedDevice(self._device))
        if self._cuda:
            self._stream.wait_stream(self._torch.cuda.current_stream(self._device))
            stack.enter_context(self._torch.cuda.stream(self._stream))
            stack.enter_context(self._warp.ScopedStream(self._warp_stream))
        return stack

    def synchronize(self) -> None:
        """Wait until all work of the stream is done."""
        if self._cuda:
            self._stream.synchronize()

    def record(self, step: Step, repeat: int) -> Step:
        """Return a function that does `repeat` steps. Call it on the stream."""

        def steps() -> None:
            for _ in range(repeat):
                step()

        if not self._cuda:
            return steps
        step()  # loads kernels and takes the memory of cuBLAS before the capture
        self.synchronize()
        gc.collect()  # nothing may be freed by chance while a graph is captured
        return self.captured(steps)

    def captured(self, work: Step) -> Step:
        """Capture `work` as a graph; return a function that launches it."""
        mode = self._warp.CaptureMode.RELAXED
        with self._warp.ScopedCapture(stream=self._warp_stream, capture_mode=mode) as capture:
            before = self._allocations()
            work()
            if self._allocations() != before:  # others could overwrite that memory between two launches
                raise RuntimeError("torch took memory while a graph was captured")
        return lambda: self._warp.capture_launch(capture.graph, stream=self._warp_stream)

    def _allocations(self) -> int:
        return int(self._torch.cuda.memory_stats(self._device).get("allocation.all.allocated", 0))


def watched_worlds(share: float, worlds: int) -> int:
    """Return room for the observation sums of so many rollouts: practically never too few in one batch."""
    expected = share * worlds
    return min(worlds, int(expected + 6 * np.sqrt(expected) + 8))


@contextmanager
def missing_memory_is_refused() -> Iterator[None]:
    """Turn errors of torch and Warp about missing memory into one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not re.search("out of memory|failed to allocate", str(error), re.IGNORECASE):
            raise
        raise TaskError("out of GPU memory; lower noise.size or population.size, or free the GPU") from None
