"""What a simulator on a device gains from `es.draw()` over `es.ask()`: the time and the memory of one generation.

    python jobs/examples/ask_or_draw.py torch|jax [N HIDDEN]        needs torch, or jax

Networks with two hidden layers (with HIDDEN = 262: 75,200 parameters) steer a linear system for five steps. "ask" makes
the individuals in numpy, 64 at a time, and copies them to the device. "draw" makes them there from slices of the noise
table, and computes the weights of MaxEnt there. Each way has a process of its own, which times its second generation.

On an aarch64 CPU with two cores, which other programs used at the same time, it printed:

    N = 10,000, D = 75,200
    jax   ask     3.4 CPU s before tell    1.6 in tell   0.89 GiB
    jax   draw    3.8 CPU s before tell    0.3 in tell   0.69 GiB
    torch ask     4.7 CPU s before tell    1.6 in tell   0.45 GiB
    torch draw    9.6 CPU s before tell    0.3 in tell   0.58 GiB

So on a CPU the draw takes 0.8 times the CPU time of `ask` with JAX, which fuses the steps of the weights into one, and
1.6 times with torch, which does not (2.1 times in a run with one thread). The memory is about the same: both ways hold
64 individuals at a time, while all 10,000 at once would be 3 GB.

The draw is made for a GPU, which then need not wait for the host. On an H200, in seconds of the clock:

    torch ask     1.8 s before tell    0.7 in tell   0.95 GiB
    torch draw    0.4 s before tell    0.3 in tell   1.17 GiB
    jax   ask     1.5 s before tell    0.6 in tell   4.42 GiB
    jax   draw    0.0 s before tell    0.2 in tell   4.53 GiB
"""

import itertools
import resource
import shutil
import subprocess
import sys
import time

import numpy as np

import ees_mpi

LIBRARY, N, HIDDEN = sys.argv[1], *map(int, sys.argv[2:4] or (10_000, 262))
WAY = sys.argv[4] if sys.argv[4:] else ""
BATCH, STEPS, SIZES = 64, 5, (17, HIDDEN, HIDDEN, 6)
LAYERS = [(rows + 1, columns) for rows, columns in itertools.pairwise(SIZES)]  # the last row is the bias
D = sum(rows * columns for rows, columns in LAYERS)
FIRST, PUSH = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((17,), (6, 17)))


def rollout(z, start, push, tanh):
    """Return where the system is after the last step [2], under a network z [D]."""
    seen = start
    for _ in range(STEPS):
        signal, first = seen, 0
        for rows, columns in LAYERS:
            layer = z[first : first + rows * columns].reshape(rows, columns)
            signal, first = tanh(signal @ layer[:-1] + layer[-1]), first + rows * columns
        seen = 0.9 * seen + 0.1 * signal @ push
    return seen[:2]


def with_jax(es):
    """Return the functions that make a generation, by ask and by draw."""
    import jax
    from jax import numpy as jnp

    start, push = jnp.asarray(FIRST), jnp.asarray(PUSH)
    noise = jnp.asarray(es.noise) if WAY == "draw" else None
    simulate = jax.jit(jax.vmap(lambda z: rollout(z, start, push, jnp.tanh)))

    @jax.jit
    def weights(noise, drawn):
        def one(individual):
            parent, offset, sign = individual
            row = jax.lax.dynamic_slice(noise, (offset,), (D,))
            return rollout(drawn.means[parent] + sign * drawn.std * row, start, push, jnp.tanh)

        behavior = jax.lax.map(one, (drawn.parent, drawn.offset, drawn.sign), batch_size=BATCH)
        return ees_mpi.maxent_weights(behavior)

    return simulate, lambda: weights(noise, es.draw())


def with_torch(es):
    """Return the functions that make a generation, by ask and by draw."""
    import torch

    if torch.cuda.is_available():
        torch.set_default_device("cuda")
    start, push = torch.tensor(FIRST), torch.tensor(PUSH)
    batched = torch.vmap(lambda z: rollout(z, start, push, torch.tanh))
    table = torch.tensor(es.noise) if WAY == "draw" else torch.zeros(D)
    slices = table.unfold(0, D, 1)

    def weights():
        drawn = es.draw()
        means, parents, offsets, signs = map(torch.tensor, (drawn.means, drawn.parent, drawn.offset, drawn.sign))
        found = []
        for first in range(0, N, BATCH):
            parent, offset, sign = (array[first : first + BATCH] for array in (parents, offsets, signs))
            found.append(batched(means[parent] + (sign * drawn.std)[:, None] * slices[offset]))
        return ees_mpi.maxent_weights(torch.cat(found)).cpu()

    return lambda part: batched(torch.tensor(part)).cpu(), weights


def measure():
    """Make two generations in one way; print the seconds of the second one, and the largest memory."""
    es = ees_mpi.Strategy(np.zeros(D), "maxent", size=N, std=0.02, seed=0)
    on_gpu = shutil.which("nvidia-smi")
    # On a CPU the seconds of all threads: the clock on the wall would measure other programs, too.
    clock, seconds = (time.perf_counter, "s") if on_gpu else (time.process_time, "CPU s")
    simulate, weights = {"jax": with_jax, "torch": with_torch}[LIBRARY](es)
    for _ in range(2):
        begin = clock()
        if WAY == "ask":
            told = {"behavior": [np.asarray(simulate(part)) for part in es.ask(chunk=BATCH)]}
        else:
            told = {"weights": np.asarray(weights())}
        middle = clock()
        es.tell(**told)
        end = clock()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    times = f"{middle - begin:5.1f} {seconds} before tell  {end - middle:5.1f} in tell"
    print(f"{LIBRARY:5} {WAY:4}  {times}  {peak:5.2f} GiB")


if WAY:
    measure()
else:
    print(f"N = {N:,}, D = {D:,}", flush=True)
    for way in ("ask", "draw"):
        subprocess.run([sys.executable, __file__, LIBRARY, str(N), str(HIDDEN), way], check=True)
