"""The offspring of one generation, or of a sample, as the analysis sees them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.store.reader import Run


@dataclass(frozen=True)
class Cloud:
    """What the offspring of one generation did; n of them are valid."""

    outcomes: Outcomes
    place: Floats  # [n, B]: where each ended
    parent: NDArray[np.int32]  # [n]: which mean each perturbs
    components: int

    @property
    def distance(self) -> Floats:
        """Their distances [n] from the origin."""
        return np.asarray(np.sqrt(np.square(self.place).sum(axis=1)))


def cloud(run: Run, generation: int | None = None) -> Cloud:
    """Read one generation of a run, the last where None; only that one is read."""
    g = which(run, generation)
    valid = _valid(run, g)
    if not valid.any():
        raise RunFileError(f"{run.path}: generation {g} has no finite behavior")
    behavior = np.asarray(run["behavior"][g], np.float64)
    outcomes = Outcomes(behavior, run["fitness"][g], run["length"][g].astype(np.int64), valid, np.zeros((0, 1)))
    place = behavior[valid][:, -axes(run) :]
    return Cloud(outcomes, place, run["parent"][g][valid], run["mean"].shape[1])


def has_cloud(run: Run, generation: int) -> bool:
    """Tell whether any offspring of a generation is valid; where none is, curves and tables have a gap."""
    return bool(_valid(run, generation).any())


def _valid(run: Run, generation: int) -> NDArray[np.bool_]:
    found = np.asarray(run["valid"][generation], bool) & np.isfinite(run["behavior"][generation]).all(axis=1)
    return np.asarray(found)


def which(run: Run, generation: int | None) -> int:
    """Return the number of a generation that is there, or say that it is not."""
    check_offspring(run)
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    if generation is None:
        return run.generations - 1
    if not 0 <= generation < run.generations:
        raise ConfigError(f"generation {generation}: {run.path} has 0 to {run.generations - 1}")
    return generation


def check_offspring(run: Run) -> None:
    """Refuse a run whose rows are not offspring: MAML's are tasks."""
    if run.config.learns_tasks:
        raise RunFileError(
            f"{run.path} was trained by MAML, so its rows are no offspring; "
            f"make some first: ees-mpi sample {run.path} --count 1000"
        )


def check_one_task(runs: Sequence[Run]) -> None:
    """Refuse to show robots together that are not alike."""
    tasks = {(type(run.config.task).__name__, getattr(run.config.task, "env", "")): run for run in runs}
    if len(tasks) > 1:
        one, other, *_ = tasks.values()
        raise RunFileError(f"{one.path} and {other.path} are of different tasks; draw each by itself")


def check_runs(runs: Sequence[Run]) -> None:
    """Refuse samples where generations are shown: theirs are not of a training."""
    for run in runs:
        if run.attributes.get("kind") == "sample":
            raise RunFileError(f"{run.path} is a sample, which has no training to show over generations; give its run")


def axes(run: Run) -> int:
    """Return how many of the last behaviour numbers say where one ended: all, but for a robot's way points."""
    return int(getattr(run.config.task, "axes", run["behavior"].shape[2]))


def source(run: Run, generation: int) -> tuple[str, int]:
    """Return the run and generation that a row is of: of a sample, those that it was drawn of."""
    if run.attributes.get("kind") != "sample":
        return run.run_id, generation
    note = json.loads(str(run.attributes.get("started_from") or "{}"))
    return str(note.get("run_id", run.run_id)), int(note.get("generation", generation))
