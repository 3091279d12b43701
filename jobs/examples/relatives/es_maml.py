"""ES-MAML with hill climbing: the fitness of an individual is the one after it has adapted to a direction.

Song, Gao, Yang, Choromanski, Pacchiano and Tang 2020 (arXiv:1910.01215): zero-order ES-MAML, hill-climbing operator.

    v_i = f_T( U(z_i, T) )        T: to walk along x, or in the opposite direction
    U(z, T): z_0 = z;  z_q = z_(q-1) + std eps_q if this is better in T than z_(q-1), else z_(q-1);  q = 1 ... queries
    w, gradient, step: those of an evolution strategy with the fitness v

Half of the pairs have each direction; the two individuals of a pair share theirs. A rollout here always gives the same
result, so that v needs no further rollout.

These are the details of the authors' program (`es_maml/zero_order`); of the paper only the beginning was found. One
differs: the program divides v by its standard deviation, and the objective `fitness` here uses the ranks of v.

    python jobs/examples/relatives/es_maml.py --size 20 --queries 9           the walker
    mpirun -n 4 python jobs/examples/relatives/es_maml.py HalfCheetah-v5 --size 20 --out es_maml.npz
"""

import numpy as np
from robots import NOISE, load, options, save, task_of

import ees_mpi


def directions(seed, generation, size):
    """Return +1 or -1 for each individual [N], half of the pairs each: along x, or in the opposite direction."""
    generator = np.random.default_rng([seed, generation])
    half = np.where(np.arange(size // 2) % 2 == generator.integers(2), 1, -1)
    return np.repeat(generator.permutation(half), 2)


def climb(task, z, sign, queries, std, generators):
    """Return individuals [n, D] after hill climbing, their behaviours [n, B] and fitnesses [n] in their directions.

    sign [n]: -1: the opposite direction, in which the fitness, a distance, has the opposite sign
    generators: of the mutations of each individual, so that they do not depend on the other rows
    """
    behavior, fitness = task(z)
    fitness = sign * fitness
    for _ in range(queries):
        noise = [generator.standard_normal(z.shape[1], np.float32) for generator in generators]
        tried = z + np.float32(std) * np.array(noise, np.float32).reshape(z.shape)
        places, fits = task(tried)
        better = (sign * fits > np.nan_to_num(fitness, nan=-np.inf)) & np.isfinite(places).all(axis=1)
        z, fitness = np.where(better[:, None], tried, z), np.where(better, sign * fits, fitness)
        behavior = np.where(better[:, None], places, behavior)
    return z, behavior, fitness


def step(es, task, queries, std, seed):
    """Make one generation; return the fitnesses [N] after the climbs."""
    generation, z = es.state.generation, es.ask()
    sign = directions(seed, generation, es.config.population.size)[es.rows]
    generators = [np.random.default_rng([seed, generation, row]) for row in es.rows]
    _, behavior, fitness = climb(task, z, sign, queries, std, generators)
    every = es.gather(fitness)
    es.tell(behavior, fitness)
    return every


def adapted(task, mean, sign, queries, std, seed=0):
    """Return the fitness of a mean after it has climbed in a direction, +1 or -1 along x."""
    generators = [np.random.default_rng([seed, queries])]
    return float(climb(task, mean[None], np.array([sign]), queries, std, generators)[2][0])


def main():
    """Search, print a line for each generation, save the state after it; at the end adapt to both directions."""
    given = options(__doc__, queries=9, few=39)
    task, shape = task_of(given.task, given.steps), {"size": given.size, "seed": given.seed, "config": NOISE}
    optimizer = {"name": "adam", "lr": given.lr}
    with ees_mpi.Strategy(task.start(given.seed), "fitness", std=task.std, optimizer=optimizer, **shape) as es:
        load(given.out, [es])
        while es.state.generation < given.generations:
            fitness = step(es, task, given.queries, task.std, given.seed)
            save(given.out, [es])
            if es.rank == 0:
                print(f"generation {es.state.generation}: fitness after climbing {np.nanmean(fitness):.3f}")
        if es.rank == 0:
            there, back = (adapted(task, es.mean, sign, given.few, task.std) for sign in (1, -1))
            print(f"after {1 + given.few} rollouts: {there:.3f} along x, {back:.3f} in the opposite direction")
            print(es.state.digest().hex())


if __name__ == "__main__":
    main()
