"""`ees-mpi verify`: rebuild individuals from the run file, evaluate them again, and compare every bit."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ees_mpi import machine
from ees_mpi.contracts import Evaluator, RowsEvaluator
from ees_mpi.errors import ConfigError, RunFileError, VerifyError, before_rollouts, located
from ees_mpi.generation.evaluation import call_of
from ees_mpi.generation.repeats import Repeated, Repeater, as_logged, logged
from ees_mpi.generation.results import observed, uses_torch
from ees_mpi.generation.rollouts import outcome_of, outcomes_of_call
from ees_mpi.outcomes import Floats, Singles, pack
from ees_mpi.ranks import Ranks
from ees_mpi.registry import loaded
from ees_mpi.store.reader import Run, open_run

GENERATIONS = 3  # checked by default
INDIVIDUALS = 32
DISTRIBUTIONS = "ees_mpi.commands.verify_distributions:verify_distributions"  # imported if it is needed


class EvolutionRepeater:
    """Evaluates individuals of an evolution strategy again."""

    def __init__(self, run: Run):
        self._run = run
        with before_rollouts():
            self._evaluator = run.config.task.open(run.config.run.seed)

    def repeat(self, generation: int, index: int) -> Repeated:
        """Evaluate one individual again."""
        return repeat(self._run, self._evaluator, generation, index)

    def close(self) -> None:
        """Release the resources of the task."""
        self._evaluator.close()


def repeat(run: Run, evaluator: Evaluator, generation: int, index: int) -> Repeated:
    """Rebuild an individual from the file, and evaluate it as in the run."""
    observe = bool(observed(run.config, generation)[index])
    statistics = run.observation_statistics(generation)
    with located(f"generation {generation}"):
        if isinstance(evaluator, RowsEvaluator):
            call = call_of(index, evaluator.rows, run.config)
            rows = np.stack([run.individual(generation, member) for member in call])
            outcome = outcomes_of_call(evaluator, run.config, generation, call, rows)[index - call[0]]
        else:
            parameters = run.individual(generation, index)
            outcome = outcome_of(evaluator, run.config, generation, index, parameters, statistics, observe)
    return Repeated(logged(run, generation, index), as_logged(pack([outcome], run.config.task.behavior_dim)))


def evaluate_mean(
    run: Run, evaluator: Evaluator, generation: int, mean: Singles, statistics: tuple[Floats, Floats]
) -> Floats:
    """Return the row of a mean, evaluated as in the run: valid, length, fitness, behavior."""
    size = run.config.population.size
    outcome = outcome_of(evaluator, run.config, generation, size, mean, statistics, False)
    return as_logged(pack([outcome], run.config.task.behavior_dim))


class Check(NamedTuple):
    """The generations that were checked, and how many individuals of each."""

    generations: list[int]  # the same bits
    individuals: int
    random_generations: list[int]  # of a GPU or of a task that is not deterministic: the same distributions
    random_individuals: int


def verify(ranks: Ranks, path: Path, generation: int | None, individuals: int | None) -> Check:
    """Evaluate individuals again, on the device of each generation; raise a VerifyError if they differ.

    Outcomes that cannot be repeated are compared as distributions: those of GPUs, and of random tasks.
    """
    with ranks.together():
        run = open_run(path)
        if ranks.first:
            run.check_all()
        chosen = _choose(run, generation)
    agreed = np.frombuffer(ranks.from_first(np.array(chosen, np.int64).tobytes()), np.int64).tolist()
    ranks.set_stall_limit(60 * run.config.run.stall_minutes)
    exact = [g for g in agreed if run.config.task.deterministic and run.device(g) != "cuda"]
    random = [g for g in agreed if g not in exact]
    count = min(run.config.population.size, individuals or INDIVIDUALS)
    if exact:
        _compare_bits(ranks, run, [(g, i) for g in exact for i in _spaced(run.config.population.size, count)])
    random_count = loaded(DISTRIBUTIONS)(ranks, run, random, individuals) if random else 0
    run.close()
    return Check(exact, len(exact) * count, random, random_count)


def _compare_bits(ranks: Ranks, run: Run, rows: Sequence[tuple[int, int]]) -> None:
    """Evaluate rows (generation, index) again, dealt to the ranks; raise a VerifyError if any bit differs."""
    with ranks.together():
        rebuilt = run.config.population.has_individuals  # also in a sample of offspring of a MAML run
        hook = None if rebuilt else run.config.method.hooks.repeat
        repeater: Repeater = (loaded(hook) if hook else EvolutionRepeater)(run)
    checked = {row: repeater.repeat(*rows[row]).same for row in ranks.deal(len(rows))}
    mine = np.array(list(checked), np.int64)
    same = ranks.gather_by_index(mine, np.array(list(checked.values()), np.bool_), len(rows))
    repeater.close()
    differing = [row for row, equal in zip(rows, same.tolist(), strict=True) if not equal]
    with ranks.together():
        if differing:
            raise VerifyError(_explain(run, differing, len(rows)))


def _choose(run: Run, generation: int | None) -> list[int]:
    """Return the generations to check."""
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    if generation is not None and not 0 <= generation < run.generations:
        raise ConfigError(f"--generation {generation}: expected 0 to {run.generations - 1}")
    return [generation] if generation is not None else _spaced(run.generations, GENERATIONS)


def _spaced(total: int, count: int) -> list[int]:
    return sorted({round(place) for place in np.linspace(0, total - 1, min(count, total))})


def _explain(run: Run, differing: Sequence[tuple[int, int]], checked: int) -> str:
    listed = ", ".join(f"individual {i} of generation {g}" for g, i in differing[:5])
    message = f"{run.path}: {len(differing)} of {checked} individuals gave other bits than the file has ({listed})"
    return f"{message}: {cause(run, differing[0][0])}"


def cause(run: Run, generation: int) -> str:
    """Return the likely cause of other bits in a generation."""
    other = differences(run, generation)
    if other:
        return f"this is expected here: {'; '.join(other)}"
    own = run.config.task.own_code
    return f"the file or the code has changed{f', or {own} is not deterministic' if own else ''}"


def differences(run: Run, generation: int) -> list[str]:
    """Return the differences to the machine that computed a generation, if they can change bits."""
    if run.device(generation) == "cuda":
        return ["the generation was evaluated on a GPU, whose outcomes cannot be repeated bit by bit"]
    if not run.config.task.deterministic:
        return ["the task is not deterministic (task.deterministic = false)"]
    session = [s for s in run.sessions() if s["first_generation"] <= generation][-1]
    return machine.differences(machine.fingerprint(uses_torch(run.config)), session["machine"])
