"""Populations: rules that draw individuals around means, and turn N weights into a gradient."""

from ees_mpi.registry import Family

POPULATIONS = Family(
    "population",
    {
        "normal": "ees_mpi.strategy.populations.normal:Normal",
        "mixture": "ees_mpi.strategy.populations.mixture:Mixture",
        "diagonal": "ees_mpi.strategy.populations.diagonal:Diagonal",
        "tasks": "ees_mpi.strategy.populations.maml_tasks:MamlTasks",
        "custom": "ees_mpi.strategy.populations.custom:CustomPopulation",
    },
    default="normal",
)
