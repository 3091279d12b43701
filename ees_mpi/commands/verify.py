"""`ees-mpi verify`: rebuild individuals from the run file, evaluate them again, and compare every bit.

The metrics of all generations are computed again from their logged outcomes. `--updates` does the same for every
update, and compares every state and the numbers that an update logs.

Some generations cannot be repeated, and `verify` says which and why: rollouts of a task of the user that is random
(`task.deterministic = false`), those of most robots on a GPU, where MuJoCo Warp adds contact forces in changing order,
and MAML's on a GPU. The paper's robots repeat bit by bit on the same kind of GPU (`Task.repeats_on_gpu`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ees_mpi import machine, metrics
from ees_mpi.commands.arguments import check_committed, counted
from ees_mpi.commands.offspring import outcomes_of
from ees_mpi.config import Evolution
from ees_mpi.errors import ConfigError, RunFileError, VerifyError, before_rollouts, located
from ees_mpi.generation.evaluation import Evaluation, Work, call_of
from ees_mpi.generation.packing import pack
from ees_mpi.generation.reevaluation import Repeated, as_logged, logged, same_by_start
from ees_mpi.generation.results import observed, uses_torch
from ees_mpi.generation.rollouts import outcome_of, outcomes_of_call
from ees_mpi.generation.state import State
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Arrays, Floats, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry.plugins import sources
from ees_mpi.run.arrays import BY_START
from ees_mpi.run.file import Run, is_study
from ees_mpi.runs.broadcast import open_on_ranks
from ees_mpi.tasks.rollouts import Rollouts, RowsRollouts
from ees_mpi.update import Update

UPDATED = ("population", "objective", "optimizer")  # sections whose code computes an update
GENERATIONS = 3  # checked by default
INDIVIDUALS = 32
NO_GPU = "a generation was evaluated on a GPU, and this job has none"


def repeat(run: Run, evaluator: Rollouts, generation: int, index: int) -> Repeated:
    """Rebuild an individual from the file, and evaluate it as in the run."""
    observe = bool(observed(run.config, generation)[index])
    statistics = run.observation_statistics(generation)
    with located(f"generation {generation}"):
        if isinstance(evaluator, RowsRollouts):
            call = call_of(index, evaluator.rows, run.config)
            rows = np.stack([run.individual(generation, member) for member in call])
            outcome = outcomes_of_call(evaluator, run.config, generation, call, rows)[index - call[0]]
        else:
            parameters = run.individual(generation, index)
            outcome = outcome_of(evaluator, run.config, generation, index, parameters, statistics, observe)
    row = as_logged(pack([outcome], run.config.task.behavior_dim))
    same = same_by_start(run, generation, index, outcome)
    return Repeated(logged(run, generation, index), row, same, outcome.by_start)


def verify(ranks: Ranks, path: Path, generation: int | None, individuals: int | None, trust: bool = False) -> list[str]:
    """Evaluate individuals again, on the device of each generation; raise a VerifyError if they differ.

    Return lines that say what was compared and what cannot be; raise a ConfigError if nothing can be.
    """
    run = _opened(ranks, path, trust, ("task", "population"))
    with ranks.together():
        check_committed(run)
        one = None if generation is None else counted("--generation", generation, run.generations)
        chosen = spaced(run.generations, GENERATIONS) if one is None else [one]
    agreed = np.frombuffer(ranks.broadcast(np.array(chosen, np.int64).tobytes()), np.int64).tolist()
    reasons = {g: why_not(run, g) for g in agreed}
    lines = []
    for reason in dict.fromkeys(filter(None, reasons.values())):
        listed = ", ".join(str(g) for g in agreed if reasons[g] == reason)
        lines.append(f"{path}: generations {listed} cannot be repeated: {reason}")
    with ranks.together():
        measured = range(run.generations) if one is None else [one]
    if all(reasons.values()):
        lines += _compare_metrics(ranks, run, measured)
        with ranks.together():
            raise ConfigError("; ".join(lines))
    repeatable = [g for g in agreed if not reasons[g]]
    on_cpus = [g for g in repeatable if run.device(g) != "cuda"]
    if on_cpus:
        rows = [(g, i) for g in on_cpus for i in spaced(run.config.population.size, individuals or INDIVIDUALS)]
        _compare_rows(ranks, run, rows)
        listed = ", ".join(map(str, on_cpus))
        lines.append(f"{path}: {len(rows)} individuals of generations {listed}: the same bits")
    on_gpus = [g for g in repeatable if run.device(g) == "cuda"]
    if on_gpus:
        lines += _verify_on_gpus(ranks, run, on_gpus)
    lines += _compare_metrics(ranks, run, measured)
    run.close()
    return lines


def _compare_metrics(ranks: Ranks, run: Run, generations: Sequence[int]) -> list[str]:
    """Compute the metrics of generations again, shared by the ranks; raise a VerifyError if they differ.

    Return what was compared, and which numbers were not.
    """
    settings, names = run.metric_settings, list[str]()
    for g in generations:
        with ranks.together():
            if settings != run.config.metric_settings(run["behavior"].shape[2]):
                raise VerifyError(f"{run.path}: its attribute metrics does not follow from its config")
            outcomes = _some_outcomes(run, g)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of a damaged file: the metrics will differ
            again = metrics.logged(outcomes, settings, ranks)
        with ranks.together():
            _compare_numbers(run, g, again)
        names = [*again]
    others = [name for name in (*metrics.in_file(settings), *settings.own_names) if name not in names]
    said = [f"{run.path}: {', '.join(names)} of {len(generations)} generations follow from their outcomes"]
    told = [name for name in others if name in ("gradient_norm", *settings.own_names)]
    if isinstance(run.config.method, Evolution) and not is_study(run):
        said.append(f"{run.path}: --updates computes {', '.join(told)} again")
        others = [name for name in others if name not in told]
    return [*said, f"{run.path}: not checked: {', '.join((*others, 'times'))}"]


def _compare_numbers(run: Run, generation: int, again: Arrays) -> None:
    """Raise a VerifyError if numbers of a generation have other bits when they are computed `again`."""
    wrong = [*metrics.differing(again, {name: run[name][generation] for name in again})]
    if wrong:
        said = f"generation {generation} has another {', '.join(wrong)} than its logged outcomes give"
        raise VerifyError(f"{run.path}: {said}: {cause(run, generation)}")


def _opened(ranks: Ranks, path: Path, trust: bool, needed: Sequence[str]) -> Run:
    """Open a run file on every rank, check all of it on rank 0, and set its time limit; see `open_on_ranks`."""
    run = open_on_ranks(ranks, path, trust, needed)
    with ranks.together():
        if ranks.is_root:
            run.check_all()
    ranks.set_stall_limit(60 * run.config.run.stall_minutes)
    return run


def why_not(run: Run, generation: int) -> str:
    """Return why the rollouts of a generation cannot be repeated bit by bit; nothing if they can."""
    task, updates = run.config.task, "`verify --updates` needs no rollouts"
    if not task.deterministic:
        return f"the task is not deterministic (task.deterministic = false); {updates}"
    if run.device(generation) != "cuda":
        return ""
    if not run.config.population.has_individuals:
        return f"the rollouts of its {run.config.population.row_name}s happened once, on a GPU"
    return "" if task.repeats_on_gpu else f"on a GPU these robots do not repeat their rollouts; {updates}"


def _verify_on_gpus(ranks: Ranks, run: Run, generations: Sequence[int]) -> list[str]:
    """Evaluate all individuals of some generations again; raise a VerifyError if they differ."""
    config = run.config
    try:
        evaluation = Evaluation(config, NoiseTable(config.noise_seed, config.noise.size, ranks), ranks, "cuda")
    except ConfigError as error:
        error.args = (f"{NO_GPU} ({error}); verify --updates works without one",)
        raise
    here = {**machine.fingerprint(uses_torch(config)), **evaluation.described}
    lines = []
    for g in generations:
        work = Work(run.learned(g), run.draw(g), run.observation_statistics(g), observed(config, g))
        again = outcomes_of(evaluation, work, config.population.size, g)
        with ranks.together():
            name = f"{run.path}: generation {g}"
            compare_bits(name, logged_outcomes(run, g), again, machine.differences(here, run.machine(g)))
        lines.append(f"{name}: {config.population.size} individuals: the same bits")
    evaluation.close()
    return lines


def compare_bits(name: str, logged: Outcomes, again: Outcomes, other: Sequence[str]) -> None:
    """Raise a VerifyError if outcomes have other bits; `other`: the differences between the machines."""
    kept = zip((logged, again), _behaviors(logged, again), strict=True)
    parts = [(one.valid, one.length, one.fitness, behaviors) for one, behaviors in kept]
    rows = [np.column_stack(part).astype(np.float64) for part in parts]
    same = np.array([np.array_equal(one, other, equal_nan=True) for one, other in zip(*rows, strict=True)])
    if not same.all():
        reason = f"this is expected here: {'; '.join(other)}" if other else "the file or the code has changed"
        raise VerifyError(f"{name}: {np.sum(~same)} of {len(same)} individuals have other bits: {reason}")


def _behaviors(logged: Outcomes, again: Outcomes) -> list[Floats]:
    """Return the behaviours [N, B] of both, and after them those from each start [N, B + K B], if the file has them."""
    if logged.by_start is None or again.by_start is None:
        return [logged.behavior, again.behavior]
    pairs = (logged.behavior, logged.by_start), (again.behavior, again.by_start)
    return [np.column_stack([mean, by_start.reshape(len(mean), -1)]) for mean, by_start in pairs]


def _compare_rows(ranks: Ranks, run: Run, rows: Sequence[tuple[int, int]]) -> None:
    """Evaluate rows (generation, index) again, shared by the ranks; raise a VerifyError if any bit differs."""
    with ranks.together():
        rebuilt = run.config.population.has_individuals  # also in a sample of offspring of a MAML run
        if run.config.method.name == "maml" and not rebuilt:
            from ees_mpi.maml import training  # imports torch

            work = training.CpuTasks(run.config, Ranks())
            again, close = partial(training.repeat, run, work), work.close
        else:
            with before_rollouts():
                evaluator = run.config.task.open(run.config.run.seed)
            again, close = partial(repeat, run, evaluator), evaluator.close
    checked = {row: again(*rows[row]).same for row in ranks.hand_out(range(len(rows)))}
    mine = np.array(list(checked), np.int64)
    same = ranks.allgather_by_index(mine, np.array(list(checked.values()), np.bool_), len(rows))
    close()
    differing = [row for row, equal in zip(rows, same.tolist(), strict=True) if not equal]
    with ranks.together():
        if differing:
            listed = ", ".join(f"individual {i} of generation {g}" for g, i in differing[:5])
            problem = f"{len(differing)} of {len(rows)} individuals gave other bits than the file has ({listed})"
            raise VerifyError(f"{run.path}: {problem}: {cause(run, differing[0][0])}")


def spaced(total: int, count: int) -> list[int]:
    """Return `count` numbers below `total` at equal distances, from the first to the last; all if there are fewer."""
    return sorted({round(place) for place in np.linspace(0, total - 1, min(count, total))})


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
        return ["the generation was evaluated on a GPU, and other devices do not repeat its outcomes bit by bit"]
    if not run.config.task.deterministic:
        return ["the task is not deterministic (task.deterministic = false)"]
    here = {**machine.fingerprint(uses_torch(run.config)), **sources(run.config.to_toml())}
    return machine.differences(here, run.machine(generation))


def verify_updates(ranks: Ranks, path: Path, trust: bool = False) -> list[str]:
    """Compute all updates of a run again, shared by the ranks; raise a VerifyError at the first one that differs."""
    run = _opened(ranks, path, trust, UPDATED)
    with ranks.together():
        if not isinstance(run.config.method, Evolution):
            name = run.config.method.name
            raise ConfigError(f"--updates: an update of {name} needs rollouts that files do not keep; leave it out")
        if is_study(run) or run.generations == 0:
            raise RunFileError(f"{path} holds no update to compute again")
    update = Update.open(run.config, ranks)
    with ranks.together():
        run.check_noise(update.noise)
    updates = int(ranks.each(run.generations).min())
    learned = run.learned(0)
    state = State(0, learned, run.config.method.moments(run.config.task, learned), run.observation_sums(0))
    for g in range(updates):
        with ranks.together():
            draw, outcomes = run.draw(g), _some_outcomes(run, g)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of a damaged file: the states will differ
            following, told = update.tell(state, draw, outcomes, ranks)
        state = replace(following, observations=run.observation_sums(g + 1))
        with ranks.together():
            logged = learned_after(run, g)
            same = all(np.array_equal(state.learned[name], logged[name]) for name in logged)
            if not same or state.digest().hex() != run["state_sha256"][g].decode():
                message = f"{run.path}: the update of generation {g} does not follow from its logged outcomes"
                raise VerifyError(f"{message}: {cause(run, g)}")
        again = {**metrics.logged(outcomes, run.metric_settings, ranks), **told}
        with ranks.together():
            _compare_numbers(run, g, {name: again[name] for name in again if name in run.names})
    run.close()
    return [f"{path}: {updates} updates computed again from the logged outcomes: the same states and metrics"]


def _some_outcomes(run: Run, generation: int) -> Outcomes:
    """Return the logged outcomes of a generation; raise a RunFileError if nobody is valid."""
    outcomes = logged_outcomes(run, generation)
    if not outcomes.size:
        raise RunFileError(f"{run.path}: generation {generation} has no valid rollout, so nothing follows from it")
    return outcomes


def logged_outcomes(run: Run, generation: int) -> Outcomes:
    """Return the logged outcomes of a generation, without observations."""
    behavior, fitness, length, valid = (run[name][generation] for name in ("behavior", "fitness", "length", "valid"))
    valid = valid.astype(bool)
    if not (np.isfinite(behavior[valid]).all() and np.isfinite(fitness[valid]).all()):
        raise RunFileError(f"{run.path}: generation {generation} has valid rollouts with numbers that are not finite")
    by_start = run[BY_START][generation] if BY_START in run.names else None
    shared = run.config.task.common_starts
    return Outcomes(behavior, fitness, length.astype(np.int64), valid, np.zeros((0, 1)), by_start, shared)


def learned_after(run: Run, generation: int) -> Arrays:
    last = generation + 1 == run.generations
    return State.from_arrays(run.state_arrays()).learned if last else run.learned(generation + 1)
