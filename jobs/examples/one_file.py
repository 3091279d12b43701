"""Evolvability ES on two screens: the whole algorithm in numpy, without ees_mpi.

    python jobs/examples/one_file.py [maxent|maxvar]

A small network steers a point on a plane for 20 steps. Evolution does not look for a network that reaches some goal. It
looks for one whose random mutations end in places as different from each other as possible. One generation is:

    1. draw N mutations of the network, in pairs with opposite signs;
    2. let each of them steer the point, and note where it ends: its behaviour;
    3. turn the N behaviours into N weights: large where a mutation adds to the variety;
    4. move the network along the mutations times their weights.

The package adds MPI, robots, run files and checks. At these sizes it computes the same bits, which a test compares.
Gajewski, Clune, Stanley and Lehman (2019), "Evolvability ES", GECCO.
"""

import hashlib
import sys

import numpy as np

N, STD = 200, 0.1  # the mutations of a generation, and their standard deviation
RATE, BETA1, BETA2, EPSILON = 0.01, 0.9, 0.999, 1e-8  # of Adam
SHAPES = [(2, 16), (16,), (16, 2), (2,)]  # of the network: weights and biases of two layers
D = sum(np.prod(shape) for shape in SHAPES)
SEED, TABLE = 0, 100_000


def stream(purpose, counter=0):
    """Return a random generator that depends on its name only: every process can make the same numbers."""
    key = hashlib.blake2b(f"{SEED}/{purpose}/{counter}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(key, "<u8")))


# Every mutation is a slice of one table of random numbers. So a mutation is known by one number, its offset; many
# processes with the same table need not send each other any mutation.
noise = stream("noise").standard_normal(TABLE, dtype=np.float32)


def draw(generation):
    """Return where the noise of each pair of mutations begins in the table [N / 2]."""
    return stream("draw", generation).integers(0, TABLE - D + 1, N // 2)


def mutations(mean, offsets):
    """Return the networks mean + STD noise and mean - STD noise of each pair [N, D]."""
    rows = STD * np.stack([noise[offset : offset + D] for offset in offsets])
    return np.stack([mean + rows, mean - rows], axis=1).reshape(N, D)


def behaviors(networks):
    """Return where the point ends with each of the networks [n, 2]: this is the task."""
    cuts = np.cumsum([np.prod(shape) for shape in SHAPES])[:-1]
    split = np.split(networks.astype(np.float64), cuts, axis=1)
    w1, b1, w2, b2 = (part.reshape(-1, *shape) for part, shape in zip(split, SHAPES, strict=True))
    place = np.zeros((len(networks), 2))
    for _ in range(20):
        hidden = np.tanh(np.einsum("ni,nih->nh", place, w1) + b1)
        place = place + 0.2 * np.tanh(np.einsum("nh,nho->no", hidden, w2) + b2)
    return place


def whitened(behavior):
    """Return the behaviours with mean 0 and standard deviation 1, so that units do not matter."""
    centred = behavior - behavior.mean(axis=0)
    return centred / centred.std(axis=0)


def maxvar(b):
    """Return the weights that increase the variance: the squared distance from the mean behaviour."""
    return np.square(b).sum(axis=1) / N


def width(b):
    """Return the distance below which two behaviours count as similar, by Scott's rule; outliers hardly change it."""
    low, high = np.percentile(b, (25, 75), axis=0)
    return N ** (-1 / (2 + 4)) * min(1, ((high - low) / 1.349).min())


def maxent(b):
    """Return the weights that increase the entropy, -mean(log p), with a kernel estimate of the density p.

    A mutation counts for its own density, log p_i, and because it raises the density p_k of its neighbours.
    """
    x = (b * (1 / (width(b) * np.sqrt(2)))).astype(np.float32)
    kernel = np.exp(-np.square(x[:, None] - x).sum(axis=2))  # [N, N]; the package computes it in small blocks
    p = np.vecdot(kernel, np.ones(N, np.float32)).astype(np.float64) / N
    inner = np.vecdot(kernel, (1 / p).astype(np.float32)).astype(np.float64) / N
    return -(np.log(p) + inner) / N


def gradient(weights, offsets):
    """Return sum_i w_i grad log p(z_i) [D]: the noise of each pair times the difference of its two weights."""
    centred = weights - weights.mean()
    factors = (centred[0::2] / STD - centred[1::2] / STD).astype(np.float32)
    total = np.zeros(D)
    for first in range(0, N // 2, 64):  # single precision adds up to 64 rows; more would lose digits
        rows = np.stack([noise[offset : offset + D] for offset in offsets[first : first + 64]])
        total += (factors[first : first + 64, None] * rows).sum(axis=0)
    return total


def adam(mean, slope, first, second, steps):
    """Return the mean after a step uphill, and the running means of the slope and of its square."""
    first = BETA1 * first + (1 - BETA1) * slope
    second = BETA2 * second + (1 - BETA2) * slope * slope
    scale = np.sqrt(second) / np.sqrt(1 - BETA2**steps) + EPSILON
    return (mean + RATE / (1 - BETA1**steps) * (first / scale)).astype(np.float32), first, second


def train(objective, generations):
    """Yield the mean of each generation, and the behaviours of its mutations."""
    mean, first, second = np.zeros(D, np.float32), np.zeros(D), np.zeros(D)
    for generation in range(generations):
        offsets = draw(generation)
        behavior = behaviors(mutations(mean, offsets))
        yield mean, behavior
        slope = gradient(objective(whitened(behavior)), offsets)
        mean, first, second = adam(mean, slope, first, second, generation + 1)


def picture(places):
    """Return a drawing of places on the plane, from -4 to 4."""
    rows, columns = np.clip((places[:, ::-1] + 4) / 8 * [11, 33], 0, [10, 32]).astype(int).T
    canvas = np.full((11, 33), ".")
    canvas[10 - rows, columns] = "o"
    return "\n".join(map("".join, canvas))


if __name__ == "__main__":
    objective = {"maxent": maxent, "maxvar": maxvar}[sys.argv[1] if sys.argv[1:] else "maxent"]
    for generation, (_, behavior) in enumerate(train(objective, 101)):
        if generation % 50 == 0:
            print(f"\ngeneration {generation}: where {N} mutations of the network end\n{picture(behavior)}")
