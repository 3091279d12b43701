"""Your own simulator in JAX, by ask and tell: MuJoCo's MJX rolls out all individuals of a chunk at once (jit, vmap).

    pip install jax mujoco-mjx 'gymnasium[mujoco]' && python jobs/examples/jax_simulator.py [GENERATIONS STEPS [time]]

The robot is Gymnasium's half cheetah; its behaviour is the final x. Chunks have the same rows for any number of ranks,
so `mpirun -n 3 python ...` gives the same bits. "time" compares the speed with a loop over Gymnasium's own environment.
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
CHUNK, SKIP, LAYERS = 16, 5, (17, 16, 6)  # individuals at once, physics steps per action, sizes of the network
SPLIT = (LAYERS[0] + 1) * LAYERS[1]
XML = os.path.join(os.path.dirname(half_cheetah_v5.__file__), "assets", "half_cheetah.xml")
MODEL = mjx.put_model(mujoco.MjModel.from_xml_path(XML))


def act(z, seen, xp=jnp):
    """Return the action of a network z [D]; the last row of a layer is its bias."""
    first, second = z[:SPLIT].reshape(-1, LAYERS[1]), z[SPLIT:].reshape(-1, LAYERS[2])
    return xp.tanh(xp.tanh(seen @ first[:-1] + first[-1]) @ second[:-1] + second[-1])


@jax.jit
@jax.vmap
def rollout(z):
    """Return the final x [1] of a network."""

    def step(data, _):
        data = data.replace(ctrl=act(z, jnp.concatenate([data.qpos[1:], data.qvel])))
        return jax.lax.fori_loop(0, SKIP, lambda _, data: mjx.step(MODEL, data), data), None

    return jax.lax.scan(step, mjx.make_data(MODEL), length=STEPS)[0].qpos[:1]


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
with ees_mpi.Strategy(mean, "maxvar", size=4 * CHUNK, std=0.3, seed=0) as es:
    for generation in range(GENERATIONS):
        es.tell([np.asarray(rollout(z)) for z in es.ask(chunk=CHUNK)])
        print(f"generation {generation}: variance of x {es.metrics['behavior_variance']:.3f}")
    rows = next(es.ask(chunk=CHUNK))
print(es.state.digest().hex())
for name, run in {"MJX": rollout, "Gymnasium": in_gymnasium}.items() if sys.argv[3:] else ():
    start = time.process_time()
    found = np.asarray(run(rows))
    speed = len(rows) * STEPS / (time.process_time() - start)
    print(f"{name}: {speed:.0f} steps per CPU second, mean |x| {np.abs(found).mean():.3f}")
