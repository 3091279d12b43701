import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ees_mpi.generation import Outcome
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco.robot_model import MujocoWalker, library
from ees_mpi.tasks.mujoco.task import Mujoco

ENVIRONMENTS = {"cheetah": "HalfCheetah-v5", "ant": "Ant-v5"}

SLIDER = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom type="plane" size="9 9 1"/>
    <body name="cart" pos="0 0 0.3">
      <joint name="height" type="slide" axis="0 0 1"/>
      <joint name="along" type="slide" axis="1 0 0"/>
      <joint name="aside" type="slide" axis="0 1 0"/>
      <geom type="sphere" size="0.1"/>
      <body name="arm">
        <joint name="swing" type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.4" size="0.03"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="along" gear="5"/>
    <motor joint="aside" gear="5" ctrllimited="true" ctrlrange="-2 1"/>
  </actuator>
</mujoco>
"""


def build(**settings: Any) -> Mujoco:
    task: Mujoco = TASKS.build({"name": "mujoco", "hidden": [8], "steps": 30, **settings})
    return task


def evaluate(task: Mujoco, factor: float = 20, observe: bool = True, seed: int = 3) -> Outcome:
    parameters = task.initial(np.random.default_rng(0)) * np.float32(factor)
    size = task.observation_dim
    return task.open(seed).evaluate(0, parameters, np.zeros(size), np.ones(size), observe)


def environment(model: str) -> Any:
    gymnasium = pytest.importorskip("gymnasium")
    library()  # silences MuJoCo, which otherwise writes a log file here
    more = {"include_cfrc_ext_in_observation": False} if model == "ant" else {}
    return gymnasium.make(ENVIRONMENTS[model], **more).unwrapped


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "slider.xml"
    path.write_text(SLIDER)
    return str(path)


@pytest.mark.parametrize(("model", "seed"), [("cheetah", 7), ("ant", 12345)])
def test_start_and_states_are_those_of_gymnasium_bit_for_bit(model: str, seed: int) -> None:
    env, robot = environment(model), build(model=model).robot_model()
    env.model.opt.integrator = robot.model.opt.integrator  # Gymnasium's ant has another one
    walker = MujocoWalker(robot, False, seed)
    assert (walker.reset() == env.reset(seed=seed)[0].astype(np.float32)).all()
    generator = np.random.default_rng(1)
    for _ in range(60):
        action = generator.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        expected = env.step(action)[0]
        observation, _ = walker.step(action)
        assert (walker.data.qpos == env.data.qpos).all() and (walker.data.qvel == env.data.qvel).all()
        assert (observation == expected.astype(np.float32)).all()
        assert walker.position == tuple(env.data.body("torso").xpos[: len(walker.position)])


@pytest.mark.parametrize("replica", [False, True])
def test_outcomes_do_not_depend_on_earlier_rollouts(replica: bool) -> None:
    task = build(name="ant", engine="mujoco", device="cpu") if replica else build(model="ant")
    size, rollouts = task.observation_dim, task.open(0)
    draws = [task.initial(np.random.default_rng(seed)) * np.float32(20) for seed in range(2)]
    first = [rollouts.evaluate(0, draw, np.zeros(size), np.ones(size), False) for draw in draws]
    second = [task.open(0).evaluate(0, draw, np.zeros(size), np.ones(size), False) for draw in reversed(draws)]
    assert first == second[::-1] and first[0] != first[1] and first[0].valid


@pytest.mark.parametrize("parameter", [math.nan, 1e30])
def test_a_policy_that_is_not_finite_gives_an_invalid_rollout(parameter: float) -> None:
    task = build(model="ant")
    parameters = np.full(task.parameters, parameter, np.float32)
    parameters[::2] *= -1
    outcome = task.open(0).evaluate(0, parameters, np.zeros(27), np.ones(27), True)
    if math.isnan(parameter):
        assert not outcome.valid and all(map(math.isnan, (*outcome.behavior, outcome.fitness)))
    else:
        assert outcome.valid  # such actions are clipped


def test_a_rollout_that_mujoco_reset_by_itself_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "wild.xml"
    path.write_text(SLIDER.replace('gear="5"/>', 'gear="1e12"/>'))
    outcome = evaluate(build(model=str(path), root="cart"), factor=1e6)
    assert not outcome.valid and math.isnan(outcome.fitness) and outcome.observations is None


@pytest.mark.parametrize(("gear", "valid"), [(300, True), (40_000, False)])
def test_a_robot_faster_than_any_robot_is_invalid_though_finite(gear: float, valid: bool, tmp_path: Path) -> None:
    path = tmp_path / "fast.xml"
    path.write_text(SLIDER.replace('<motor joint="along" gear="5"/>', f'<motor joint="along" gear="{gear}"/>'))
    walker = build(model=str(path), root="cart").walker(0)
    walker.reset()
    length = next((n for n in range(1, 11) if walker.step(np.array([1, 0], np.float32))[1]), 10)
    assert walker.finite == valid and np.isfinite(walker.data.qpos).all() and (length == 10) == valid
    assert np.isfinite(walker.position).all() == valid


def test_the_ant_ends_when_it_leaves_its_range_of_heights() -> None:
    never, ends = (build(model="ant", steps=400, terminate=way) for way in ("never", "environment"))
    lengths = []
    for seed in range(6):
        parameters = never.initial(np.random.default_rng(seed)) * np.float32(60)
        outcomes = [task.open(seed).evaluate(0, parameters, np.zeros(27), np.ones(27), False) for task in (never, ends)]
        assert outcomes[0].length == 400
        lengths.append(outcomes[1].length)
    assert min(lengths) < 400


def test_an_own_model_leaves_its_place_out_of_the_observation(own: str) -> None:
    task = build(model=own, root="cart")
    task.check()
    assert task.layers == (6, 8, 2) and task.behavior_dim == 2  # height, swing, and four velocities
    walker = MujocoWalker(task.robot_model(), False, 0)
    observation = walker.reset()
    assert (observation == np.float32([*walker.data.qpos[[0, 3]], *walker.data.qvel])).all()
    walker.step(np.array([50, 50], np.float32))
    assert walker.data.ctrl.tolist() == [50, 1]  # the first motor has no limits
    assert evaluate(task).valid
    assert build(model=own, root="cart", dimensions=1).layers[0] == 7
    assert build(model=own, root="arm").layers[0] == 6


def test_a_run_carries_the_text_of_an_own_model(own: str) -> None:
    task = build(model=own, root="cart").resolved()
    before = evaluate(task)
    Path(own).unlink()
    again = build(model="slider.xml", root="cart", xml=SLIDER)  # without its folder
    assert task.xml == SLIDER and again == task and evaluate(again).behavior == before.behavior
    assert build().resolved().xml == ""
