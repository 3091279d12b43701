"""Advantages of a batch: discounted returns minus a linear feature baseline (Duan et al. 2016, arXiv:1604.06778)."""

import numpy as np

from ees_mpi.maml.rollouts import Batch
from ees_mpi.outcomes import Floats

RIDGE = 1e-5
TIME_SCALE = 100.0  # steps; keeps the powers of time near 1


def advantages(batch: Batch, discount: float) -> Floats:
    """Return the advantages [R, T], with mean 0 and standard deviation 1 over the steps taken; padded steps have 0."""
    mask = batch.mask
    values = (returns(batch.rewards, discount) - predicted(batch, discount))[mask]
    result = np.zeros(mask.shape)
    result[mask] = (values - values.mean()) / (values.std() + 1e-8)
    return result


def returns(rewards: Floats, discount: float) -> Floats:
    """Return the discounted sum of the present and all later rewards, at every step [R, T]."""
    result = np.zeros_like(rewards)
    running = np.zeros(len(rewards))
    for step in reversed(range(rewards.shape[1])):
        running = rewards[:, step] + discount * running
        result[:, step] = running
    return result


def predicted(batch: Batch, discount: float) -> Floats:
    """Return the prediction [R, T] of a linear fit of the returns to the features of the steps."""
    mask = batch.mask
    seen = batch.observations[mask].astype(np.float64)
    time = np.broadcast_to(np.arange(mask.shape[1]) / TIME_SCALE, mask.shape)[mask][:, None]
    features = np.hstack([seen, np.square(seen), time, time**2, time**3, np.ones_like(time)])
    gram = features.T @ features + RIDGE * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, features.T @ returns(batch.rewards, discount)[mask])
    result = np.zeros(mask.shape)
    result[mask] = features @ weights
    return result
