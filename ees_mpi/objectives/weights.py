"""An objective that a user writes in numpy: a function that returns one number for each individual.

    f = function(behaviors, fitness, **settings)        J = sum_i r_i f_i / N,    w_i = f_i / N

behaviors: [N, B], whitened per component; fitness: [N]; all float64, of the N valid rollouts. Rank 0 computes the
weights, as for `objectives.custom`, whose functions need torch.
"""

import numpy as np

from ees_mpi.errors import PluginError
from ees_mpi.objectives.custom import KEY, CustomObjective
from ees_mpi.outcomes import Floats
from ees_mpi.registry.plugins import calling, function


class WeightsPlugin(CustomObjective, frozen=True):
    """Weights each individual by the number that a numpy function of a user returns for it."""

    uses_torch = False

    def _evaluate(self, behaviors: Floats, fitness: Floats) -> tuple[float, Floats]:
        """Return J and the weights [N]."""
        weigh, code = function(self.function, KEY), f"{KEY} {self.function}"
        with calling(code, f"{self.label}()"):
            given = np.asarray(weigh(behaviors.copy(), fitness.copy(), **self.settings))
        if given.shape != fitness.shape or given.dtype.kind not in "biuf":
            expected = f"expected {len(fitness)} numbers, one for each individual"
            raise PluginError(f"{code}: {expected}; got an array of shape {given.shape}, of {given.dtype}")
        weights = given.astype(np.float64) / len(given)
        if wrong := int((~np.isfinite(weights)).sum()):
            raise PluginError(f"{code}: its weights are not finite for {wrong} of {len(weights)} individuals")
        if not np.isfinite(value := float(weights.sum())):
            raise PluginError(f"{code}: expected weights with a finite sum, got {value}")
        return value, weights
