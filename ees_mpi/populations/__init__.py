"""Populations: rules that draw individuals around means, and turn N weights into a gradient."""

from ees_mpi.registry import Family

POPULATIONS = Family(
    "population",
    {
        "normal": "ees_mpi.populations.normal:Normal",
        "mixture": "ees_mpi.populations.mixture:Mixture",
        "diagonal": "ees_mpi.populations.diagonal:Diagonal",
        "tasks": "ees_mpi.populations.maml_tasks:MamlTasks",
        "custom": "ees_mpi.populations.custom:CustomPopulation",
    },
    default="normal",
)
