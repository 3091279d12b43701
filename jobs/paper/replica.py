#!/usr/bin/env python3
"""Compare Bullet's robots with their replicas in MuJoCo: motion under the same torques, final positions.

    jobs/paper/replica.py [--policies POLICY.npz ...] [--count 100]

Prints the tables of `ees_mpi/docs/replica.md`, for the robots of the policies or for both. Final positions are those of
random policies (std 0.02 around a random mean), and of offspring of each POLICY.npz, wherever it was trained; every
individual walks in both engines, on the CPU. "Bullet and Bullet" compares two walks in Bullet whose first torques
differ by 1e-6 of the largest, and "Bullet, changed" has all weights of the policies multiplied by 1 + 1e-6: so chaotic
the motion is in Bullet itself.
"""

import argparse
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from ees_mpi.arrays import Floats, Singles
from ees_mpi.run.starting_point import read_policy
from ees_mpi.tasks.bullet.world import pybullet
from ees_mpi.tasks.paper_robots import Ant, Cheetah, PaperRobot

ROBOTS: dict[str, type[PaperRobot]] = {"cheetah": Cheetah, "ant": Ant}
STRENGTHS, SEQUENCES, SECOND = (0.1, 1.0), 30, 60  # of random torques: standard deviations, number, steps
STD = 0.02
CHANGE = np.float32(1 + 1e-6)  # of all weights of a policy, to see how chaotic Bullet is


def task_of(robot: str, engine: str, steps: int = 600) -> PaperRobot:
    """Return the task of a robot in one engine, on the CPU."""
    device = "cpu" if engine == "mujoco" else None
    return ROBOTS[robot](engine=engine, steps=steps, device=device)


def walkers(robot: str, seed: int) -> tuple[Any, Any]:
    """Return a robot that is controlled step by step, in Bullet and in MuJoCo."""
    return task_of(robot, "bullet").walker(seed), task_of(robot, "mujoco").walker(seed)


def show_motion(robot: str) -> None:
    """Print how far the engines drift apart under the same torques."""
    bullet, replica = walkers(robot, 0)
    print(f"\n## {robot}: motion\n")
    print("| torques | before contact, rad | after 1 s | Bullet and Bullet | position, m |\n|---|---|---|---|---|")
    for strength in STRENGTHS:
        rows = [differences(bullet, replica, robot, strength, seed) for seed in range(SEQUENCES)]
        before, *others = np.array(rows).T
        cells = [f"{before.max():.1e}", *(f"{np.median(x):.1e}, {x.max():.1e}" for x in others)]
        print(f"| {strength} | {' | '.join(cells)} |")
    bullet.close()


def differences(bullet: Any, replica: Any, robot: str, strength: float, seed: int) -> tuple[float, ...]:
    """Return the differences under the same torques: joint angles before contact and at last, and the last place.

    The third number is the last difference between Bullet and Bullet with first torques that are changed by 1e-6.
    """
    actions = ROBOTS[robot].sizes[1]
    torques = strength * np.random.default_rng([seed, 1]).standard_normal((SECOND, actions)).astype(np.float32)
    changed = torques.copy()
    changed[0] += 1e-6
    again = observations(bullet, changed)
    theirs, ours = observations(bullet, torques), observations(replica, torques)
    joints, feet = slice(8, 8 + 2 * actions, 2), slice(8 + 2 * actions, None)
    half = np.array([width for _, width in bullet.robot._scales]) / 2
    apart, alone = (np.abs((each - theirs)[:, joints]) * half for each in (ours, again))
    touched = np.flatnonzero(theirs[:, feet].any(1))  # an observation has the contacts of the step before
    first = max(int(touched[0]) - 1, 1) if touched.size else SECOND
    place = np.abs(np.subtract(bullet.position, replica.position)).max()
    return apart[:first].max(), apart[-1].mean(), alone[-1].mean(), place


def observations(walker: Any, torques: Singles) -> Singles:
    """Return the observations of a walk with given torques."""
    walker.reset()
    return np.array([walker.step(torque)[0].copy() for torque in torques])


@dataclass(frozen=True)
class Source:
    """A mean whose offspring walk."""

    name: str
    robot: str
    mean: Singles
    statistics: tuple[Floats, Floats]  # the mean and std of observations
    seed: int  # of the start

    def offspring(self, count: int, seed: int) -> Iterator[Singles]:
        """Give mutations of the mean."""
        generator = np.random.default_rng(seed)
        for _ in range(count):
            yield self.mean + np.float32(STD) * generator.standard_normal(self.mean.size, np.float32)


def random_source(robot: str) -> Source:
    """Return a random mean of a robot."""
    size = ROBOTS[robot].sizes[0]
    mean = task_of(robot, "bullet").initial(np.random.default_rng(0))
    return Source("random", robot, mean, (np.zeros(size), np.ones(size)), 0)


