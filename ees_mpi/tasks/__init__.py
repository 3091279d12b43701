"""Tasks: what turns parameters into an outcome. A task is a config section; see `contracts.Task`."""

from ees_mpi.registry import Family

TASKS = Family(
    "task",
    {
        "interference": "ees_mpi.tasks.interference:Interference",
        "cheetah": "ees_mpi.tasks.bullet.task:Cheetah",
        "ant": "ees_mpi.tasks.bullet.task:Ant",
        "gymnasium": "ees_mpi.tasks.gymnasium.task:Gymnasium",
        "custom": "ees_mpi.tasks.custom:Custom",
    },
)
