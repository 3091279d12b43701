"""Registers MAML: `config.METHODS` imports this module if a config says `method = "maml"`."""

from ees_mpi.maml.settings import Maml as METHOD
from ees_mpi.populations import POPULATIONS

__all__ = ["METHOD"]

POPULATIONS.add("tasks", "ees_mpi.maml.settings:Tasks")
