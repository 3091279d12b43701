"""The speed of whole rollouts, against the time inside Bullet's step and against pybullet_envs_gymnasium.

Each round rolls one policy out three times from the same start: with our robot, with our robot and a timer around
`stepSimulation`, and with the environment of pybullet_envs_gymnasium. The three take turns every few steps, so that
other load on the machine slows all of them equally. They must end at the same bits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np

from ees_mpi.policies import HIDDEN, MLP
from ees_mpi.tasks.bullet.robots import BulletAnt, BulletCheetah, Robot
from ees_mpi.tasks.bullet.world import pybullet
from ees_mpi.terminal import silence

ROBOTS: dict[type[Robot], str] = {BulletCheetah: "HalfCheetahBulletEnv-v0", BulletAnt: "AntBulletEnv-v0"}
SEED = 1
STD = 0.02  # of the paper's mutations
TURN = 50  # steps


@contextmanager
def clock_around_physics(spent: list[float]) -> Iterator[None]:
    """Add up the seconds inside `stepSimulation`; the cost of the timer does not count as physics."""
    real = pybullet.stepSimulation

    def timed(client: int) -> None:
        start = perf_counter()
        real(client)
        spent[0] += perf_counter() - start

    pybullet.stepSimulation = timed
    try:
        yield
    finally:
        pybullet.stepSimulation = real


class Player:
    """One of the three rollouts that take turns, and its seconds."""

    def __init__(self, reset: Callable[[], Any], step: Callable[[Any], Any]) -> None:
        self.reset, self.step = reset, step

    def start(self) -> None:
        """Begin a rollout."""
        start = perf_counter()
        self.observation = self.reset()
        self.seconds = perf_counter() - start

    def play(self, act: Callable[[Any], Any], steps: int) -> None:
        """Continue for some steps."""
        observation, step = self.observation, self.step
        start = perf_counter()
        for _ in range(steps):
            observation = step(act(observation))[0]
        self.seconds += perf_counter() - start
        self.observation = observation


def ready_made(name: str) -> Any:
    """Make an environment and reset it once: its first episode differs from all later ones."""
    import gymnasium
    import pybullet_envs_gymnasium  # noqa: F401

    with silence():
        env = gymnasium.make(name)
        env.reset(seed=SEED)
    return env


def play_round(players: list[Player], policy: MLP, steps: int) -> tuple[float, float, float, float]:
    """Return the seconds of our rollout, of the timed one, of its physics, and of the other package."""
    spent, (ours, clocked, theirs) = [0.0], players
    for player in players:
        player.start()
    for begin in range(0, steps, TURN):
        for player in players:
            with clock_around_physics(spent) if player is clocked else nullcontext():
                player.play(policy.act, min(TURN, steps - begin))
    if len({player.observation.tobytes() for player in players}) > 1:
        raise RuntimeError("the three rollouts did not end with the same observation")
    return ours.seconds, clocked.seconds, spent[0], theirs.seconds


def bench_rollout(kind: type[Robot], rounds: int = 9, steps: int = 1000) -> dict[str, float]:
    """Return medians over several rounds of one robot, each round with another policy."""
    robots, env = [kind(), kind()], ready_made(ROBOTS[kind])
    players = [Player(lambda robot=robot: robot.reset(SEED), robot.step) for robot in robots]  # type: ignore[misc]
    players.append(Player(lambda: env.reset(seed=SEED)[0], env.step))
    policy = MLP((kind.observation_size, *HIDDEN, kind.action_size))
    rows = []
    for number in range(rounds):
        generator = np.random.default_rng(number)
        noise = generator.standard_normal(policy.count, np.float32)
        policy.load(policy.initial(generator) + np.float32(STD) * noise)
        rows.append(play_round(players, policy, steps))
    for thing in (*robots, env):
        thing.close()
    ours, clocked, physics, theirs = np.array(rows).T
    seconds = {"step": ours, "physics": physics, "ready_made": theirs}
    return {
        "physics_share": float(np.median(physics / clocked)),
        "speedup_over_ready_made": float(np.median(theirs / ours)),
        "steps_per_second": float(np.median(steps / ours)),
        **{f"{name}_us": float(np.median(each)) * 1e6 / steps for name, each in seconds.items()},
    }


def main(words: list[str]) -> None:
    """Measure both robots, and print the results."""
    print("         steps/s  us/step  physics  share  ready-made  speed-up")
    for kind in ROBOTS:
        r = bench_rollout(kind)
        print(
            f"{kind.name:8} {r['steps_per_second']:7.0f} {r['step_us']:8.1f} {r['physics_us']:8.1f} "
            f"{r['physics_share']:6.3f} {r['ready_made_us']:11.1f} {r['speedup_over_ready_made']:8.2f}x"
        )
