"""Registers our environments with Gymnasium when it is imported; pybullet loads when an environment is made."""

from ees_mpi.errors import optional

gymnasium = optional("gymnasium", "ees_mpi.envs needs Gymnasium: pip install 'ees_mpi[bullet]'")
EPISODE_STEPS = 1000

for _name in ("HalfCheetahBullet", "AntBullet"):
    _place = f"ees_mpi.tasks.bullet.environments:{_name}Env"
    gymnasium.register(f"ees_mpi/{_name}-v0", _place, max_episode_steps=EPISODE_STEPS)
