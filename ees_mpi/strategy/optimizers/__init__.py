"""Optimizers: rules that move the learned arrays of a population along their gradients."""

from ees_mpi.registry import Family

OPTIMIZERS = Family(
    "optimizer",
    {
        "ascent": "ees_mpi.strategy.optimizers.ascent:Ascent",
        "adam": "ees_mpi.strategy.optimizers.adam:Adam",
        "custom": "ees_mpi.strategy.optimizers.custom:CustomOptimizer",
    },
    default="adam",
)
