"""Tasks: they turn parameters into outcomes. A task is a section of the config; see `tasks.base.Task`."""

from ees_mpi.registry import Family

TASKS = Family(
    "task",
    {
        "interference": "ees_mpi.tasks.interference:Interference",
        "cheetah": "ees_mpi.tasks.paper_robots:Cheetah",
        "ant": "ees_mpi.tasks.paper_robots:Ant",
        "mujoco": "ees_mpi.tasks.mujoco.task:Mujoco",
        "gymnasium": "ees_mpi.tasks.gymnasium.task:Gymnasium",
        "custom": "ees_mpi.tasks.own:CustomTask",
        "function": "ees_mpi.tasks.own:Function",
        "own_loop": "ees_mpi.tasks.own:OwnLoop",
    },
)
