"""Optimizers: rules that move the learned arrays of a population along their gradients."""

from ees_mpi.registry import Family

OPTIMIZERS = Family(
    "optimizer",
    {
        "ascent": "ees_mpi.optimizers.ascent:Ascent",
        "adam": "ees_mpi.optimizers.adam:Adam",
        "custom": "ees_mpi.optimizers.custom:CustomOptimizer",
    },
    default="adam",
)
