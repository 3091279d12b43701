"""A study: offspring of learned arrays, evaluated in one or several settings, such as standard deviations.

Its file is a run file in which each row is a setting, not a generation of training. `sample` and `measure` write such
files; `adapt` and `verify` take the outcomes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import RunFileError, TaskError, collective
from ees_mpi.files import check_writable, replaced
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.results import Clock, Record, describe, uses_torch, with_times
from ees_mpi.generation.rollouts import Statistics
from ees_mpi.generation.state import State
from ees_mpi.outcomes import Arrays, Draw, Outcome, Outcomes, pack, unpack
from ees_mpi.ranks import Ranks
from ees_mpi.runs.progress import CountedOutcomes
from ees_mpi.store import journal
from ees_mpi.store.safety import check_ours
from ees_mpi.store.writer import RunWriter, check_folder


@dataclass(frozen=True)
class Row:
    """One setting of a study, which is a row of its file."""

    state: State  # the learned arrays of the setting
    after: State  # that the file has after this row
    generation: int = -1  # of the rollouts: some tasks depend on it
    name: str = ""  # of the setting, in messages


def outcomes_of(evaluation: Evaluation, work: Work, count: int, generation: int = -1) -> Outcomes:
    """Return the outcomes of the first individuals on every rank, in index order; number N is the unperturbed mean."""
    mine = CountedOutcomes(evaluation.ranks, count, "offspring")
    try:
        evaluation.run(work, range(count), mine, generation)
    finally:
        mine.close()
    return gather(evaluation.ranks, list(mine.values()), evaluation.config, count)


def gather(ranks: Ranks, outcomes: list[Outcome], config: Config, total: int) -> Outcomes:
    """Return the outcomes of all ranks on every rank, in index order."""
    index = np.array([outcome.index for outcome in outcomes], np.int64)
    rows = ranks.gather_by_index(index, pack(outcomes, config.task.behavior_dim), total)
    return unpack(rows, np.zeros((0, 1)))


def offspring_of(
    evaluation: Evaluation, row: Row, drawn: Draw, statistics: Statistics, with_mean: bool = False
) -> Outcomes:
    """Return the outcomes of all offspring in a setting; `with_mean`: and last that of the unperturbed mean."""
    size = evaluation.config.population.size
    work = Work(row.state.learned, drawn, statistics, np.zeros(size, np.bool_))
    found = outcomes_of(evaluation, work, size + with_mean, row.generation)
    if (valid := int(found.valid[:size].sum())) < 2:
        where = f"{row.name}: " if row.name else ""
        raise collective(TaskError(f"{where}{size - valid} of {size} rollouts are not finite"))
    return found


def evaluated(
    evaluation: Evaluation, row: Row, drawn: Draw, statistics: Statistics, mean: Arrays | None
) -> tuple[Record, Arrays]:
    """Return the record of a row, and the outcome of the unperturbed mean; `mean`: that outcome, if it is known."""
    config, ranks, clock = evaluation.config, evaluation.ranks, Clock()
    found = offspring_of(evaluation, row, drawn, statistics, with_mean=mean is None)
    mean = mean or {"mean_fitness": found.fitness[-1], "mean_behavior": found.behavior[-1]}
    outcomes = found.at(np.arange(config.population.size))
    clock.lap("evaluate")
    clock.lap("gather")  # is part of the evaluation here
    arrays = {**describe(config, row.state, drawn, outcomes, ranks), **mean, "gradient_norm": np.array(np.nan)}
    arrays |= {"observation_mean": statistics[0], "observation_std": statistics[1]}
    clock.lap("update")
    record = Record(row.state.generation, arrays, clock.seconds)
    return with_times(record, row.after.digest(), 0.0, ranks), mean


def write(
    evaluation: Evaluation,
    out: Path,
    kind: str,
    about: Mapping[str, Any],
    rows: Sequence[Row],
    records: Sequence[Record],
) -> None:
    """Write the file of a study, on rank 0; `about`: the run or the policy."""
    config, ranks, last = evaluation.config, evaluation.ranks, rows[-1].after.arrays()
    with replaced(out, RunFileError) as fresh:
        writer = RunWriter.create(fresh, config, last, True, kind=kind, started_from=json.dumps(about))
        here = {**machine.fingerprint(uses_torch(config)), "device": evaluation.device}
        writer.begin_session(0, ranks.size, ranks.nodes, here)
        for row, record in zip(rows, records, strict=True):
            writer.commit(record.generation, record.arrays, row.after.arrays())
        writer.close()


def check_target(ranks: Ranks, source: Path, out: Path, overwrite: bool) -> None:
    """Raise an error if the output cannot be written or is the input, before anything is evaluated."""
    with ranks.together():
        if ranks.first:
            check_folder(out)
            if out.exists() and not overwrite:
                raise RunFileError(f"{out} exists already; use --overwrite to replace it")
            check_writable(out, "--out", sources=[source])
            check_ours(out)
            if journal.path_of(out).exists():
                raise RunFileError(
                    f"{out} is the name of an unfinished run; delete its journal first, or choose another"
                )
