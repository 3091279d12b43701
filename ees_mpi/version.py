"""The version, alone in a module so that building the package imports nothing else."""

__version__ = "0.3.0"
