"""Your own simulator in JAX, on its device: MuJoCo's MJX rolls out batches of individuals (jit, vmap).

    pip install jax mujoco-mjx 'gymnasium[mujoco]' && python jobs/examples/jax_simulator.py [GENERATIONS STEPS [time]]

The robot is Gymnasium's half cheetah; its behaviour is the final x. The noise table is put on the device once. Of each
generation only the draw goes there, a few numbers for each individual, and `jax.lax.map` makes the individuals from
slices of the table, one batch after the other. The weights are computed on the device, too. Batches have the same rows
for any number of ranks, so `mpirun -n 3 python ...` gives the same bits. "time" compares the speed with a loop over
Gymnasium's own environment. `ask_or_draw.py` measures the draw against `ask`: on a CPU, with 10,000 networks of 75,200
parameters, it takes 0.8 times the CPU time.
"""

import os
import sys
import time

import gymnasium
import jax
import mujoco
import numpy as np
from gymnasium.envs.mujoco import half_cheetah_v5
from jax import numpy as jnp
from mujoco import mjx

import ees_mpi

GENERATIONS, STEPS = map(int, sys.argv[1:3] or (20, 100))
BATCH, SKIP, LAYERS = 16, 5, (17, 16, 6)  # individuals at once, physics steps per action, sizes of the network
SPLIT = (LAYERS[0] + 1) * LAYERS[1]
XML = os.path.join(os.path.dirname(half_cheetah_v5.__file__), "assets", "half_cheetah.xml")
MODEL = mjx.put_model(mujoco.MjModel.from_xml_path(XML))


def act(z, seen, xp=jnp):
    """Return the action of a network z [D]; the last row of a layer is its bias."""
    first, second = z[:SPLIT].reshape(-1, LAYERS[1]), z[SPLIT:].reshape(-1, LAYERS[2])
    return xp.tanh(xp.tanh(seen @ first[:-1] + first[-1]) @ second[:-1] + second[-1])


def rollout(z):
    """Return the final x [1] of a network."""

    def step(data, _):
        data = data.replace(ctrl=act(z, jnp.concatenate([data.qpos[1:], data.qvel])))
        return jax.lax.fori_loop(0, SKIP, lambda _, data: mjx.step(MODEL, data), data), None

    return jax.lax.scan(step, mjx.make_data(MODEL), length=STEPS)[0].qpos[:1]


@jax.jit
def behaviors(noise, drawn):
    """Return the final x [n, 1] of the individuals of a draw."""

    def one(individual):
        parent, offset, sign = individual
        row = jax.lax.dynamic_slice(noise, (offset,), (drawn.means.shape[1],))
        return rollout(drawn.means[parent] + sign * drawn.std * row)

    return jax.lax.map(one, (drawn.parent, drawn.offset, drawn.sign), batch_size=BATCH)


def in_gymnasium(rows):
    """Return the final x [n, 1] of networks, one after the other."""
    env, found = gymnasium.make("HalfCheetah-v5", reset_noise_scale=0.0).unwrapped, []
    for z in rows:
        seen, _ = env.reset()
        for _ in range(STEPS):
            seen, *_ = env.step(act(z, seen, np))
        found.append(env.data.qpos[:1].copy())
    return np.array(found)


mean = np.zeros(SPLIT + (LAYERS[1] + 1) * LAYERS[2])
with ees_mpi.Strategy(mean, size=4 * BATCH, std=0.3, seed=0) as es:
    noise = jnp.asarray(es.noise)
    for generation in range(GENERATIONS):
        x = jnp.asarray(es.gather(behaviors(noise, es.draw(chunk=BATCH))))  # of all ranks [N, 1]
        es.tell(weights=jax.jit(ees_mpi.maxvar_weights)(x))
        print(f"generation {generation}: variance of x {x.var():.3f}")
    rows = next(es.ask(chunk=BATCH))
print(es.state.digest().hex())
for name, run in {"MJX": jax.jit(jax.vmap(rollout)), "Gymnasium": in_gymnasium}.items() if sys.argv[3:] else ():
    start = time.process_time()
    found = np.asarray(run(rows))
    speed = len(rows) * STEPS / (time.process_time() - start)
    print(f"{name}: {speed:.0f} steps per CPU second, mean |x| {np.abs(found).mean():.3f}")
