"""What the programs of this folder share: two tasks, the options, and the file from which a search goes on.

A task is a function from individuals [n, D] to behaviours [n, B] and fitnesses [n], with a first mean and a std. It
gives an individual the same bits in any array of individuals, so that the number of ranks does not matter.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

NOISE = {"noise": {"seed": 0, "size": 2**22}}  # one table for all Strategies of a program


class Walker:
    """The point of jobs/peers/walker.py: the behaviour is its final place, the fitness its final x."""

    def __init__(self):
        sys.path.append(str(Path(__file__).resolve().parents[2] / "peers"))  # only a checkout has it
        import walker

        self.walk, self.start, self.std = walker.walk, walker.start, walker.STD

    def __call__(self, z):
        places = np.asarray(self.walk(z), np.float64).reshape(len(z), 2)
        return places, places[:, 0]


class Robot:
    """A robot of Gymnasium with a small network: the behaviour is its final x (and y), the fitness its final x."""

    def __init__(self, name, steps, hidden=16):
        import gymnasium

        self.env, self.steps, self.std = gymnasium.make(name, max_episode_steps=steps), steps, 0.05
        seen, actions = self.env.observation_space.shape[0], self.env.action_space.shape[0]
        self.shapes = ((seen + 1, hidden), (hidden + 1, actions))  # the last row is the bias
        self.scale = self.env.action_space.high

    def start(self, seed):
        """Return a first mean [D]."""
        generator = np.random.default_rng(seed)
        layers = [generator.normal(0, rows**-0.5, rows * columns) for rows, columns in self.shapes]
        return np.concatenate(layers).astype(np.float32)

    def __call__(self, z):
        places = [self.rollout(each) for each in z]
        behavior = np.array(places, np.float64) if places else np.zeros((0, 1))  # more ranks than individuals
        return behavior, behavior[:, 0]

    def rollout(self, z):
        """Return the final place of one individual; every rollout has the same start."""
        first, second = (
            part.reshape(shape).astype(np.float64)
            for part, shape in zip(np.split(z, [np.prod(self.shapes[0])]), self.shapes, strict=True)
        )
        seen, info = self.env.reset(seed=0)
        ended = False
        while not ended:
            inside = np.tanh(seen @ first[:-1] + first[-1])
            action = self.scale * np.tanh(inside @ second[:-1] + second[-1])
            seen, _, fallen, late, info = self.env.step(action)
            ended = fallen or late
        return [info[key] for key in ("x_position", "y_position") if key in info]


def task_of(name, steps=200):
    """Return the walker, or a robot of Gymnasium."""
    return Walker() if name == "walker" else Robot(name, steps)


def options(about, **more):
    """Return the options of a program; `more`: further numbers, with their defaults."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("task", nargs="?", default="walker", help="walker, or HalfCheetah-v5, Ant-v5, ...")
    numbers = {"generations": 60, "size": 200, "lr": 0.03, "seed": 0, "steps": 200, **more}
    for key, default in numbers.items():
        parser.add_argument(f"--{key}", type=type(default), default=default, help=f"[{default}]")
    parser.add_argument("--out", type=Path, help="save here after each generation; go on from it if it exists")
    return parser.parse_args()


def save(path, strategies, **memory):
    """Save the states of all Strategies, and what else the search remembers."""
    if path and strategies[0].rank == 0:
        states = {f"{k}/{key}": array for k, es in enumerate(strategies) for key, array in es.state.arrays().items()}
        with open(f"{path}.new", "wb") as file:
            np.savez(file, **states, **{f"memory/{key}": value for key, value in memory.items()})
        os.replace(f"{path}.new", path)  # a program that is killed here leaves the file before


def load(path, strategies):
    """Return what a search remembers, and give the Strategies their states; None if there is no file yet."""
    if not path or not path.exists():
        return None
    with np.load(path) as file:
        for k, es in enumerate(strategies):
            es.state = {key.partition("/")[2]: file[key] for key in file if key.startswith(f"{k}/")}
        return {key.partition("/")[2]: file[key] for key in file if key.startswith("memory/")}
