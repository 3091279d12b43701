"""A problem of evosax as the task, by ask and tell: its rollouts stay one jitted function (gymnax, JAX).

    pip install evosax gymnax six && python jobs/examples/evosax_problem.py [GENERATIONS]

The behaviour is the lowest and the highest place of the car; gymnax starts it again when it is at its goal. Key and
chunks are the same on any number of ranks, and so are the bits; evosax's normaliser depends on the ranks, so it is off.
"""

import sys

import jax
import numpy as np
from evosax.problems import GymnaxProblem
from evosax.problems.networks import MLP, tanh_output_fn
from jax.flatten_util import ravel_pytree

import ees_mpi

network = MLP(layer_sizes=(8, 1), output_fn=tanh_output_fn)
problem = GymnaxProblem("MountainCarContinuous-v0", network, episode_length=200, use_normalize_obs=False)
key = jax.random.key(0)
state, (start, tree) = problem.init(key), ravel_pytree(problem.sample(key))
with ees_mpi.Strategy(start, "maxent", size=64, std=0.5, seed=0) as es:
    for generation in range(int(sys.argv[1]) if sys.argv[1:] else 20):
        behaviors, fitness = [], []
        for z in es.ask(chunk=16):
            reward, _, seen = problem.eval(key, jax.vmap(tree)(z), state)
            places = np.asarray(seen["env_states"][1].position[:, 0])  # [n, steps]
            behaviors.append(np.stack([places.min(axis=1), places.max(axis=1)], axis=1))
            fitness.append(np.asarray(reward))
        es.tell(behaviors, fitness)
        print(f"generation {generation}: entropy {es.metrics['entropy']:.3f}")
print(es.state.digest().hex())
