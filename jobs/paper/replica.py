#!/usr/bin/env python3
"""Compare Bullet's robots with their replicas in MuJoCo: motion under the same torques, final positions.

    jobs/paper/replica.py [--policies POLICY.npz ...] [--count 100]

Prints the tables of `ees_mpi/docs/replica.md`, for the robots of the policies or for both. Final positions are those of
random policies (std 0.02 around a random mean), and of offspring of each POLICY.npz, wherever it was trained; every
individual walks in both engines, on the CPU. "between halves" compares two random halves of Bullet's individuals:
differences of that size are chance. "Bullet and Bullet" compares two walks in Bullet whose first torques differ by 1e-6
of the largest, and "Bullet, changed" has all weights of the policies multiplied by 1 + 1e-6: so chaotic the motion is
in Bullet itself.
"""

import argparse
import tomllib
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
        print(f"| {strength} | {' | '.join(cells)} |", flush=True)
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

    def child(self, generator: np.random.Generator) -> Singles:
        """Return a mutation of the mean."""
        return self.mean + np.float32(STD) * generator.standard_normal(self.mean.size, np.float32)


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
        rollouts, generator = task_of(source.robot, engine, steps).open(source.seed), np.random.default_rng(seed)
        children = (source.child(generator) * factor for _ in range(count))
        outcomes = [rollouts.evaluate(k, child, *source.statistics, False) for k, child in enumerate(children)]
        rollouts.close()
        found.append(np.array([outcome.behavior for outcome in outcomes]))
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
    network, generator, apart = task_of(source.robot, "bullet").network(), np.random.default_rng(11), []
    network.normalise(*source.statistics)
    for _ in range(walks):
        network.load(source.child(generator))
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


def halves(values: Floats) -> float:
    """Return the median Kolmogorov-Smirnov distance of two random halves, for halves as large as the whole sample."""
    generator = np.random.default_rng(0)
    gaps = [ks_2samp(*np.array_split(generator.permutation(values), 2)).statistic for _ in range(200)]
    return float(np.median(gaps) / np.sqrt(2))


def show_positions(source: Source, *positions: Floats) -> None:
    """Print statistics of the final positions in Bullet, in the replica, and in Bullet with changed weights."""
    print(f"\n## {source.robot}: offspring of {source.name}, {len(positions[0])} individuals\n")
    print("| | mean | sd | KS to Bullet | correlation |\n|---|---|---|---|---|")
    if positions[0].shape[1] == 1:
        views = {"x": [each[:, 0] for each in positions]}
    else:
        views = {"x": [each[:, 0] for each in positions], "y": [each[:, 1] for each in positions]}
        views["distance"] = [np.linalg.norm(each, axis=1) for each in positions]
    for name, samples in views.items():
        for engine, sample in zip(("Bullet", "replica", "Bullet, changed"), samples, strict=True):
            if engine == "Bullet":
                gap, alike = f"{halves(sample):.2f} between halves", ""
            else:
                gap = f"{ks_2samp(sample, samples[0]).statistic:.2f}"
                alike = f"{np.corrcoef(sample, samples[0])[0, 1]:.3f}"
            print(f"| {name}, {engine} | {sample.mean():.3f} | {sample.std():.3f} | {gap} | {alike} |", flush=True)


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