def source_of(file: Path) -> Source:
    """Return the mean of a policy that ees-mpi has exported."""
    policy = read_policy(file)
    config = tomllib.loads(policy.config)
    engine = config["task"].get("engine", "bullet")
    name = f"{file.parent.name} (trained in {engine}, generation {policy.about['generation']})"
    return Source(name, config["task"]["name"], policy.mean[0], policy.statistics, config["run"]["seed"])


def walk(source: Source, count: int, seed: int, steps: int = 600) -> list[Floats]:
    """Return final positions of the same offspring in Bullet, in the replica, and in Bullet with changed weights."""
    found = []
    for engine, factor in (("bullet", 1), ("mujoco", 1), ("bullet", CHANGE)):
        with closing(task_of(source.robot, engine, steps).open(source.seed)) as rollouts:
            children = enumerate(source.offspring(count, seed))
            ends = [rollouts.evaluate(k, child * factor, *source.statistics, False).behavior for k, child in children]
            found.append(np.array(ends))
    return found


def put(bullet: Any, replica: Any) -> None:
    """Give the replica the present state of the robot in Bullet."""
    robot, data, rules = bullet.robot, replica.data, replica.robot_model.rules
    body, client = robot._body, robot._client
    roots = (0, 1, 2) if rules.planar else ()
    states = np.array([state[:2] for state in pybullet.getJointStates(body, (*roots, *robot._joints), client)])
    if rules.planar:
        data.qpos[:3], data.qvel[:3] = states[:3].T
    else:
        place, (x, y, z, w) = pybullet.getBasePositionAndOrientation(body, client)
        speed, turn = pybullet.getBaseVelocity(body, client)
        frame = np.reshape(pybullet.getMatrixFromQuaternion((x, y, z, w)), (3, 3))
        data.qpos[:7], data.qvel[:6] = (*place, w, x, y, z), (*speed, *(turn @ frame))
    data.qpos[rules.qpos_at], speeds = states[len(roots) :].T
    data.qvel[rules.dof_at] = speeds / rules.rate


def show_steps(source: Source, walks: int = 6, steps: int = 300) -> None:
    """Print how far the engines are apart after one action from the same state, along walks of offspring in Bullet."""
    bullet, replica = walkers(source.robot, source.seed)
    network, apart = task_of(source.robot, "bullet").network(), []
    network.normalise(*source.statistics)
    for child in source.offspring(walks, 11):
        network.load(child)
        observation = bullet.reset()
        replica.reset()
        for _ in range(steps):
            put(bullet, replica)
            action = network.act(observation).copy()
            observation = bullet.step(action)[0]
            apart.append(np.abs(replica.step(action)[0] - observation).max())
    bullet.close()
    shares = ", ".join(f"{share:.1%}: {np.quantile(apart, share):.1e}" for share in (0.5, 0.9, 0.99, 0.999, 1))
    print(f"\nOne action from each of {len(apart)} states: largest difference of an observation, quantiles {shares}.")


def show_positions(source: Source, *positions: Floats) -> None:
    """Print statistics of the final positions in Bullet, in the replica, and in Bullet with changed weights."""
    print(f"\n## {source.robot}: offspring of {source.name}, {len(positions[0])} individuals\n")
    print("| | mean | sd | KS to Bullet | correlation |\n|---|---|---|---|---|")
    views = {name: [each[:, axis] for each in positions] for axis, name in enumerate("xy"[: positions[0].shape[1]])}
    if len(views) == 2:
        views["distance"] = [np.linalg.norm(each, axis=1) for each in positions]
    for name, (bullet, *others) in views.items():
        print(f"| {name}, Bullet | {bullet.mean():.3f} | {bullet.std():.3f} | | |")
        for engine, sample in zip(("replica", "Bullet, changed"), others, strict=True):
            gap, alike = ks_2samp(sample, bullet).statistic, np.corrcoef(sample, bullet)[0, 1]
            print(f"| {name}, {engine} | {sample.mean():.3f} | {sample.std():.3f} | {gap:.2f} | {alike:.3f} |")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="*", type=Path, default=[])
    parser.add_argument("--count", type=int, default=100, help="of the offspring")
    parser.add_argument("--seed", type=int, default=7, help="of the offspring")
    wanted = parser.parse_args()
    trained = [source_of(file) for file in wanted.policies]
    robots = list(dict.fromkeys(source.robot for source in trained)) or list(ROBOTS)
    for robot in robots:
        show_motion(robot)
    for source in [random_source(robot) for robot in robots] + trained:
        show_positions(source, *walk(source, wanted.count, wanted.seed))
        show_steps(source)


if __name__ == "__main__":
    main()
