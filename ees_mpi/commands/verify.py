"""`ees-mpi verify`: rebuild individuals from the run file, evaluate them again, and compare every bit.

The metrics of all generations are computed again from their logged outcomes. `--updates` does the same for every
update, and compares every state and the numbers that an update logs.

Some generations cannot be repeated, and `verify` says which and why: rollouts of a task of the user that is random
(`task.deterministic = false`), those of most robots on a GPU, where MuJoCo Warp adds contact forces in changing order,
and MAML's on a GPU. The paper's robots repeat bit by bit on the same kind of GPU (`Task.repeats_on_gpu`).
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ees_mpi import machine, metrics
from ees_mpi.arrays import Arrays
from ees_mpi.commands.arguments import check_committed, counted
from ees_mpi.config import Evolution
from ees_mpi.errors import ConfigError, RunFileError, VerifyError, located
from ees_mpi.generation import Found, Outcomes, State
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry.search import sources
from ees_mpi.run.file import Run, is_study, open_on_ranks
from ees_mpi.run.parts import (
    evolution_of,
    logged_mean,
    logged_outcomes,
    noise_table,
    open_evaluator,
    stored_work,
    uses_torch,
)

UPDATED = ("population", "objective", "optimizer")  # sections whose code computes an update
GENERATIONS = 3  # checked by default
INDIVIDUALS = 32
NO_ONE = np.zeros(0, np.int64)
ON_CPU = {"device": "cpu"}
NO_GPU = "a generation was evaluated on a GPU, and this job has none"


def verify(ranks: Ranks, path: Path, generation: int | None, individuals: int | None, trust: bool = False) -> list[str]:
    """Evaluate individuals again, on the device of each generation; raise a VerifyError if they differ.

    Return lines that say what was compared and what cannot be; raise a ConfigError if nothing can be.
    """
    run = _opened(ranks, path, trust, ("task", "population"))
    chosen, measured = ranks.from_root(lambda: _choose(run, generation))
    reasons = {g: why_not(run, g) for g in chosen}
    lines = []
    for reason in dict.fromkeys(filter(None, reasons.values())):
        listed = ", ".join(str(g) for g in chosen if reasons[g] == reason)
        lines.append(f"{path}: generations {listed} cannot be repeated: {reason}")
    if all(reasons.values()):
        lines += _compare_metrics(ranks, run, measured, repeated=False)
        with ranks.together():
            raise ConfigError("; ".join(lines))
    for device in ("cpu", "cuda"):
        repeatable = [g for g in chosen if not reasons[g] and run.device(g) == device]
        if repeatable:
            lines += _compare(ranks, run, repeatable, individuals or INDIVIDUALS, device)
    lines += _compare_metrics(ranks, run, measured, repeated=True)
    run.close()
    return lines


def _choose(run: Run, generation: int | None) -> tuple[Sequence[int], Sequence[int]]:
    """Return the generations of which individuals are evaluated again, and those whose metrics are computed again."""
    check_committed(run)
    if generation is None:
        return spaced(run.generations, GENERATIONS), range(run.generations)
    one = [counted("--generation", generation, run.generations)]
    return one, one


def _compare_metrics(ranks: Ranks, run: Run, generations: Sequence[int], repeated: bool) -> list[str]:
    """Compute the metrics of generations again, shared by the ranks; raise a VerifyError if they differ.

    Return what was compared, and which numbers were not; `repeated`: the rollouts of some generations were.
    """
    settings, names = run.metric_settings, list[str]()
    with ranks.together():
        if settings != run.config.metric_settings(run["behavior"].shape[2]):
            raise VerifyError(f"{run.path}: its attribute metrics does not follow from its config")
    for g in generations:
        with ranks.together():
            outcomes = _some_outcomes(run, g)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of a damaged file: the metrics will differ
            again = metrics.logged(outcomes, settings, ranks)
        with ranks.together():
            _compare_numbers(run, g, again)
        names = [name for name in again if name in run]
    others = [name for name in run.logged_metrics if name not in names]
    said = [f"{run.path}: {', '.join(names)} of {len(generations)} generations follow from their outcomes"]
    told = [name for name in others if name in ("gradient_norm", *settings.own_names)]
    if isinstance(run.config.method, Evolution) and not is_study(run):
        said.append(f"{run.path}: not checked without --updates: {', '.join(told)}")
        others = [name for name in others if name not in told]
    others = [f"{name}{' of other generations' * (repeated and name == 'fitness_of_mean')}" for name in others]
    return [*said, f"{run.path}: not checked: {', '.join((*others, 'times'))}"]


def _compare_numbers(run: Run, generation: int, again: Arrays) -> None:
    """Raise a VerifyError if numbers of a generation have other bits when they are computed `again`."""
    stored = {name: np.asarray(run[name][generation]) for name in again if name in run}
    wrong = [name for name, array in stored.items() if array.tobytes() != np.asarray(again[name]).tobytes()]
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
    if task.rollouts > 1 and task.starts is None:
        return f"each individual had starts of its own, because task.starts was not set; now that is common; {updates}"
    if run.device(generation) != "cuda":
        return ""
    if not run.config.population.has_individuals:
        return f"the rollouts of its {run.config.population.row_name}s happened once, on a GPU"
    return "" if task.repeats_on_gpu else f"on a GPU these robots do not repeat their rollouts; {updates}"


def _compare(ranks: Ranks, run: Run, generations: Sequence[int], individuals: int, device: str) -> list[str]:
    """Evaluate individuals of some generations again, on a GPU all of them; raise a VerifyError if any bit differs."""
    config = run.config
    noise = Noise(config.noise_seed, config.noise.size) if device == "cpu" else noise_table(config, ranks)
    with ranks.together():
        run.check_noise(noise)
    try:
        evaluator = open_evaluator(config, noise, ranks, device)
    except ConfigError as error:
        if device == "cuda":
            error.args = (f"{NO_GPU} ({error}); verify --updates works without one",)
        raise
    size = config.population.size
    wanted = np.array(spaced(size, size if device == "cuda" else individuals), np.int64)
    with closing(evaluator):
        for g in generations:
            with located(f"generation {g}"):
                with_mean = np.isfinite(run["fitness_of_mean"][g])
                again = evaluator.evaluate(stored_work(run, g), np.append(wanted, size) if with_mean else wanted)
            with ranks.together():
                compare_bits(run, g, wanted, again.outcomes, evaluator.described)
                known = logged_mean(run, g, again.means)
                if known and known.bits(0) != again.means.bits(0):
                    said = f"{run.path}: the mean of generation {g} gave another behaviour or fitness than the file has"
                    raise VerifyError(f"{said}: {cause(run, g, evaluator.described)}")
    listed = ", ".join(map(str, generations))
    return [f"{run.path}: {len(wanted) * len(generations)} individuals of generations {listed}: the same bits"]


def compare_bits(
    run: Run, generation: int, wanted: NDArray[np.int64], again: Outcomes, described: Mapping[str, str]
) -> None:
    """Raise a VerifyError if outcomes have other bits than the file; `described`: the device that evaluated them."""
    logged = logged_outcomes(run, generation).at(wanted)
    differing = [index for place, index in enumerate(wanted.tolist()) if logged.bits(place) != again.bits(place)]
    if differing:
        listed = ", ".join(f"individual {index}" for index in differing[:5])
        problem = f"{len(differing)} of {len(wanted)} individuals gave other bits than the file has"
        where = f"{listed} of generation {generation}"
        raise VerifyError(f"{run.path}: {problem} ({where}): {cause(run, generation, described)}")


def spaced(total: int, count: int) -> list[int]:
    """Return `count` numbers below `total` at equal distances, from the first to the last; all if there are fewer."""
    return sorted({round(place) for place in np.linspace(0, total - 1, min(count, total))})


def cause(run: Run, generation: int, described: Mapping[str, str] = ON_CPU) -> str:
    """Return the likely cause of other bits in a generation; `described`: the device that computed it again."""
    other = differences(run, generation, described)
    if other:
        return f"this is expected here: {'; '.join(other)}"
    own = run.config.task.own_code
    return f"the file or the code has changed{f', or {own} is not deterministic' if own else ''}"


def differences(run: Run, generation: int, described: Mapping[str, str] = ON_CPU) -> list[str]:
    """Return the differences to the machine that computed a generation, if they can change bits."""
    if run.device(generation) != described["device"]:
        return ["the generation was evaluated on a GPU, and other devices do not repeat its outcomes bit by bit"]
    if not run.config.task.deterministic:
        return ["the task is not deterministic (task.deterministic = false)"]
    here = {**machine.fingerprint(uses_torch(run.config)), **sources(run.config.to_toml()), **described}
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
    method = evolution_of(run.config, noise_table(run.config, ranks))
    with ranks.together():
        run.check_noise(method.noise)
    updates = int(ranks.each(run.generations).min())
    learned = run.learned(0)
    state = State(0, learned, run.config.method.moments(run.config.task, learned), run.observation_sums(0))
    for g in range(updates):
        with ranks.together():
            work, outcomes = method.work(state, run.draw(g)), _some_outcomes(run, g)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers of a damaged file: the states will differ
            following, told = method.tell(work, Found(outcomes, outcomes.at(NO_ONE), {}), ranks)
        state = replace(following, observations=run.observation_sums(g + 1))
        with ranks.together():
            logged = learned_after(run, g)
            same = all(np.array_equal(state.learned[name], logged[name]) for name in logged)
            if not same or state.digest().hex() != run["state_sha256"][g].decode():
                message = f"{run.path}: the update of generation {g} does not follow from its logged outcomes"
                raise VerifyError(f"{message}: {cause(run, g)}")
        again = {**metrics.logged(outcomes, run.metric_settings, ranks), **told}
        with ranks.together():
            _compare_numbers(run, g, again)
    run.close()
    return [f"{path}: {updates} updates computed again from the logged outcomes: the same states and metrics"]


def _some_outcomes(run: Run, generation: int) -> Outcomes:
    """Return the logged outcomes of a generation; raise a RunFileError if nobody is valid."""
    outcomes = logged_outcomes(run, generation)
    if not outcomes.size:
        raise RunFileError(f"{run.path}: generation {generation} has no valid rollout, so nothing follows from it")
    return outcomes


def learned_after(run: Run, generation: int) -> Arrays:
    last = generation + 1 == run.generations
    return State.from_arrays(run.state_arrays()).learned if last else run.learned(generation + 1)
