"""Objectives: rules that turn the outcomes of a generation into one weight per individual.

A weight is the derivative of the objective with respect to the individual's likelihood ratio; see each module.
"""

from ees_mpi.registry import Family

OBJECTIVES = Family(
    "objective",
    {
        "fitness": "ees_mpi.strategy.objectives.fitness:Fitness",
        "maxvar": "ees_mpi.strategy.objectives.maxvar:MaxVar",
        "maxent": "ees_mpi.strategy.objectives.maxent:MaxEnt",
        "repeatable": "ees_mpi.strategy.objectives.repeatable:Repeatable",
        "novelty": "ees_mpi.strategy.objectives.novelty:Novelty",
        "blend": "ees_mpi.strategy.objectives.blend:Blend",
        "custom": "ees_mpi.strategy.objectives.custom:CustomObjective",
        "weights": "ees_mpi.strategy.objectives.custom:WeightsPlugin",
    },
)
