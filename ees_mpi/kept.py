"""What a rank keeps when others die: all that holds for the ranks that are left, too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ees_mpi.config import Config
from ees_mpi.errors import RanksLost, RunFileError
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import open_run


@dataclass
class Kept:
    """The run that all ranks agreed on, what this rank made for it, and what it evaluated before ranks were lost."""

    path: Path | None = None
    run_id: str = ""
    config: Config | None = None
    _job: Any = None
    _generation: int = -1
    _done: Mapping[int, Any] = field(default_factory=dict)

    def begun(self) -> bool:
        """Tell whether the run file is there, as this very run's: the rank that made it may be gone."""
        if self.path is None:
            return False
        try:
            with open_run(self.path) as run:
                return run.run_id == self.run_id
        except RunFileError:
            return False

    def note(self, lost: RanksLost) -> None:
        """Keep what this rank had evaluated when others died."""
        if lost.done:  # a second loss, before anything was evaluated, leaves nothing new
            self._generation, self._done = lost.generation, lost.done

    def done(self, generation: int) -> Mapping[int, Any]:
        """Return what this rank had evaluated of a generation; nothing, where its commit was the last thing done."""
        return self._done if self._generation == generation else {}

    def job(self, ranks: Ranks, make: Callable[[], Any]) -> Any:
        """Return what generations are made with: kept, noise table and all, unless a rank died before all had it."""
        if ranks.any(self._job is None):
            self.close()
            self._job = make()
        return self._job

    def close(self) -> None:
        """Let go of what the task holds."""
        job, self._job = self._job, None
        if job is not None:
            job.close()
