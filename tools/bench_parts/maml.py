"""MAML: sampling with the numpy policy or a batched torch policy; a Hessian product against a forward pass."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from ees_mpi.maml.network import mean_action

from ees_mpi import config
from ees_mpi.maml.learning import Learner, LearningTask, Steps
from ees_mpi.maml.rollouts import Batch, Gaussian, sample
from ees_mpi.policies import CLIP, MLP, observation_sums
from ees_mpi.tasks.locomotion import along

STEPS = 200
ROLLOUTS = 10
REPEATS = 3


def maml() -> dict[str, float]:
    """Return the times, each the best of a few repeats."""
    task = config.load("cheetah-maml").task
    mean = MLP(task.layers).initial(np.random.default_rng(0))
    policy = Gaussian.of(task.layers, mean, np.zeros(6, np.float32), np.zeros(26), np.ones(26))
    noise = np.random.default_rng(1).standard_normal((ROLLOUTS, STEPS, 6), np.float32)
    walkers = [task.walker(0) for _ in range(ROLLOUTS)]
    everyone = np.ones(ROLLOUTS, np.bool_)

    def alone() -> Batch:
        return sample(walkers[0], policy, noise, 0.0, everyone, 1)

    one_by_one = _best(alone)
    batch = alone()
    side_by_side = _best(lambda: _in_step(walkers, task.layers, mean, noise))
    for walker in walkers:
        walker.close()
    theta = torch.tensor(np.concatenate([mean, np.zeros(6, np.float32)]))
    steps = Steps.of(batch, 0.99)
    learning = {keep: LearningTask(Learner(task.layers, 0.1), theta, steps, steps, keep) for keep in (False, True)}
    vector = learning[True].gradient()
    products = {keep: _best(lambda each=each: each.hessian_product(vector)) for keep, each in learning.items()}
    with torch.no_grad():
        forward = _best(lambda: mean_action(task.layers, theta, steps.observations))
    return {
        "numpy_seconds_per_step": one_by_one / noise[..., 0].size,
        "batched_torch_against_numpy": side_by_side / one_by_one,
        "product_over_forward": products[False] / forward,
        "product_with_kept_graph_over_forward": products[True] / forward,
        "products_over_rollouts": 12 * products[True] / (2 * one_by_one),
    }


def _in_step(walkers: list[Any], layers: tuple[int, ...], mean: Any, noise: Any) -> None:
    """Step all robots together, with one forward pass of torch for all, and record what `sample` records."""
    theta = torch.tensor(mean)
    seen = np.stack([walker.reset() for walker in walkers])
    observations = np.zeros((*noise.shape[:2], layers[0]), np.float32)
    taken, rewards = np.zeros_like(noise), np.zeros(noise.shape[:2])
    gone = [along(0.0, *walker.position) for walker in walkers]
    with torch.no_grad():
        for step in range(noise.shape[1]):
            normalised = torch.from_numpy(seen).clamp(-CLIP, CLIP)
            actions = mean_action(layers, theta, normalised).numpy() + noise[:, step]
            observations[:, step], taken[:, step] = seen, actions
            for number, walker in enumerate(walkers):
                seen[number], _ = walker.step(actions[number])
                further = along(0.0, *walker.position)
                rewards[number, step] = further - gone[number]
                gone[number] = further
            if not (np.isfinite(seen).all() and np.isfinite(gone).all()):
                break
    for rollout in observations:
        observation_sums(list(rollout))


def _best(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def show(results: dict[str, float]) -> None:
    """Print the result for reading."""
    print(f"sampling with the numpy policy     {results['numpy_seconds_per_step'] * 1e6:.0f} us a step")
    print(f"ten robots side by side, torch     {results['batched_torch_against_numpy']:.2f} times that")
    print(f"a Hessian product                  {results['product_over_forward']:.1f} forward passes")
    print(f"  with the graph kept              {results['product_with_kept_graph_over_forward']:.1f} forward passes")
    print(f"all products of an update          {results['products_over_rollouts']:.2f} of its rollouts")
