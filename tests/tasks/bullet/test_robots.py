import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.physics import connected
from support.ready_made import Episode, ready_made, ready_made_trace_of, trace_of

from ees_mpi.tasks.bullet.robots import BulletAnt, BulletCheetah, Robot
from ees_mpi.tasks.bullet.world import pybullet

KINDS = [BulletCheetah, BulletAnt]
EPISODES = [Episode(0, "random"), Episode(1, "policy"), Episode(2, "held"), Episode(2, "policy", 1)]
EPISODES += [Episode(123456789, "held", 3)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.model)
def robot(request: pytest.FixtureRequest) -> Iterator[Robot]:
    made = request.param()
    yield made
    made.close()


@pytest.mark.slow
def test_whole_episodes_have_the_bits_of_the_ready_made_environment_in_any_order(robot: Robot) -> None:
    steps = {episode: 1000 if number == 1 else 150 for number, episode in enumerate(EPISODES)}
    ours = {episode: trace_of(robot, episode, count) for episode, count in steps.items()}
    with ready_made(type(robot)) as env:
        for episode in reversed(EPISODES):
            theirs = ready_made_trace_of(env, robot, episode, steps[episode])
            assert ours[episode].observations == theirs.observations
            assert ours[episode].ends == theirs.ends
            assert ours[episode].positions == theirs.positions


def test_a_rollout_does_not_depend_on_what_ran_before(robot: Robot) -> None:
    alone = trace_of(robot, EPISODES[1], 100)
    for before in EPISODES[2:5]:
        trace_of(robot, before, 80)
        assert trace_of(robot, EPISODES[1], 100) == alone
    fresh = type(robot)()
    assert trace_of(fresh, EPISODES[1], 100) == alone
    fresh.close()


def test_robots_alive_in_one_process_do_not_disturb_one_another() -> None:
    robots = [BulletCheetah(), BulletAnt(), BulletAnt()]
    episodes = EPISODES[1:4]
    alone = [trace_of(robot, episode, 100) for robot, episode in zip(robots, episodes, strict=True)]
    actors = [episode.actor(robot) for robot, episode in zip(robots, episodes, strict=True)]
    seen = [robot.reset(episode.seed) for robot, episode in zip(robots, episodes, strict=True)]
    for step in range(1, 101):
        for number, robot in enumerate(robots):
            seen[number], _ = robot.step(actors[number](seen[number]))
            assert seen[number].tobytes() == alone[number].observations[step]
    for robot in robots:
        robot.close()


@pytest.mark.parametrize("extreme", [6.0, -1e300])
def test_values_beyond_5_or_float32_are_clipped(robot: Robot, extreme: float, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, read = robot.reset(0), pybullet.getJointStates

    def spun(*arguments: Any) -> Any:
        first, *others = read(*arguments)
        return [(first[0], 10 * extreme, *first[2:]), *others]  # the position and the velocity come first

    monkeypatch.setattr(pybullet, "getJointStates", spun)
    observation = robot.reset(0)
    changed = np.flatnonzero(observation != usual)
    assert len(changed) == 1 and observation[changed[0]] == np.copysign(5.0, extreme)


def test_closing_releases_the_client_once_and_for_all() -> None:
    before_any = connected()
    robot = BulletAnt()
    robot.reset(0)
    while_open = connected()
    robot.close()
    robot.close()
    assert len(while_open - before_any) == 1 and connected() == before_any
    other = BulletAnt()
    assert connected() == while_open  # the second robot has the client of the first one
    before = trace_of(other, EPISODES[0], 10)
    with pytest.raises(pybullet.error):
        robot.reset(0)
    assert trace_of(other, EPISODES[0], 10) == before
    other.close()


TALK = """
import ctypes, sys
ctypes.CDLL(None).printf(b"C, before\\n")
print("Python, before")
import numpy
from ees_mpi.tasks.bullet.robots import BulletAnt, BulletCheetah
for kind in (BulletCheetah, BulletAnt):
    robot = kind()
    robot.reset(0)
    robot.step(numpy.zeros(robot.action_size))
    robot.step(numpy.full(robot.action_size, 9.0))
    robot.limbs()
    if kind is BulletAnt:
        robot.close()
print("Python, after")
ctypes.CDLL(None).printf(b"C, after\\n")
"""


def test_bullet_prints_nothing_and_the_output_of_others_appears() -> None:
    done = subprocess.run([sys.executable, "-c", TALK], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == ["C, after", "C, before", "Python, after", "Python, before"]
    assert done.stderr == ""
