"""Objectives that version 0.2.0 had: only their settings are left, so that its run files can be read."""

from ees_mpi.contracts import Objective


class NoveltyReward(Objective, frozen=True):
    """NSR-ES and NSRA-ES; now `jobs/examples/relatives/nsr.py`."""

    share: float = 0.5
    change: float = 0.0
    patience: int = 50
    neighbors: int = 10
    archive_size: int = 5000

    headline = "fitness_mean"
    uses_fitness = True
    retired = True


class QualityEvolvability(Objective, frozen=True):
    """Quality-Evolvability ES; now `jobs/examples/relatives/quality.py`."""

    headline = "fitness_mean"
    uses_fitness = True
    retired = True
