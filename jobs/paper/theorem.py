#!/usr/bin/env python3
"""A network whose mutations flip between two given functions: the construction behind the feasibility theorem.

    python jobs/paper/theorem.py      prints how often mutants flip, beside the proved bounds

Gajewski et al. 2019, supplement S6, has a sketch of the proof. `build` proves this statement by its arithmetic:

Let G and H be ReLU networks with one hidden layer on [0, 1]^n, and 0 < d1 < d2. `build` returns a fully connected ReLU
network f with five hidden layers and D weights and biases, one of them w_k, and a number e. For every perturbation xi
of all D numbers (including those that are 0) with |xi_j| < d2 for every j

    xi_k > d1   implies  |f(x) - G(x)| <= e  for all x in [0, 1]^n
    xi_k < -d1  implies  |f(x) - H(x)| <= e  for all x in [0, 1]^n

and e -> 0 when d2 -> 0 with d1 / d2 fixed. Such G and H approximate continuous g and h with any accuracy. So for
independent perturbations with distribution function F, and epsilon >= e + the error of that approximation,

    P(f is epsilon-close to g)  >=  (F(d2) - F(d1)) (F(d2) - F(-d2))^(D-1)
    P(f is epsilon-close to h)  >=  (F(-d1) - F(-d2)) (F(d2) - F(-d2))^(D-1)

The last factor is 1 if the perturbations are supported in (-d2, d2). The paper's bound lacks this factor. It considers
w_k alone, and it does not hold for every F, because the other weights can have large perturbations. There are two more
differences. The paper fixes d2 before d1; here the ratio is fixed first, because e has a part of order d2^2 / d1: the
large node K, which amplifies w_k, leaks into all of the next layer. And w_k up gives g here, and h in the sketch.

Proof. If the activations of a layer have an error of at most e_l, each node of the next layer has an error of at most
|W| e_l + d2 (sum of the activations + 1), and ReLU does not enlarge it. `build` chooses each constant such that, with
these bounds, one gate is open (exactly 0) and the other is shut (larger than the value that it must suppress).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import SimpleNamespace

import numpy as np
from scipy.stats import norm, uniform

from ees_mpi.arrays import Floats
from ees_mpi.errors import ConfigError
from ees_mpi.policies import MLP, parameter_count

Function = Callable[[Floats], Floats]  # from points [P, n] to values [P]
EPSILON = 0.2  # of the examples
RATIO = 0.2  # d1 / d2 of the examples


@dataclass(frozen=True)
class Shallow:
    """c + sum_j v_j relu(a_j x + t_j): a ReLU network with one hidden layer."""

    a: Floats  # [n, m]
    t: Floats  # [m]
    v: Floats  # [m]
    c: float

    def __call__(self, x: Floats) -> Floats:
        values: Floats = np.maximum(x @ self.a + self.t, 0) @ self.v + self.c
        return values

    @property
    def highest(self) -> Floats:
        """Return an upper bound of each hidden unit on [0, 1]^n."""
        return np.asarray(np.maximum(np.maximum(self.a, 0).sum(axis=0) + self.t, 0))

    @property
    def bounds(self) -> tuple[float, float]:
        """Return a lower and an upper bound of the network on [0, 1]^n."""
        ends = self.v * self.highest
        return self.c + float(np.minimum(ends, 0).sum()), self.c + float(np.maximum(ends, 0).sum())


@dataclass(frozen=True)
class Flipping:
    """A network that flips between two functions, with the constants for which that is proved."""

    parameters: Floats  # [D]: for each layer its weights (in, out), then its biases
    widths: tuple[int, ...]  # of the input, the hidden layers and the output
    switch: int  # the index of the parameter w_k
    d1: float
    d2: float
    error: float  # e

    def __call__(self, x: Floats) -> Floats:
        """Evaluate at points [P, n] of [0, 1]^n; ReLU does not change the points."""
        activation = x
        for weights, biases in self.layers:
            activation = np.maximum(activation, 0) @ weights + biases
        values: Floats = activation[:, 0]
        return values

    @cached_property
    def layers(self) -> list[tuple[Floats, Floats]]:
        """Return the weights and biases of each layer."""
        return [(layer[:-1], layer[-1]) for layer in MLP(self.widths).matrices(self.parameters)]

    def mutant(self, perturbation: Floats) -> "Flipping":
        """Return the network with all its weights and biases perturbed."""
        return replace(self, parameters=self.parameters + perturbation)


def _scales(g: Shallow, h: Shallow, d1: float, d2: float) -> SimpleNamespace:
    """Return the constants of the construction, chosen layer by layer; each one fits the bounds of the layers before.

    low: g - low and h - low are in [0, top], so ReLU does not change them. bias: B of the node K in layer 1.
    center: C of the node K' = C + xi_k K in layer 2. gain, step: T and Q; the nodes relu(+-T (K' - C)) and
    relu(+-T (K' - C) - Q) in layer 3 differ by 0 or about Q. lever, leak: lever times that difference, minus leak, is
    a gate in layer 4; one is exactly 0 and one is above top. shut: the weight with which a gate suppresses g or h in
    layer 5. `e` is the error bound of g and h in the present layer, and at last of f.
    """
    low = min(g.bounds[0], h.bounds[0])
    top = max(g.bounds[1], h.bounds[1]) - low or 1.0
    e = d2 * (len(g.a) + 1)  # layer 1
    units = float((g.highest + e).sum() + (h.highest + e).sum())
    doubt = d2 * (units + 1)  # the effect of all weights except w_k on K'
    bias = e + 2 * doubt / d1  # so that the effect of w_k is at least twice as large
    most = d2 * (bias + e) + doubt  # |K' - C| is between `doubt` and this
    e = max(float(np.abs(f.v).sum()) for f in (g, h)) * e + d2 * (units + bias + e + 1)  # layer 2
    noise = d2 * (2 * (top + e) + 2 * most + 1)
    step = 4 * noise  # so that the error of a difference is at most half of it
    gain = (step + noise) / doubt
    e += noise  # layer 3
    leak = d2 * (2 * (top + e) + 2 * (gain * most + noise) + 1)
    lever = (top + 2 * leak) / (step - 2 * noise)
    e += leak  # layer 4
    e += d2 * (2 * (top + e) + lever * (step + 2 * noise) + 1)  # layer 5
    shut, error = (top + e) / top, e + d2 * (top + e + 1)
    return SimpleNamespace(
        low=low, bias=bias, center=most, gain=gain, step=step, lever=lever, leak=leak, shut=shut, error=error
    )


def build(g: Shallow, h: Shallow, d1: float, d2: float) -> Flipping:
    """Build the network that flips to g if xi_k > d1 and to h if xi_k < -d1, with its error e."""
    if not 0 < d1 < d2:
        raise ConfigError(f"expected 0 < d1 < d2, got d1 = {d1} and d2 = {d2}")
    if len(g.a) != len(h.a):
        raise ConfigError(f"expected g and h of the same number of inputs, got {len(g.a)} and {len(h.a)}")
    s = _scales(g, h, d1, d2)
    inputs, first, units = len(g.a), len(g.v), len(g.v) + len(h.v)
    widths = (inputs, units + 1, 3, 6, 4, 2, 1)
    switch = (inputs + 1) * (units + 1) + units * 3 + 2  # from K, the last node of layer 1, to K'
    network = Flipping(np.zeros(parameter_count(widths)), widths, switch, d1, d2, s.error)
    (w1, b1), (w2, b2), (w3, b3), (w4, b4), (w5, _), (w6, b6) = network.layers
    w1[:, :units], b1[:] = np.hstack([g.a, h.a]), [*g.t, *h.t, s.bias]
    w2[:first, 0], w2[first:units, 1], b2[:] = g.v, h.v, [g.c - s.low, h.c - s.low, s.center]
    for w in (w3, w4, w5):
        w[0, 0] = w[1, 1] = 1  # g and h pass through
    signs = s.gain * np.array([1, 1, -1, -1])
    w3[2, 2:], b3[2:] = signs, -signs * s.center - s.step * np.array([0, 1, 0, 1])
    w4[2:4, 2] = w4[4:6, 3] = [s.lever, -s.lever]
    b4[2:] = -s.leak
    w5[2, 1] = w5[3, 0] = -s.shut  # w_k up shuts h, w_k down shuts g
    w6[:, 0], b6[:] = 1, s.low
    return network


def approximate(function: Function, units: int) -> Shallow:
    """Approximate a continuous function on [0, 1], by equal knots."""
    knots = np.linspace(0, 1, units + 1)
    values = function(knots[:, None])
    return Shallow(np.ones((1, units)), -knots[:-1], np.diff(np.diff(values) * units, prepend=0), float(values[0]))


def flipping(g: Function, h: Function, epsilon: float, ratio: float, units: int = 12) -> Flipping:
    """Build a network on [0, 1] that flips to within epsilon of g and h: d1 / d2 = ratio, and the largest proved d2.

    The approximation of g and h is checked at points, not proved.
    """
    near_g, near_h = (approximate(function, units) for function in (g, h))
    x = grid(1)
    gap = float(max(np.abs(near_g(x) - g(x)).max(), np.abs(near_h(x) - h(x)).max()))
    if gap >= epsilon:
        raise ConfigError(f"{units} units come within {gap:.3g} of the functions, not {epsilon}; take more units")
    d2 = 1.0
    while (network := build(near_g, near_h, ratio * d2, d2)).error > epsilon - gap:
        d2 *= 0.95
    return network


def grid(inputs: int, points: int = 400) -> Floats:
    """Return grid points [P, n] of [0, 1]^n, including the corners."""
    side = np.linspace(0, 1, max(2, round(points ** (1 / inputs))))
    return np.stack(np.meshgrid(*[side] * inputs, indexing="ij"), axis=-1).reshape(-1, inputs)


def count_flips(
    network: Flipping, g: Function, h: Function, epsilon: float, draw: Callable[[int], Floats], count: int
) -> tuple[int, int]:
    """Count the mutants within epsilon of g and of h; `draw` returns the perturbations [D] of one mutant."""
    x = grid(network.widths[0])
    goals = np.stack([g(x), h(x)])
    near = np.zeros(2, int)
    for _ in range(count):
        mutant = network.mutant(draw(len(network.parameters)))
        near += np.abs(mutant(x) - goals).max(axis=1) < epsilon
    return int(near[0]), int(near[1])


def bounds(network: Flipping, cdf: Callable[[float], float]) -> tuple[float, float]:
    """Return the proved lower bounds of P(close to g) and P(close to h) for a distribution function."""
    d1, d2 = network.d1, network.d2
    others = (cdf(d2) - cdf(-d2)) ** (len(network.parameters) - 1)
    return (cdf(d2) - cdf(d1)) * others, (cdf(-d1) - cdf(-d2)) * others


def main(count: int = 2000) -> None:
    """Print how often mutants flip between a wave and a tent, beside the proved bound and the paper's, of w_k alone."""

    def wave(x: Floats) -> Floats:
        return np.sin(2 * np.pi * x[:, 0])

    def tent(x: Floats) -> Floats:
        return 1 - 2 * np.abs(x[:, 0] - 0.3)

    network, generator = flipping(wave, tent, EPSILON, RATIO), np.random.default_rng(0)
    d1, d2 = network.d1, network.d2
    kinds = {"uniform in (-d2, d2)": uniform(-d2, 2 * d2)}
    kinds |= {f"Gaussian, sd d2 / {share}": norm(0, d2 / share) for share in (4, 3, 2)}
    print(f"{'perturbations':22} to  measured    proved  of w_k alone")
    for kind, each in kinds.items():
        flips = count_flips(network, wave, tent, EPSILON, partial(each.rvs, random_state=generator), count)
        for to, seen, proved in zip("gh", flips, bounds(network, each.cdf), strict=True):
            print(f"{kind:22} {to:2} {seen / count:9.3f} {proved:9.2g} {each.cdf(d2) - each.cdf(d1):13.3f}")


if __name__ == "__main__":
    main()
