"""The parts of the GPU evaluator that are plain torch, on the CPU."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ees_mpi.errors import ConfigError
from ees_mpi.generation import Batch
from ees_mpi.policies import MLP, parameter_count
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco import engine, physics
from ees_mpi.tasks.mujoco.gpu_rollouts import passes
from ees_mpi.tasks.mujoco.policy import BatchPolicy, gather_rows, noise_rows, upload_table

torch = pytest.importorskip("torch")
LAYERS = (5, 20, 21, 24, 3)
SIZE = parameter_count(LAYERS)


def table() -> Any:
    noise = np.random.default_rng(0).standard_normal(4 * SIZE).astype(np.float32)
    noise.flags.writeable = False
    return noise


def test_rows_of_noise_are_gathered_from_the_table_and_have_the_std_of_each_parameter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ees_mpi.tasks.mujoco.policy.CHUNK", 3 * SIZE)
    noise, rows, offset = table(), noise_rows(5, SIZE, "cpu"), [0, 7, 3 * SIZE, 7, 100]
    gather_rows(upload_table(noise, "cpu"), torch.tensor(offset), rows)
    assert rows.shape[1] % 32 == 0 and rows.shape[1] > SIZE
    expected = np.stack([noise[start : start + SIZE] for start in offset])
    assert rows[:, :SIZE].numpy().tobytes() == expected.tobytes()
    stds = np.random.default_rng(1).uniform(0.01, 2, SIZE).astype(np.float32)
    gather_rows(upload_table(noise, "cpu"), torch.tensor(offset), rows, stds)
    assert rows[:, :SIZE].numpy().tobytes() == (expected * stds).tobytes()


def policies_of(kind: str) -> Any:
    """Return the class of policies; those by Warp need Warp, which also works without a GPU."""
    if kind == "torch":
        return BatchPolicy
    warp = pytest.importorskip("warp")
    warp.init()
    from ees_mpi.tasks.mujoco.fused import FusedPolicy

    return FusedPolicy


@pytest.mark.parametrize(("width", "components"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("kind", ["torch", "fused", "table"])
def test_batched_policies_equal_the_policy_of_each_individual(kind: str, width: int, components: int) -> None:
    generator, noise, std = np.random.default_rng(1), table(), 0.2
    means = generator.standard_normal((components, SIZE)).astype(np.float32) * np.float32(0.3)
    sign = np.array([1, -1, 1, -1, 1, 0], np.int8)  # two pairs, a lone individual and the unperturbed mean
    parent = np.array([0, 0, 1, 1, 2, 1], np.int32) % components
    batch = Batch(np.arange(6), means, std, np.array([9, 9, 50, 50, 77, 0]), sign, parent, np.zeros(6, np.bool_))
    rows = 8 // width
    (placed,) = passes(batch, rows, width, 8)
    rows_of_noise, whole, offset = noise_rows(rows, SIZE, "cpu"), upload_table(noise, "cpu"), placed.offset
    gather_rows(whole, torch.from_numpy(offset), rows_of_noise)
    read = [whole[None], torch.from_numpy(offset)] if kind == "table" else [rows_of_noise]
    policies = policies_of(kind)(LAYERS, rows, width, components, *read)
    center, spread = generator.standard_normal(5), generator.uniform(0.1, 2, 5)
    policies.load(means, placed.sign * np.float32(std), placed.parent)
    policies.normalise(center, spread)
    observation = generator.standard_normal((8, 5)).astype(np.float32) * 3
    policies.act(torch.zeros(8, 5))  # leaves nothing behind
    action = policies.act(torch.from_numpy(observation)).numpy()
    single = MLP(LAYERS)
    single.normalise(center, spread)
    for member, world in zip(placed.member, placed.world, strict=True):
        start = batch.offset[member]
        single.load(means[parent[member]] + np.float32(std) * sign[member] * noise[start : start + SIZE])
        np.testing.assert_allclose(action[world], single.act(observation[world]), atol=1e-5, rtol=1e-5)


def test_offsets_reach_behind_the_numbers_that_32_bits_count(tmp_path: Path) -> None:
    policies, offset, observation = policies_of("table"), 2**31 + 5, torch.ones(1, 5)
    far = np.memmap(tmp_path / "sparse", np.float32, "w+", shape=offset + SIZE + 3)
    far[offset : offset + SIZE] = table()[:SIZE]
    pairs = [(torch.from_numpy(far)[None], offset), (upload_table(table(), "cpu")[None], 0)]
    actions = []
    for noise, start in pairs:
        policy = policies(LAYERS, 1, 1, 1, noise, torch.tensor([start]))
        policy.load(np.zeros((1, SIZE), np.float32), np.ones(1, np.float32), np.zeros(1, np.int64))
        actions.append(policy.act(observation).tolist())
    assert actions[0] == actions[1]


def results(**settings: Any) -> tuple[Any, Any]:
    """Return the results of four ants, and their state; Warp also works without a GPU."""
    warp = pytest.importorskip("warp")
    warp.init()
    from ees_mpi.tasks.mujoco.gpu_results import GpuResults

    task = TASKS.build({"name": "mujoco", "model": "ant", "steps": 4, "behavior_steps": [2, 4], **settings})
    robot_model = task.robot_model()
    qpos, qvel = torch.full((4, robot_model.model.nq), 0.5), torch.ones(4, robot_model.model.nv)
    state = SimpleNamespace(qpos=qpos, qvel=qvel, start=(qpos.clone(), qvel.clone()), memory=torch.ones_like(qvel))
    state.observation, state.position = torch.zeros(4, robot_model.observations), torch.zeros(4, 2)
    state.action = torch.zeros(4, robot_model.model.nu)
    notes = GpuResults(robot_model, state, task, sampled=3)
    notes.watch_actions(state.action)
    return notes, state


def play(notes: Any, state: Any, steps: int, watched: list[int], spoil: dict[int, Any]) -> Any:
    """Play `steps` steps in which world w is at x = w + step; `spoil`: changes of the state before a step is noted."""
    notes.reset(np.array(watched, np.int64))
    for step in range(1, steps + 1):
        state.observation.copy_(torch.cat([state.qpos[:, 2:], state.qvel], 1))
        notes.add_observations()
        state.position[:, 0] = torch.arange(4.0) + step
        if step in spoil:
            part, world, entry, value = spoil[step]
            getattr(state, part)[world, entry] = value
        notes.note()
    return notes.read(np.arange(4))


def test_a_broken_world_is_invalid_and_harms_no_other_sums() -> None:
    notes = play(*results(), 4, [1, 2], {2: ("qpos", 1, 5, np.nan)})
    assert notes.valid.tolist() == [True, False, True, True] and notes.length.tolist() == [4, 2, 4, 4]
    assert notes.observations[:2, 0].tolist() == [2, 4] and np.isfinite(notes.observations).all()
    assert (notes.observations[1, 1:14] == 2).all() and (notes.observations[1, 28:41] == 1).all()


@pytest.mark.parametrize(
    "spoil",
    [("qvel", 1, 5, 3001.0), ("position", 1, 1, 4.0), ("action", 1, 2, np.nan)],
)
def test_a_robot_that_is_faster_than_any_robot_is_invalid_and_starts_again(spoil: tuple[str, int, int, float]) -> None:
    notes, state = results()
    found = play(notes, state, 3, [], {2: spoil})
    assert found.valid.tolist() == [True, False, True, True] and found.length.tolist() == [3, 2, 3, 3]
    assert (state.qvel[1] == 1).all() and (state.memory[1] == 0).all() and (state.memory[2] == 1).all()


def test_the_position_of_a_world_stays_where_its_rollout_ended() -> None:
    notes = play(*results(terminate="environment"), 4, [3], {1: ("qpos", 3, 2, 1.5)})
    assert notes.length.tolist() == [4, 4, 4, 1] and notes.valid.all()
    assert notes.behavior[3].tolist() == [4, 0, 4, 0] and notes.fitness[3] == 4
    assert notes.observations[0, 0] == 1


def test_buffers_are_measured_and_can_be_set() -> None:
    robot_model = TASKS.build({"name": "mujoco", "model": "ant"}).robot_model()
    measured = physics.measured_buffers(robot_model, constraints=7)
    assert measured.contacts >= 12 and measured.constraints == 7
    assert measured.contacts_of_each(10_000) == measured.contacts and measured.contacts_of_each(2) == 128
    assert physics.measured_buffers(robot_model, 5, 7) == physics.Buffers(5, 7)


@pytest.mark.parametrize(
    ("driver", "message"),
    [(False, "this machine has no NVIDIA driver"), (True, "warp-lang is missing (pip install 'ees_mpi[gpu]')")],
)
def test_a_task_says_what_is_missing_for_a_gpu(monkeypatch: pytest.MonkeyPatch, driver: bool, message: str) -> None:
    monkeypatch.setattr(engine, "has_driver", lambda: driver)
    monkeypatch.setattr(engine, "missing_package", lambda: "warp-lang")
    task = TASKS.build({"name": "mujoco", "device": "cuda"})
    task.check()  # reading and sampling a run need no GPU
    assert task.lacks_for_gpu() == message
    with pytest.raises(ConfigError, match=re.escape(message)):
        task.open_batches(0, table(), 4, True, print)


def test_looking_for_a_gpu_does_not_start_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA reads CUDA_VISIBLE_DEVICES when it starts, and a rank chooses its GPU later."""
    loaded: list[str] = []
    monkeypatch.setattr(engine.ctypes, "CDLL", loaded.append)  # the library has no functions
    monkeypatch.setattr(engine, "missing_package", str)
    assert engine.lacking() == "" and loaded == ["libcuda.so.1"]
