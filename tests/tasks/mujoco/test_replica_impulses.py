"""Contacts and joint limits of the replicas, next to those of Bullet."""

from typing import Any

import numpy as np
import pytest

from ees_mpi.outcomes import Floats
from ees_mpi.tasks.mujoco.replica.impulses import sweeps
from ees_mpi.tasks.paper_robots import Ant, Cheetah, PaperRobot

ROBOTS = [Cheetah, Ant]


def both(robot: type[PaperRobot]) -> tuple[Any, Any]:
    return robot().walker(0), robot(engine="mujoco", device="cpu").walker(0)


def furthest(robot: type[PaperRobot], strength: float, steps: int = 40) -> float:
    """Return the largest difference of observations and positions under the same torques."""
    bullet, replica = both(robot)
    apart = [np.abs(bullet.reset() - replica.reset()).max()]
    actions = strength * np.random.default_rng(3).standard_normal((steps, robot.sizes[1])).astype(np.float32)
    for action in actions:
        apart.append(np.abs(bullet.step(action)[0] - replica.step(action)[0]).max())
        apart.append(np.abs(np.subtract(bullet.position, replica.position)).max())
    bullet.close()
    return float(max(apart))


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("strength", [0.1, 0.5])
def test_the_same_torques_move_both_engines_alike_after_contact(robot: type[PaperRobot], strength: float) -> None:
    assert furthest(robot, strength) < 1e-3


@pytest.mark.parametrize("robot", ROBOTS)
def test_robots_without_torques_come_to_rest_alike(robot: type[PaperRobot]) -> None:
    bullet, replica = both(robot)
    bullet.reset()
    replica.reset()
    still = np.zeros(robot.sizes[1], np.float32)
    for _ in range(200):
        expected, found = bullet.step(still)[0], replica.step(still)[0]
    np.testing.assert_allclose(found, expected, atol=5e-3)
    bullet.close()


def solved(missing: list[float], matrix: Floats | None = None, friction: float = 0.5) -> list[float]:
    matrix = np.eye(len(missing)) if matrix is None else matrix
    impulses: list[float] = sweeps(matrix, np.array(missing), 0, 1, friction).tolist()
    return impulses


def test_a_contact_pushes_but_does_not_pull() -> None:
    assert solved([2.0, 0.0, 0.0]) == [2.0, 0.0, 0.0]
    assert solved([-2.0, 1.0, 1.0]) == [0.0, 0.0, 0.0]


def test_friction_is_limited_by_the_impulse_of_the_contact() -> None:
    assert solved([2.0, 0.3, 0.4]) == [2.0, 0.3, 0.4]
    np.testing.assert_allclose(solved([2.0, 3.0, 4.0]), [2.0, 0.6, 0.8])


def test_five_sweeps_do_not_reach_the_exact_solution_of_coupled_rows() -> None:
    matrix = np.array([[1.0, 0.9], [0.9, 1.0]])
    found = sweeps(matrix, np.array([1.0, 0.95]), 0, 2, 0.0)
    assert 1e-3 < np.abs(matrix @ found - [1.0, 0.95]).max() < 0.1
