"""The replicas of Bullet's robots in MuJoCo: the same numbers, poses, observations, contacts and limits."""

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest

from ees_mpi.arrays import Floats
from ees_mpi.tasks.paper_robots import Ant, Cheetah, PaperRobot

pytest.importorskip("mujoco")
pytest.importorskip("pybullet")
from support.physics import Client, opened

from ees_mpi.tasks.bullet.world import pybullet
from ees_mpi.tasks.mujoco.replica.robots import replica_model
from ees_mpi.tasks.mujoco.robot_model import MujocoWalker

ROBOTS = [Cheetah, Ant]


def in_bullet(robot: type[PaperRobot]) -> tuple[Any, Client]:
    walker, client = opened(lambda: robot().walker(0))
    walker.reset()
    return walker, client


def in_mujoco(robot: type[PaperRobot], seed: int = 0) -> MujocoWalker:
    walker = robot(engine="mujoco", device="cpu").walker(seed)
    assert isinstance(walker, MujocoWalker)
    return walker


def joints_of(client: Client) -> dict[str, Any]:
    """Return what Bullet tells about each joint, by name."""
    count = pybullet.getNumJoints(client.robot, client.number)
    infos = (pybullet.getJointInfo(client.robot, number, client.number) for number in range(count))
    return {info[1].decode(): info for info in infos}


@pytest.mark.parametrize("robot", ROBOTS)
def test_sizes_and_starts_are_those_of_bullet(robot: type[PaperRobot]) -> None:
    assert robot(engine="mujoco").layers == robot().layers
    for seed in range(4):
        bullet, mujoco = robot().walker(seed), in_mujoco(robot, seed)
        np.testing.assert_allclose(mujoco.reset(), bullet.reset(), atol=1e-6)
        np.testing.assert_allclose(mujoco.position, bullet.position, atol=1e-6)
        bullet.close()


def pose_of(robot: type[PaperRobot], generator: np.random.Generator) -> Floats:
    """Return a random qpos: somewhere, turned, with any joint angles."""
    angles = generator.uniform(-1, 1, robot.sizes[1])
    if robot is Cheetah:
        return np.concatenate([generator.uniform(-3, 3, 3), angles])
    turn = generator.standard_normal(4)
    return np.concatenate([generator.uniform(-3, 3, 3), turn / np.linalg.norm(turn), angles])


def put(robot: type[PaperRobot], client: Client, qpos: Floats) -> None:
    """Put the robot in Bullet into the pose of a qpos of MuJoCo, at rest."""
    infos, robot_model = joints_of(client), replica_model(robot.robot)
    names = [robot_model.model.joint(int(joint)).name for joint in robot_model.rules.joints]
    places = dict(zip(names, qpos[robot_model.rules.qpos_at], strict=True))
    if robot is Cheetah:
        places |= dict(zip(("ignorex", "ignorez", "ignorey"), qpos[:3], strict=True))
    else:
        x, y, z, w, *axis = qpos[:7].tolist()
        pybullet.resetBasePositionAndOrientation(client.robot, (x, y, z), (*axis, w), client.number)
    for name, place in places.items():
        pybullet.resetJointState(client.robot, infos[name][0], float(place), 0, physicsClientId=client.number)


@pytest.mark.parametrize("robot", ROBOTS)
def test_static_poses_agree(robot: type[PaperRobot]) -> None:
    generator, mujoco = np.random.default_rng(0), in_mujoco(robot)
    bullet, client = in_bullet(robot)
    mujoco.reset()
    for _ in range(20):
        qpos = pose_of(robot, generator)
        put(robot, client, qpos)
        expected = bullet.robot._observe()
        mujoco.data.qpos[:] = qpos
        one = mujoco.robot
        one.reset()
        np.testing.assert_allclose(one.observation(), expected, atol=2e-6)
        np.testing.assert_allclose(one.position(), bullet.position, atol=1e-6)
    bullet.close()


def largest_difference(robot: type[PaperRobot], change: str) -> float:
    """Return the largest difference of an observation in the air; `change`: what is wrong by 1 % in MuJoCo."""
    robot_model, actions = replica_model(robot.robot), np.random.default_rng(1).uniform(-1, 1, (4, robot.sizes[1]))
    robot_model = dataclasses.replace(robot_model, model=copy.copy(robot_model.model))
    if change == "mass":
        robot_model.model.body_mass[robot_model.model.nbody - 1] *= 1.01
    if change == "torque":
        robot_model.model.actuator_gear[0] *= 1.01
    if change == "observation":
        wrong = robot_model.rules.lower.copy()
        wrong[0] *= 1.01
        robot_model = dataclasses.replace(robot_model, rules=dataclasses.replace(robot_model.rules, lower=wrong))
    mujoco, (bullet, _) = MujocoWalker(robot_model, False, 0), in_bullet(robot)
    mujoco.reset()
    apart = [np.abs(mujoco.step(action)[0] - bullet.step(action)[0]).max() for action in actions.astype(np.float32)]
    bullet.close()
    return float(max(apart))


@pytest.mark.parametrize("robot", ROBOTS)
def test_motion_in_the_air_tells_what_is_wrong_by_one_percent(robot: type[PaperRobot]) -> None:
    right = largest_difference(robot, "")
    assert right < 2e-5
    for change in ("mass", "torque", "observation"):
        assert largest_difference(robot, change) > 10 * right, change


@pytest.mark.parametrize("robot", ROBOTS)
def test_the_same_torques_move_both_engines_alike_after_contact(robot: type[PaperRobot]) -> None:
    bullet, replica = robot().walker(0), in_mujoco(robot)
    np.testing.assert_allclose(replica.reset(), bullet.reset(), atol=1e-3)
    for action in 0.5 * np.random.default_rng(3).standard_normal((40, robot.sizes[1])).astype(np.float32):
        np.testing.assert_allclose(replica.step(action)[0], bullet.step(action)[0], atol=1e-3)
        np.testing.assert_allclose(replica.position, bullet.position, atol=1e-3)
    bullet.close()
