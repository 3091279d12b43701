"""Standard ES: maximise the mean rank of the fitness.

Salimans et al. 2017 (arXiv:1703.03864); Gajewski et al. 2019, supplement S1.2 (rank normalisation).

    J = E[f]        w_i = rank(f_i) / N,    ranks symmetric in [-0.5, 0.5]
"""

from ees_mpi.arrays import Floats
from ees_mpi.generation import Outcomes, centred_ranks
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives.base import Memory, Objective


class Fitness(Objective, frozen=True):
    """Weights each individual by the rank of its fitness."""

    climbs = "fitness_mean"
    uses_fitness = True

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        return outcomes.centred(centred_ranks(outcomes.fitness[outcomes.valid]) / outcomes.size)
