"""What a rank keeps when others die: all that holds for the ranks that are left, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ees_mpi.config import Config
from ees_mpi.errors import RanksLost, RunFileError
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Outcome
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import open_run
from ees_mpi.tasks import Evaluator
from ees_mpi.training import pool


@dataclass
class Kept:
    """The run that all ranks agreed on, what this rank made for it, and what it evaluated before ranks were lost."""

    path: Path | None = None
    run_id: str = ""
    config: Config | None = None
    _evaluator: Evaluator | None = None
    _noise: NoiseTable | None = None
    _generation: int = -1
    _outcomes: Sequence[Outcome] = ()

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
        self._generation, self._outcomes = lost.generation, lost.outcomes

    def known(self, config: Config, ranks: Ranks, generation: int) -> dict[int, Outcome]:
        """Return, the same on every rank, what the ranks that are left had evaluated of a generation."""
        # Some may have seen its commit, and be further on: the run file decided where to go on.
        return pool(config, ranks, self._outcomes if self._generation == generation else ())

    def evaluator(self, config: Config) -> Evaluator:
        """Open the task, once."""
        if self._evaluator is None:
            self._evaluator = config.task.open(config.run.seed)
        return self._evaluator

    def noise(self, config: Config, ranks: Ranks) -> NoiseTable:
        """Make the noise table, or keep it: its memory outlives the rank that made it, once all have it."""
        noise, self._noise = self._noise, None
        if ranks.any(noise is None) or noise is None:
            noise = None  # its memory goes before the new one's comes
            noise = NoiseTable(config.noise_seed, config.noise.size, ranks)
        self._noise = noise
        return noise

    def close(self) -> None:
        """Close the task."""
        if self._evaluator is not None:
            self._evaluator.close()
