import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.mujoco.ant_v5 import AntEnv

from ees_mpi.errors import ConfigError, EesError, MissingExtra
from ees_mpi.generation import Outcome
from ees_mpi.registry import search
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.gymnasium import rollouts as environments
from ees_mpi.tasks.gymnasium import task as task_module
from ees_mpi.tasks.gymnasium.task import Gymnasium

FINAL_X = {"behavior": "final_x"}


@pytest.fixture
def info(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that sets `info` of the ant to {"two": value}."""
    step = AntEnv.step
    yield lambda value: monkeypatch.setattr(AntEnv, "step", lambda *words: (*step(*words)[:4], {"two": value}))
    search.MADE.clear()


def build(**settings: Any) -> Gymnasium:
    task: Gymnasium = TASKS.build({"name": "gymnasium", "hidden": [8], "steps": 40, **settings})
    task.check()
    return task


def evaluate(task: Gymnasium, seed: int = 0) -> Outcome:
    rollouts = task.open(3)
    size = task.observation_dim
    parameters = task.initial(np.random.default_rng(seed)) * np.float32(20)
    outcome = rollouts.evaluate(0, parameters, np.zeros(size), np.ones(size), True)
    again = rollouts.evaluate(0, parameters, np.zeros(size), np.ones(size), True)
    rollouts.close()
    assert outcome.behavior == again.behavior and outcome.fitness == again.fitness
    return outcome


def test_discrete_actions_and_the_final_observation() -> None:
    task = build(env="CartPole-v1", behavior="final_observation[0, 2]")
    assert task.layers == (4, 8, 2) and task.behavior_dim == 2
    outcome = evaluate(task)
    assert outcome.fitness == outcome.length <= 40 and len(outcome.behavior) == 2
    assert outcome.observations is not None and outcome.observations[0] == outcome.length


@pytest.mark.filterwarnings("ignore:.*share an object")  # says Gymnasium
@pytest.mark.parametrize("behavior", ["mean_info[place]", "mean_info[listed]"])
def test_an_environment_may_change_its_arrays_in_place_and_number_its_actions_from_one(behavior: str) -> None:
    task = build(env="support.own_place:Reusing-v0", behavior=behavior, hidden=[], steps=4)
    rollouts, zero = task.open(0), np.zeros(task.parameters, np.float32)
    outcome = rollouts.evaluate(0, zero, np.zeros(1), np.ones(1), True)  # equal outputs: the first action, four times
    assert outcome.behavior == (2.5,)  # the mean of 1, 2, 3, 4
    assert outcome.observations is not None and outcome.observations.tolist() == [4, 0 + 1 + 2 + 3, 0 + 1 + 4 + 9]


def test_actions_of_whole_numbers_are_rounded() -> None:
    outcome = evaluate(build(env="support.own_place:Whole-v0", env_settings={"same": True}))  # it checks its actions
    assert outcome.valid and all(2 * number == round(2 * number) for number in outcome.behavior)


def test_a_policy_may_change_its_parameters_in_place() -> None:
    outcome = evaluate(build(env="Pendulum-v1", policy="support.own_tasks:DoublingPolicy"))  # the same a second time
    assert outcome.valid


def test_a_package_that_an_environment_needs_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(MissingExtra, match="Box2D is not installed") as error:
        environments.make("LunarLander-v3", {})
    assert "MuJoCo" not in str(error.value)


@pytest.mark.parametrize(("behavior", "dim"), [("final_x", 1), ("final_xy", 2)])
def test_the_behavior_can_be_the_final_position_of_a_body_and_fitness_a_direction(behavior: str, dim: int) -> None:
    settings = {"env": "HalfCheetah-v5", "behavior": behavior, "fitness": "behavior", "terminate": "never"}
    ahead, back = evaluate(build(**settings)), evaluate(build(**settings, direction=180.0))
    assert len(ahead.behavior) == dim and ahead.fitness == ahead.behavior[0] == -back.fitness != 0
    assert ahead.behavior == back.behavior


def test_the_behavior_can_be_a_function_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    task = build(env="Pendulum-v1", behavior="support.own_tasks:two_numbers")
    outcome = evaluate(task)
    assert task.behavior_dim == 2 and abs(outcome.behavior[1] - outcome.fitness) < 1e-9
    assert len(evaluate(build(env="Pendulum-v1", behavior="support.own_tasks:every_tenth")).behavior) == 5
    for name, steps in (("every_tenth", [20, 40]), ("no_number", [])):  # the first one has 3 numbers, and then 5
        with pytest.raises(EesError, match=f"{name}: expected (3 numbers, as at first, got 5|.* got .None, 1.0)"):
            evaluate(build(env="Pendulum-v1", behavior=f"support.own_tasks:{name}", behavior_steps=steps))
    monkeypatch.setattr("ees_mpi.tasks.gymnasium.task._find_shape", None)  # a rollout finds it once, whatever network
    assert build(env="Pendulum-v1", behavior="support.own_tasks:two_numbers", hidden=[3]).behavior_dim == 2


def test_the_behavior_can_be_several_numbers_of_info(info: Any) -> None:
    for behavior, value in (("final_info", [[1.0], [3.0]]), ("mean_info", [1.0, 3.0])):
        info(value)
        assert evaluate(build(env="Ant-v5", behavior=f"{behavior}[two]")).behavior == (1.0, 3.0)


def test_numbers_of_info_are_the_last_ones_and_others_are_refused(info: Any) -> None:
    ant = {"env": "Ant-v5", "terminate": "never"}
    ends = [evaluate(build(**ant, **more)) for more in ({"behavior": "final_info[x_position]"}, FINAL_X)]
    assert ends[0].behavior == pytest.approx(ends[1].behavior, abs=1e-4)
    for wrong in ("many", [[1.0], [1.0, 2.0]]):
        info(wrong)
        with pytest.raises(
            ConfigError, match=r"task.behavior mean_info\[two\]: expected a number, or as many numbers .*, got "
        ):
            build(env="Ant-v5", behavior="mean_info[two]")


def test_the_behavior_is_recorded_at_several_steps() -> None:
    settings = {"env": "HalfCheetah-v5", "behavior": "final_xy", "fitness": "behavior", "terminate": "never"}
    several = evaluate(build(**settings, behavior_steps=[10, 30, 40]))
    ends = [evaluate(build(**settings, steps=steps)) for steps in (10, 30, 40)]
    assert several.behavior == tuple(value for end in ends for value in end.behavior)
    assert several.fitness == ends[2].fitness  # the fitness is that of the end
    assert build(**settings, behavior_steps=[10, 30]).behavior_dim == 4
    with pytest.raises(ConfigError, match="rising steps up to 40"):
        build(**settings, behavior_steps=[41])


def test_a_rollout_that_mujoco_resets_in_the_middle_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    task = build(env="HalfCheetah-v5", behavior="final_x")
    env = environments.make(task.env, {})
    real = env.step

    def poisoned(action: Any) -> Any:
        env.unwrapped.data.qvel[0] = np.nan
        env.step = real
        return real(action)

    env.step = poisoned
    monkeypatch.setattr(task_module, "make", lambda name, settings: env)
    rollouts = task.open(0)
    size = task.observation_dim
    outcome = rollouts.evaluate(0, task.initial(np.random.default_rng(0)), np.zeros(size), np.ones(size), False)
    assert not outcome.valid
    rollouts.close()


@pytest.mark.parametrize(
    "behavior", [{"behavior": "final_x", "fitness": "behavior"}, {"behavior": "mean_info[x_velocity]"}]
)
def test_a_rollout_with_an_action_that_is_not_finite_is_invalid(behavior: dict[str, str]) -> None:
    task = build(env="HalfCheetah-v5", **behavior)
    rollouts, size = task.open(0), task.observation_dim
    nowhere = np.full(task.parameters, np.nan, np.float32)
    assert not rollouts.evaluate(0, nowhere, np.zeros(size), np.ones(size), True).valid
    good = rollouts.evaluate(1, task.initial(np.random.default_rng(0)), np.zeros(size), np.ones(size), True)
    assert good.valid and good.length == 40
    rollouts.close()
