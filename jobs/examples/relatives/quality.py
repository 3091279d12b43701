"""Quality-Evolvability ES: maximise fitness and evolvability at the same time, without a share for each.

Katona, Franks and Walker 2021 (arXiv:2103.10790); fronts and crowding distance: Deb et al. 2002, NSGA-II.

    e_i = |b_i - mean_k b_k|^2                            b: the behaviours as they are, neither whitened nor ranked
    front_i = 0 if nobody is at least as good in f and in e and better in one of them; 1 if only those of front 0 are
    crowding_i = sum over f and e of (next larger - next smaller in the front) / (largest - smallest of all)
                 infinite at the two ends of a front
    w_i = rank_i / N      by front (0 is best), then by crowding (large is best); ranks symmetric in [-0.5, 0.5]

The details are those of the authors' program (`gen_nondominated_es.py`); the text of the paper was not found. One
differs: they break ties by index; here equal pairs (f, e) are one point of a front, and ties share their mean rank.

    python jobs/examples/relatives/quality.py                       the walker
    mpirun -n 4 python jobs/examples/relatives/quality.py HalfCheetah-v5 --out quality.npz
"""

from bisect import bisect_right

import numpy as np
from robots import NOISE, load, options, save, task_of

import ees_mpi
from ees_mpi.generation import centred_ranks


def weights_of(behavior, fitness):
    """Return the weights [N] for behaviours [N, B] and fitnesses [N]; failed rollouts have 0."""
    valid = np.isfinite(fitness) & np.isfinite(behavior).all(axis=1)
    weights = np.zeros(len(fitness))
    if not valid.any():
        return weights
    evolvability = np.square(behavior[valid] - behavior[valid].mean(axis=0)).sum(axis=1)
    weights[valid] = centred_ranks(places(np.stack([fitness[valid], evolvability], axis=1))) / valid.sum()
    return weights


def places(both):
    """Return numbers [N] that order fitness and evolvability [N, 2] from worst to best; equal ones are ties."""
    points, copies = np.unique(both, axis=0, return_inverse=True)  # in the order of fitness, then of evolvability
    front = fronts(points)
    order = np.stack([-front, crowding(points, front)], axis=1)
    place = np.unique(order, axis=0, return_inverse=True)[1].reshape(-1)
    return place[copies.reshape(-1)]


def fronts(points):
    """Return the front [P] of different points [P, 2], which are in ascending order.

    In descending order, a front dominates a point if the last member of the front has a second number at least as
    large. These second numbers descend from front to front, so a bisection finds the front: no P x P array is needed.
    """
    lasts = []  # the second number of the last member of each front, with its sign changed: ascending
    front = np.zeros(len(points), np.int64)
    for place in range(len(points) - 1, -1, -1):
        second = -float(points[place, 1])
        front[place] = bisect_right(lasts, second)
        lasts[front[place] : front[place] + 1] = [second]
    return front


def crowding(points, front):
    """Return the crowding distance [P] of points [P, 2], which are in ascending order, in their fronts [P]."""
    extent = np.ptp(points, axis=0)
    order = np.argsort(front, kind="stable")  # along a front the first number rises, and the second one falls
    scaled, number = points[order] / np.where(extent > 0, extent, 1.0), front[order]
    distance = np.full(len(points), np.inf)
    inside = np.flatnonzero((number[1:-1] == number[:-2]) & (number[1:-1] == number[2:])) + 1
    distance[order[inside]] = np.abs(scaled[inside + 1] - scaled[inside - 1]).sum(axis=1)
    return distance


def step(es, task):
    """Make one generation; return the behaviours [N, B] and fitnesses [N] of its individuals."""
    behavior, fitness = map(es.gather, task(es.ask()))
    es.tell(weights=weights_of(behavior, fitness))
    return behavior, fitness


def main():
    """Search, print a line for each generation, and save the state after it."""
    given = options(__doc__)
    task, shape = task_of(given.task, given.steps), {"size": given.size, "seed": given.seed, "config": NOISE}
    optimizer = {"name": "adam", "lr": given.lr}
    with ees_mpi.Strategy(task.start(given.seed), std=task.std, optimizer=optimizer, **shape) as es:
        load(given.out, [es])
        while es.state.generation < given.generations:
            behavior, fitness = step(es, task)
            save(given.out, [es])
            if es.rank == 0:
                spread = np.nanvar(behavior, axis=0).sum()
                print(f"generation {es.state.generation}: fitness {np.nanmean(fitness):.3f}, variance {spread:.3f}")
        if es.rank == 0:
            print(es.state.digest().hex())


if __name__ == "__main__":
    main()
