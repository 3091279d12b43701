"""The packages of the wheel: those of the folder ees_mpi, and jobs as ees_mpi.jobs. The rest is in pyproject.toml."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["ees_mpi*"]), "ees_mpi.jobs"])
