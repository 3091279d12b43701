"""Recovery from lost ranks: everything that a rank keeps for the ranks that are left.

Under `mpirun --with-ft ulfm` a gather raises `RanksLost` when a rank has died. The ranks that are left then agree on who
is there (`Ranks.recover`), the first of them reopens the run file at the last commit, and the results that they have
already evaluated of the present generation are not evaluated again.
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
    _job: Job[Any] | None = None
    _evaluated: Evaluated[Any] = field(default_factory=Evaluated)

    def prepare(self) -> PreparedRun:
        """Prepare the run on rank 0: as the command asks at first, from the run file after ranks were lost."""
        if self.path and self._begun(self.path):
            return reopen(self.path, None, force=True, config=self.config)  # its last writer is known to be dead
        return self.request.prepare()

    def _begun(self, path: Path) -> bool:
        """Return whether the run file of this very run exists: the rank that created it may be dead."""
        try:
            with open_run(path) as run:
                return run.run_id == self.run_id
        except RunFileError:
            return False

    def job(self, config: Config, ranks: Ranks) -> Job[Any]:
        """Return the job with its noise table; it is made again if a rank died before all ranks had theirs."""
        if ranks.any(self._job is None):
            self.close()
            self._job = open_job(config, ranks)
        elif self._job:
            self._job.rejoin()
        if self._job is None:
            raise RuntimeError("no job was opened")
        return self._job

    def known(self, job: Job[Any], generation: int, partial: Mapping[str, Any]) -> dict[int, Any]:
        """Return the results of a generation that need no evaluation: from the run file, and of all ranks."""
        return {**(job.restore(partial) if partial else {}), **job.pool(self._evaluated.of(generation))}

    def keep(self, ranks: Ranks) -> str:
        """Keep this rank's results after ranks were lost, and continue with the others; return who was lost."""
        if self._job and self._job.evaluated.results:
            self._evaluated = self._job.evaluated
        return ranks.recover()

    def close(self) -> None:
        """Release the job."""
        job, self._job = self._job, None
        if job is not None:
            job.close()
