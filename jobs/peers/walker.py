"""The small 2-D locomotion task of the comparison: one source for numpy, JAX and torch, and the measures of offspring.

A point has a place and a speed. Its network sees both and a clock, and gives a thrust [2] and a push. Thrust counts
only while push and clock have the same sign, so the network must find a rhythm to go far. The behaviour is the final
place. A network with two hidden layers of 16 units has 435 parameters.
"""

from itertools import pairwise
from typing import Any

import numpy as np

LAYERS = (6, 16, 16, 3)
PARAMETERS = sum((rows + 1) * columns for rows, columns in pairwise(LAYERS))
STEPS = 60
STD = 0.05  # of mutations, for all libraries
REACH = 36.0  # half the side of the square in which cells are counted; no walker gets out of it
CELLS = 20  # on a side
DIRECTIONS = np.deg2rad([0.0, 120.0, 240.0])


def start(seed: int) -> np.ndarray:
    """Return a first mean [D]: normal weights, a weak last layer, biases 0."""
    generator, parts = np.random.default_rng(seed), []
    for rows, columns in pairwise(LAYERS):
        weak = 0.1 if columns == LAYERS[-1] else 1.0
        parts += [generator.normal(0, weak / rows**0.5, rows * columns), np.zeros(columns)]
    return np.concatenate(parts).astype(np.float32)


def layers(z: Any) -> list[tuple[Any, Any]]:
    """Return weights [n, rows, columns] and biases [n, 1, columns] of networks z [n, D]."""
    found, at = [], 0
    for rows, columns in pairwise(LAYERS):
        end = at + rows * columns
        found.append((z[:, at:end].reshape(-1, rows, columns), z[:, end : end + columns].reshape(-1, 1, columns)))
        at = end + columns
    return found


def sight(xp: Any, place: Any, speed: Any, clock: Any) -> Any:
    """Return what the network sees [n, 1, 6]; `xp` is numpy, jax.numpy or torch; clock [2]: sine and cosine."""
    return xp.concatenate([place / 10, speed, 0 * speed + clock], -1)


def act(xp: Any, network: list[tuple[Any, Any]], seen: Any) -> Any:
    """Return the actions [n, T, 3], thrust [2] and push, for what the networks see [n, T, 6]."""
    for weights, bias in network[:-1]:
        seen = xp.tanh(seen @ weights + bias)
    weights, bias = network[-1]
    return xp.tanh(seen @ weights + bias)


def move(place: Any, speed: Any, action: Any, clock: Any) -> tuple[Any, Any]:
    """Return place and speed [n, 1, 2] after an action."""
    power = action[:, :, 2:] * clock[0]
    speed = 0.8 * speed + 0.2 * action[:, :, :2] * (power + abs(power)) * 0.5
    return place + speed, speed


def step(xp: Any, network: list[tuple[Any, Any]], place: Any, speed: Any, clock: Any) -> tuple[Any, Any]:
    """Return place and speed [n, 1, 2] after a step of the networks."""
    return move(place, speed, act(xp, network, sight(xp, place, speed, clock)), clock)


def clocks() -> np.ndarray:
    """Return sine and cosine of the clock at each step [STEPS, 2]."""
    phase = 2 * np.pi * np.arange(STEPS) / 12
    return np.stack([np.sin(phase), np.cos(phase)], axis=1).astype(np.float32)


def walk(z: Any, xp: Any = np) -> Any:
    """Return the final places [n, 2] of networks z [n, D]."""
    network, times = layers(z), clocks()
    place = xp.zeros((z.shape[0], 1, 2), dtype=z.dtype)
    speed = place
    for clock in times if xp is np else xp.asarray(times):
        place, speed = step(xp, network, place, speed, clock)
    return place[:, 0]


def measures(places: np.ndarray, seed: int = 0) -> dict[str, float | list[float]]:
    """Return coverage and entropy of final places [n, 2], and how far the best of 40 of them gets, by direction."""
    cells, _, _ = np.histogram2d(*places.T, bins=CELLS, range=[[-REACH, REACH]] * 2)
    share = cells[cells > 0] / len(places)
    along = places @ np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)])
    groups = along[np.random.default_rng(seed).permutation(len(along))[: len(along) // 40 * 40]].reshape(-1, 40, 3)
    return {
        "coverage": float((cells > 0).mean()),
        "entropy": float(-(share * np.log(share)).sum()),
        "best_of_40": groups.max(axis=1).mean(axis=0).tolist(),
    }
