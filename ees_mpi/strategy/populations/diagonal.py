"""One Gaussian around one mean with a standard deviation for each parameter, which is learned together with the mean.

Gajewski et al. 2019, section 3 (the distribution may have any learned parameters). The separable form of Wierstra et
al. 2014, Natural Evolution Strategies (JMLR 15), learns the logarithm of each std, too, but by the natural gradient.
Here it is the plain gradient: without Adam, a step of the mean is proportional to 1 / std.

    z_i = mean + std s_i eps_i                            std [D]; s_i = +1, -1: the antithetic sign
    gradient of mean    = sum_i w_i s_i eps_i / std
    gradient of log std = sum_i w_i (eps_i^2 - 1)

The learned arrays are `mean` and `std`, both [1, D]. The optimizer takes the step of `std` in its logarithm. After
the step it is held between `population.std` / 1000 and `population.std` * 1000.
"""

import msgspec
import numpy as np

from ees_mpi.arrays import Arrays, Floats, Singles
from ees_mpi.generation import Draw
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.populations.normal import Normal
from ees_mpi.strategy.populations.weighted import weighted_noise

RANGE = 1000.0  # of a std: from the first one / RANGE to the first one * RANGE


class Diagonal(Normal, frozen=True, kw_only=True):
    """Draws `size` individuals around one mean; every parameter has its own learned std, which starts at `std`."""

    isotropic = False
    learns_std = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decays:
            raise ValueError('population.std_decay: a "diagonal" population learns its std; leave it out')

    @property
    def _limits(self) -> tuple[float, float]:
        return self.std / RANGE, min(self.std * RANGE, 1e30)

    def learned(self, means: Singles) -> Arrays:
        """Return the learned arrays before the first generation: the mean and the std, both [1, D]."""
        return {"mean": means, "std": np.full(means.shape, self.std, np.float32)}

    def clip(self, learned: Arrays) -> Arrays:
        """Return the learned arrays with every std between floor and ceiling: momentum would carry it on."""
        low, high = (np.float32(limit) for limit in self._limits)
        return {**learned, "std": np.clip(learned["std"], low, high)}

    def stds(self, learned: Arrays, draw: Draw) -> Singles:
        """Return the std [D] of each parameter as individuals are drawn with it: between floor and ceiling."""
        return np.asarray(self.clip(learned)["std"][0])

    def offspring(self, count: int, std: float | None) -> Normal:
        """Return the population of `count` independent offspring; with `std`: one std for all parameters."""
        if std is not None:
            return Normal(size=count, std=std, antithetic=False)
        return msgspec.structs.replace(self, size=count, antithetic=False)

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradients of the mean and of the logarithm of the std, both [1, D]."""
        size, std = learned["mean"].shape[1], self.stds(learned, draw).astype(np.float64)
        signed, offset = self._rows(weights * draw.sign, draw)
        unsigned, _ = self._rows(weights, draw)
        mean = weighted_noise(signed, offset, size, noise, ranks) / std
        log_std = weighted_noise(unsigned, offset, size, noise, ranks, squared=True)
        return {"mean": mean[None], "std": self._inward(log_std, learned["std"][0])[None]}

    def _inward(self, slope: Floats, std: Singles) -> Floats:
        """Return the gradient of the log std without the entries that lead a std beyond its floor or ceiling."""
        low, high = (np.float32(limit) for limit in self._limits)
        return np.where(((std <= low) & (slope < 0)) | ((std >= high) & (slope > 0)), 0.0, slope)
