"""Importing this module tells Gymnasium of the project's environments; pybullet loads when one is made."""

import gymnasium

EPISODE_STEPS = 1000

for _name in ("HalfCheetahBullet", "AntBullet"):
    gymnasium.register(
        id=f"ees_mpi/{_name}-v0",
        entry_point=f"ees_mpi.tasks.bullet.environments:{_name}Env",
        max_episode_steps=EPISODE_STEPS,
    )
