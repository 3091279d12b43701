import math
from collections.abc import Callable

import numpy as np
import pytest
from support.physics import opened

from ees_mpi.arrays import Floats
from ees_mpi.generation import Outcome, mean_std
from ees_mpi.tasks.bullet.robots import ROBOTS
from ees_mpi.tasks.bullet.world import pybullet
from ees_mpi.tasks.paper_robots import Ant, Cheetah, PaperRobot


def evaluate(task: PaperRobot, observe: bool = False, seed: int = 0, scale: float = 1.0) -> Outcome:
    rollouts = task.open(0)
    parameters = task.initial(np.random.default_rng(seed)) * np.float32(scale)
    outcome = rollouts.evaluate(7, parameters, *statistics(task), observe)
    rollouts.close()
    return outcome


def statistics(task: PaperRobot) -> tuple[Floats, Floats]:
    return np.zeros(task.observation_dim), np.ones(task.observation_dim)


def test_behavior_is_the_final_position_and_fitness_the_distance_along_the_direction() -> None:
    ahead = evaluate(Ant(steps=30), scale=3.0)
    assert ahead.index == 7 and ahead.length == 30 and ahead.valid and ahead.observations is None
    assert ahead.fitness == ahead.behavior[0] and len(ahead.behavior) == 2
    back = evaluate(Ant(steps=30, direction=180.0), scale=3.0)
    assert back.behavior == ahead.behavior and back.fitness == -ahead.behavior[0]
    oblique = evaluate(Ant(steps=30, direction=30.0), scale=3.0)
    expected = math.cos(math.pi / 6) * ahead.behavior[0] + math.sin(math.pi / 6) * ahead.behavior[1]
    assert abs(oblique.fitness - expected) < 1e-12


def test_an_ant_that_falls_ends_its_rollout_only_where_the_environment_may_end_it() -> None:
    falling = evaluate(Ant(steps=300, terminate="environment", behavior_steps=(5, 300)), seed=1, scale=30.0)
    going_on = evaluate(Ant(steps=300, behavior_steps=(5, 300)), seed=1, scale=30.0)
    assert falling.length < 300 and going_on.length == 300
    assert len(falling.behavior) == 4 and falling.behavior[:2] == going_on.behavior[:2]
    assert falling.behavior[2] == falling.fitness


def test_sampled_rollouts_return_the_sums_of_what_the_policy_saw() -> None:
    task = Cheetah(steps=20)
    sums = evaluate(task, observe=True).observations
    assert sums is not None and sums[0] == 20 and len(sums) == 1 + 2 * task.observation_dim
    robot = ROBOTS[task.robot]()
    policy = task.network()
    policy.load(task.initial(np.random.default_rng(0)))
    seen = [robot.reset(0)]
    while len(seen) < 20:
        seen.append(robot.step(policy.act(seen[-1]))[0])
    robot.close()
    np.testing.assert_allclose(mean_std(sums)[0], np.mean(np.float64(seen), axis=0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "far"), [(Cheetah, None), (Ant, 3.0)])
def test_a_rollout_that_blows_up_or_jumps_as_no_robot_can_is_invalid_and_the_next_one_is_as_ever(
    kind: type[PaperRobot], far: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = kind(steps=20)
    rollouts, client = opened(lambda: task.open(0))
    parameters = task.initial(np.random.default_rng(0))
    sound = rollouts.evaluate(0, parameters, *statistics(task), True)
    disturb_after(5, client.blow_up if far is None else lambda: client.move((far, 0.0, 0.75)), monkeypatch)
    spoiled = rollouts.evaluate(1, parameters, *statistics(task), True)
    monkeypatch.undo()
    assert not spoiled.valid and spoiled.observations is None and (far is None or spoiled.length == 5)
    assert spoiled.length < 20
    assert np.isnan(spoiled.behavior).all() and math.isnan(spoiled.fitness)
    again = rollouts.evaluate(0, parameters, *statistics(task), True)
    assert again.behavior == sound.behavior and (again.observations == sound.observations).all()
    rollouts.close()


def disturb_after(steps: int, disturb: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Disturb the physics after some steps."""
    real, count = pybullet.stepSimulation, [0]

    def step(client: int) -> None:
        real(client)
        count[0] += 1
        if count[0] == steps:
            disturb()

    monkeypatch.setattr(pybullet, "stepSimulation", step)
