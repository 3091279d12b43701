"""A batch for a GPU with one individual of each kind, and the same individuals one by one on the CPU."""

from typing import Any

import numpy as np

from ees_mpi.generation import Batch, Outcome

STD = 0.1


def table(task: Any) -> Any:
    """Return a small noise table."""
    noise = np.random.default_rng(0).standard_normal(8 * task.parameters).astype(np.float32)
    noise.flags.writeable = False
    return noise


def mixed_batch(task: Any) -> Batch:
    """Return two pairs around two means, a lone individual, and an unperturbed mean that starts elsewhere."""
    means = np.stack([task.initial(np.random.default_rng(k)) * np.float32(5) for k in range(2)])
    return Batch(
        index=np.arange(10, 16),
        means=means,
        std=STD,
        offset=np.array([3, 3, 50, 50, 99, 0]),
        sign=np.array([1, -1, 1, -1, 1, 0], np.int8),
        parent=np.array([0, 0, 1, 1, 0, 1], np.int32),
        observe=np.array([1, 0, 0, 1, 0, 1], np.bool_),
        reset_seed=np.array([5, 5, 5, 5, 5, 6]),
    )


def on_the_cpu(task: Any, batch: Batch, noise: Any, place: int, std: float = STD) -> Outcome:
    """Return the outcome of one individual of a batch, from a rollout on the CPU."""
    start, seed = batch.offset[place], 5 if batch.reset_seed is None else batch.reset_seed[place]
    eps = noise[start : start + task.parameters] * np.float32(std) * batch.sign[place]
    size = task.observation_dim
    parameters = batch.means[batch.parent[place]] + eps
    outcome: Outcome = task.open(int(seed)).evaluate(
        int(batch.index[place]), parameters, np.zeros(size), np.ones(size), bool(batch.observe[place])
    )
    return outcome
