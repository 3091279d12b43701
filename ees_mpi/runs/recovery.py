"""Recovery from lost ranks.

Under `mpirun --with-ft ulfm` an allgather raises `RanksLost` if a rank has died. The ranks that are left then reconnect
(`Ranks.recover`), and the first of them reopens the run file at the last commit. Results of the current generation that
they have already evaluated are not evaluated again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.generation.results import Evaluated
from ees_mpi.ranks import Ranks
from ees_mpi.runs.start import PreparedRun, Request, reopen
from ees_mpi.store.reader import open_run
from ees_mpi.training import Job, open_job


@dataclass
class Recovery:
    """The run that all ranks agreed on, this rank's job, and the results that it has evaluated."""

    request: Request
    path: Path | None = None
    run_id: str = ""
    config: Config | None = None
    prepared: PreparedRun | None = None  # on rank 0, until it is released
    _job: Job[Any] | None = None
    _evaluated: Evaluated[Any] = field(default_factory=Evaluated)

    def prepare(self) -> PreparedRun:
        """Prepare the run on rank 0: from the options of the command, or from the run file after ranks were lost."""
        if self.path and self._begun(self.path):
            self.prepared = reopen(self.path, None, force=True, config=self.config)  # its last writer is dead
        else:
            self.prepared = self.request()
        return self.prepared

    def release(self, fold: bool = True) -> None:
        """Release the run file on rank 0; `fold`: fold its journal before."""
        prepared, self.prepared = self.prepared, None
        if prepared:
            prepared.close(fold)

    def _begun(self, path: Path) -> bool:
        """Return True if the file of this run exists; the rank that created it may be dead."""
        try:
            with open_run(path, allow_damaged_journal=True) as run:
                return run.run_id == self.run_id
        except RunFileError:
            return False

    def job(self, config: Config, ranks: Ranks) -> Job[Any]:
        """Return the job with its noise table; it is opened again if a rank died before all ranks had one."""
        missing = ranks.any(self._job is None)
        if missing or self._job is None:
            self.close()
            self._job = open_job(config, ranks)
        else:
            self._job.rejoin()
        return self._job

    def known(self, job: Job[Any], generation: int, partial: Mapping[str, Any]) -> dict[int, Any]:
        """Return the results of a generation that the run file or any rank already has."""
        return {**(job.restore(partial) if partial else {}), **job.pool(self._evaluated.of(generation))}

    def keep(self, ranks: Ranks) -> str:
        """Keep the results of this rank after ranks were lost, and reconnect; return the names of the lost ranks."""
        if self._job and self._job.evaluated.results:
            self._evaluated = self._job.evaluated
        return ranks.recover()

    def close(self) -> None:
        """Release the job."""
        job, self._job = self._job, None
        if job is not None:
            job.close()
