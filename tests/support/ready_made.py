"""The ready-made environments, and traces of episodes to compare with theirs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pybullet_envs_gymnasium  # noqa: F401  registers them
from numpy.typing import NDArray

from ees_mpi.policies import MLP
from ees_mpi.tasks.bullet.robots import BulletAnt, BulletCheetah, Robot
from ees_mpi.terminal import silence

READY_MADE: dict[type[Robot], str] = {BulletCheetah: "HalfCheetahBulletEnv-v0", BulletAnt: "AntBulletEnv-v0"}

Actor = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class Episode(NamedTuple):
    """What sets an episode: the seed of its start, the way of acting, and a seed for that."""

    seed: int
    way: str
    number: int = 0

    def actor(self, robot: Robot) -> Actor:
        """Make the function from observation to action, anew for each time the episode is played."""
        generator = np.random.default_rng([self.number, 1])
        if self.way == "policy":
            policy = MLP((robot.observation_size, 64, 64, robot.action_size))
            noise = generator.standard_normal(policy.count, np.float32)
            policy.load(policy.initial(generator) + np.float32(0.3) * noise)
            return policy.act
        if self.way == "held":  # long pushes one way: throws the ant on its back
            held = generator.integers(-1, 2, (1000, robot.action_size)).astype(np.float32).repeat(50, axis=0)
            pushes = iter(held)
            return lambda _: next(pushes)
        return lambda _: generator.normal(0, 1.5, robot.action_size).astype(np.float32)


class Trace(NamedTuple):
    """All that an episode gave, as bytes where bits matter."""

    observations: list[bytes]
    ends: list[bool]
    positions: list[bytes]


def trace_of(robot: Robot, episode: Episode, steps: int) -> Trace:
    """Play an episode with one of our robots."""
    act, observation = episode.actor(robot), robot.reset(episode.seed)
    trace = Trace([observation.tobytes()], [], [np.array(robot.position).tobytes()])
    for _ in range(steps):
        observation, end = robot.step(act(observation))
        trace.observations.append(observation.tobytes())
        trace.ends.append(end)
        trace.positions.append(np.array(robot.position).tobytes())
    return trace


def ready_made_trace_of(env: Any, robot: Robot, episode: Episode, steps: int) -> Trace:
    """Play an episode with a ready-made environment, past its ends."""
    act, (observation, _) = episode.actor(robot), env.reset(seed=episode.seed)
    trace = Trace([observation.tobytes()], [], [np.array(env.robot.body_xyz).tobytes()])
    for _ in range(steps):
        observation, _, end, _, _ = env.step(act(observation))
        trace.observations.append(observation.tobytes())
        trace.ends.append(end)
        trace.positions.append(np.array(env.robot.body_xyz).tobytes())
    return trace


@contextmanager
def ready_made(kind: type[Robot]) -> Iterator[Any]:
    """Make a ready-made environment that has had its first reset, which is unlike all later ones."""
    with silence():
        env = gymnasium.make(READY_MADE[kind]).unwrapped
        env.reset(seed=0)
    try:
        yield env
    finally:
        env.close()
