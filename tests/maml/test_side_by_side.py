"""Several tasks side by side, as on a GPU, give what single tasks give."""

import os
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from support.program import TESTS
from support.small_runs import advanced

from ees_mpi import config
from ees_mpi.generation import State
from ees_mpi.maml import outer
from ees_mpi.maml.evaluators import MamlEvaluator, open_maml
from ees_mpi.maml.outer import learning_tasks
from ees_mpi.maml.rollouts import CpuWalks, Pairs, TaskRollouts, theta_of
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.run.parts import first_state, open_parts
from ees_mpi.tasks.locomotion import Walked

POINT = TESTS / "support" / "maml_point.toml"
SMALL = ("run.generations=3", "population.size=5", "maml.rollouts=3")

Made = tuple[config.Config, State, list[Pairs]]


def shortened(batch: TaskRollouts) -> TaskRollouts:
    """Return a batch whose second rollout ended after four steps."""
    tensors = {name: getattr(batch, name).clone() for name in ("observations", "actions", "rewards", "length")}
    for name in ("observations", "actions", "rewards"):
        tensors[name][:, 1, 4:] = 0.0
    tensors["length"][:, 1] = 4
    return replace(batch, **tensors)


@pytest.fixture(scope="module")
def made() -> Made:
    loaded = config.load(str(POINT), SMALL)
    (method, evaluator), state = open_parts(loaded, Ranks()), first_state(loaded)
    pairs = evaluator.evaluate(method.ask(state), np.array([0, 2, 3])).local
    return loaded, state, [Pairs(pair.index, shortened(pair.before), shortened(pair.after)) for pair in pairs]


def together(groups: list[Pairs]) -> Pairs:
    """Return several tasks as one group."""
    before, after = (
        TaskRollouts(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(TaskRollouts)))
        for parts in ([group.before for group in groups], [group.after for group in groups])
    )
    return Pairs([index for group in groups for index in group.index], before, after)


@pytest.mark.parametrize("groups", [1, 2])
def test_tasks_side_by_side_are_sums_of_single_tasks(made: Made, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, state, pairs = made
    if groups == 2:
        monkeypatch.setattr(outer, "SIDE_BY_SIDE", 2 * outer.task_bytes(loaded))
    valid = np.ones(5, np.bool_)
    single = learning_tasks(loaded, theta_of(state), pairs, valid)
    several = learning_tasks(loaded, theta_of(state), [together(pairs)], valid)
    assert list(single) == [0, 2, 3] and list(several) == ([0] if groups == 1 else [0, 3])
    theta = theta_of(state)
    vector = np.random.default_rng(0).normal(size=len(theta))
    for call in (
        lambda task: task.gradient(),
        lambda task: task.hessian_product(vector),
        lambda task: task.at(theta + 0.01 * vector),
    ):
        expected = sum(call(task) for task in single.values())
        found = sum(call(group) for group in several.values())
        assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


def test_tasks_that_are_not_valid_teach_nothing(made: Made) -> None:
    loaded, state, pairs = made
    valid = np.array([True, True, False, True, True])
    assert list(learning_tasks(loaded, theta_of(state), pairs, valid)) == [0, 3]
    assert list(learning_tasks(loaded, theta_of(state), [together(pairs)], valid & (np.arange(5) > 0))) == [3]


class StandIn(CpuWalks):
    """Robots of a GPU, played by the walker of a CPU rank."""

    def __init__(self, task: Any, tasks: int, steps: int):
        super().__init__(task, 0)
        self._sizes = tasks, steps

    def walk(self, parameters: Any, stds: Any, noise: Any, *rest: Any) -> Walked:
        assert len(noise) <= self._sizes[0] and noise.shape[2] == self._sizes[1]
        return super().walk(parameters, stds, noise, *rest)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> MamlEvaluator:
    loaded = config.load(str(POINT), SMALL)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # is set by the job, and restored after the test
    monkeypatch.setattr(outer, "ITERATIONS", 3)  # more of them make differences of rounding larger
    monkeypatch.setattr(gpus, "choose", lambda *words: ("cuda", {0: "GPU-1"}))
    monkeypatch.setattr(
        type(loaded.task),
        "open_walks",
        lambda task, seed, tasks, rollouts, steps, say: StandIn(task, tasks, steps),
        raising=False,
    )
    return open_maml(loaded, Ranks())


def test_an_iteration_with_a_gpu_is_that_of_cpu_ranks_up_to_rounding(on_gpu: MamlEvaluator) -> None:
    loaded = config.load(str(POINT), SMALL)
    state, method = first_state(loaded), open_parts(loaded, Ranks())[0]
    cpu = MamlEvaluator(loaded, Ranks(), CpuWalks(loaded.task, 0), {})
    assert (cpu.described["device"], on_gpu.described["device"]) == ("cpu", "cuda")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    for _ in range(2):
        (record, following), (expected, then) = (advanced(method, device, state) for device in (on_gpu, cpu))
        assert record.arrays.keys() == expected.arrays.keys()
        for name in (
            "fitness",
            "fitness_before",
            "behavior",
            "valid",
            "length",
            "sign",
            "fitness_of_mean",
            "divergence",
        ):
            np.testing.assert_allclose(record[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
        step, other = following.mean - state.mean, then.mean - state.mean
        assert np.linalg.norm(step - other) < 1e-3 * np.linalg.norm(other)
        state = following
    on_gpu.close()
