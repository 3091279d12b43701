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
from ees_mpi.training import observed

GENERATIONS = 3  # how many are looked at where none is named
INDIVIDUALS = 32


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
    checked = {row: _matches(run, evaluate, *pairs[row].tolist()) for row in ranks.deal(len(pairs))}
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


Evaluate = Callable[[int, int], Floats]


def _again(run: Run) -> tuple[Evaluate, Callable[[], None]]:
    """Return what evaluates an individual (generation, index) of a run again, as a packed row, and what closes it."""
    if run.config.learns_tasks:
        from ees_mpi.maml.training import MamlJob

        job = MamlJob.open(run.config, Ranks())
        return lambda generation, index: job.again(run, generation, index), job.close
    evaluator = run.config.task.open(run.config.run.seed)

    def evaluate(generation: int, index: int) -> Floats:
        observe = bool(observed(run.config, generation)[index])
        statistics = run.observation_statistics(generation)
        outcome = evaluator.evaluate(index, run.individual(generation, index), *statistics, observe)
        return pack([outcome], run.config.task.behavior_dim)

    return evaluate, evaluator.close


def _matches(run: Run, evaluate: Evaluate, generation: int, index: int) -> bool:
    again = unpack(evaluate(generation, index), np.zeros((0, 1)))
    found = [again.valid[0], again.length[0], again.fitness[0], *again.behavior[0]]
    logged = [*(run[name][generation][index] for name in ("valid", "length", "fitness"))]
    logged += [*run["behavior"][generation][index]]
    return np.array(found, np.float64).tobytes() == np.array(logged, np.float64).tobytes()


def _explain(run: Run, differing: Sequence[tuple[int, int]], checked: int) -> str:
    listed = ", ".join(f"individual {i} of generation {g}" for g, i in differing[:5])
    message = f"{run.path}: {len(differing)} of {checked} individuals gave other bits than the file has ({listed})"
    # Which machine made which generation is in the sessions.
    session = [s for s in run.sessions() if s["first_generation"] <= differing[0][0]][-1]
    other = machine.differences(machine.fingerprint(), session["machine"])
    if other:
        return f"{message}. That is to be expected: {'; '.join(other)}"
    return f"{message}, though this machine computes like the one that wrote it: the file or the code has changed"
