"""K isotropic Gaussians with equal weights: species that share one population.

Gajewski et al. 2019, section 5.4.

    z_i = mu_p + std s_i eps_i                        p: the component that individual i was drawn from
    rho_ik = p(k | z_i),  log rho_ik = a_ik - logsumexp_k a_ik
    a_ik = -( |mu_p - mu_k|^2 + 2 std s_i eps_i . (mu_p - mu_k) ) / (2 std^2)
    gradient_k = sum_i w_i rho_ik (z_i - mu_k) / std^2

The term |std eps_i|^2 is the same for all k and cancels. So no large numbers are subtracted from each other, even in
75,000 dimensions. The two individuals of an antithetic pair belong to the same component.
"""

from typing import Annotated

import numpy as np

from ees_mpi.arrays import Arrays, Floats
from ees_mpi.generation import Draw
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key
from ees_mpi.strategy.populations.normal import Normal
from ees_mpi.strategy.populations.weighted import weighted_noise

MEANS = "K: the number of means. If a task begins them all at one place, they are drawn around it."
MAX_COMPONENTS = 1000  # components: the time of an update grows with their square


class Mixture(Normal, frozen=True, kw_only=True):
    """`components` Gaussians of standard deviation `std`; each individual is drawn from a random one of them."""

    components: Annotated[int, key(MEANS, "means", ge=1, le=MAX_COMPONENTS)] = 2

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the noise offset and the component of each individual; the two individuals of a pair share both."""
        drawn = super().draw(generator, noise, parameters)
        pairs = self.size // 2 if self.antithetic else self.size
        parent = generator.integers(0, self.components, pairs).astype(np.int32)
        return Draw(drawn.offset, drawn.sign, np.repeat(parent, 2) if self.antithetic else parent)

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of the means [K, D]."""
        mu, std = learned["mean"].astype(np.float64), self.stds(learned, draw)
        shared = weights[:, None] * self.responsibilities(draw, learned, noise, ranks)  # [N, K]
        gradient = np.zeros(mu.shape)
        for p in np.unique(draw.parent):
            total = np.ascontiguousarray(shared[draw.parent == p].T).sum(axis=1)  # [K]
            gradient += total[:, None] * (mu[p] - mu) / std**2
        for k in range(self.components):
            coefficient, offset = self.noise_terms(shared[:, k], draw)
            used = coefficient != 0  # if species are far apart, most rows matter for one of them only
            gradient[k] += weighted_noise(coefficient[used], offset[used], mu.shape[1], noise, ranks)
        return {"mean": gradient}

    def responsibilities(self, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Floats:
        """Return rho [N, K]."""
        mu, std = learned["mean"].astype(np.float64), self.stds(learned, draw)
        apart = np.array([np.square(one - mu).sum(axis=1) for one in mu])  # [K, K], squared
        dots = self._dots(draw, mu, noise, ranks)
        a = -(apart[draw.parent] + 2 * std * draw.sign[:, None] * dots) / (2 * std**2)
        a -= a.max(axis=1, keepdims=True)
        odds = np.exp(a)
        return odds / odds.sum(axis=1, keepdims=True)

    def _dots(self, draw: Draw, mu: Floats, noise: Noise, ranks: Ranks) -> Floats:
        """Return eps_i . (mu_p - mu_k) [N, K]. Ranks compute whole rows, so the bits do not depend on their number."""
        step = 2 if self.antithetic else 1
        offset, parent = draw.offset[::step], draw.parent[::step]
        shares = ranks.cuts(len(offset))
        start, stop = shares[ranks.rank : ranks.rank + 2].tolist()
        mine, here = np.zeros((stop - start, self.components)), parent[start:stop]
        for p in np.unique(here):
            differences = mu[p] - mu  # [K, D]
            for row in np.flatnonzero(here == p):
                mine[row] = differences @ noise.row(offset[start + row], mu.shape[1]).astype(np.float64)
        return np.repeat(ranks.allgather(mine, np.diff(shares)), step, axis=0)
