"""Verifying a run file: individuals rebuilt from it, evaluated again, and compared bit for bit."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ees_mpi import machine
from ees_mpi.errors import ConfigError, RunFileError, VerifyError
from ees_mpi.outcomes import Floats, pack, unpack
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run, open_run
from ees_mpi.tasks import Evaluator
from ees_mpi.training import observed

GENERATIONS = 3  # how many are looked at where none is named
INDIVIDUALS = 32


class Again(NamedTuple):
    """One individual, as the file has it and as it came out now: valid, length, fitness, behavior."""

    logged: Floats
    found: Floats

    @property
    def same(self) -> bool:
        """Whether every bit is the same."""
        return self.logged.tobytes() == self.found.tobytes()


class Check(NamedTuple):
    """What was found to have the same bits."""

    generations: list[int]
    individuals: int


def verify(ranks: Ranks, path: Path, generation: int | None, individuals: int | None) -> Check:
    """Evaluate individuals again, shared out among the ranks; raises where any bit differs."""
    chosen: list[tuple[int, int]] = []
    with ranks.together():
        if ranks.first:
            with open_run(path) as run:
                run.check_order()
                chosen = _choose(run, generation, individuals)
    pairs = np.frombuffer(ranks.from_first(np.array(chosen, np.int64).tobytes()), np.int64).reshape(-1, 2)
    with ranks.together():
        run = open_run(path)  # after rank 0: a file that is being written only grows
        evaluate, close = _again(run)
    ranks.watch(60 * run.config.run.stall_minutes)
    checked = {row: evaluate(*pairs[row].tolist()).same for row in ranks.deal(len(pairs))}
    mine = np.array(list(checked), np.int64)
    same = ranks.gather_by_index(mine, np.array(list(checked.values()), np.bool_), len(pairs))
    close()
    differing = [(int(g), int(i)) for g, i in pairs[~same]]
    with ranks.together():
        if differing:
            raise VerifyError(_explain(run, differing, len(pairs)))
    run.close()
    return Check(sorted({int(g) for g, _ in pairs}), len(pairs))


def _choose(run: Run, generation: int | None, individuals: int | None) -> list[tuple[int, int]]:
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    if generation is not None and not 0 <= generation < run.generations:
        raise ConfigError(f"--generation {generation}: expected 0 to {run.generations - 1}")
    size = run.config.population.size
    count = min(size, individuals or INDIVIDUALS)
    generations = [generation] if generation is not None else _spaced(run.generations, GENERATIONS)
    return [(g, i) for g in generations for i in _spaced(size, count)]


def _spaced(total: int, count: int) -> list[int]:
    return sorted({round(place) for place in np.linspace(0, total - 1, min(count, total))})


def _again(run: Run) -> tuple[Callable[[int, int], Again], Callable[[], None]]:
    """Return what evaluates an individual (generation, index) of a run again, and what closes it."""
    if run.config.learns_tasks:
        run.config.objective.rehearse(run.config.population.size, run.config.task.behavior_dim)  # is torch there?
        from ees_mpi.maml.training import MamlJob

        job = MamlJob.open(run.config, Ranks())
        return lambda g, index: Again(logged(run, g, index), as_logged(job.again(run, g, index))), job.close
    evaluator = run.config.task.open(run.config.run.seed)
    return lambda g, index: evaluate_again(run, evaluator, g, index), evaluator.close


def evaluate_again(run: Run, evaluator: Evaluator, generation: int, index: int) -> Again:
    """Rebuild an individual from the file and evaluate it as it was evaluated then."""
    observe = bool(observed(run.config, generation)[index])
    statistics = run.observation_statistics(generation)
    outcome = evaluator.evaluate(index, run.individual(generation, index), *statistics, observe)
    return Again(logged(run, generation, index), as_logged(pack([outcome], run.config.task.behavior_dim)))


def logged(run: Run, generation: int, index: int) -> Floats:
    """Return what a file has of an individual: valid, length, fitness, behavior."""
    numbers = [run[name][generation][index] for name in ("valid", "length", "fitness")]
    return np.array([*numbers, *run["behavior"][generation][index]], np.float64)


def as_logged(row: Floats) -> Floats:
    """Return a packed outcome as a file would have it: valid, length, fitness, behavior."""
    again = unpack(row, np.zeros((0, 1)))
    return np.array([again.valid[0], again.length[0], again.fitness[0], *again.behavior[0]], np.float64)


def _explain(run: Run, differing: Sequence[tuple[int, int]], checked: int) -> str:
    listed = ", ".join(f"individual {i} of generation {g}" for g, i in differing[:5])
    message = f"{run.path}: {len(differing)} of {checked} individuals gave other bits than the file has ({listed})"
    other = differences(run, differing[0][0])
    if other:
        return f"{message}. That is to be expected: {'; '.join(other)}"
    return f"{message}, though this machine computes like the one that wrote it: the file or the code has changed"


def differences(run: Run, generation: int) -> list[str]:
    """Name what differs between this machine and the one that made a generation, in a way that can change bits."""
    session = [s for s in run.sessions() if s["first_generation"] <= generation][-1]
    return machine.differences(machine.fingerprint(run.config.uses_torch), session["machine"])
