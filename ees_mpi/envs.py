"""Registers our environments with Gymnasium when it is imported; pybullet loads when an environment is made."""

import ees_mpi.tasks.bullet.registration  # noqa: F401
