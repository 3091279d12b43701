"""Verifying generations of GPUs and of random tasks: by their bits where they repeat, or as distributions.

The paper's robots repeat bit by bit on the same kind of GPU (`Task.repeats_on_gpu`). For other robots MuJoCo Warp adds
contact forces in changing order, so that two equal rollouts part after some steps. On CPUs, the user's task may be
random (`task.deterministic = false`). The tests of distributions are the two-sample Kolmogorov-Smirnov test, for each
number of the behaviour of valid rollouts, and the test of two proportions for the share of valid rollouts.
"""

import math
from collections.abc import Sequence

import numpy as np

from ees_mpi import machine
from ees_mpi.commands.study import outcomes_of
from ees_mpi.commands.verify import logged_outcomes
from ees_mpi.errors import ConfigError, VerifyError
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.results import observed, uses_torch
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run

INDIVIDUALS = 1000  # at least, or all
LEAST_P = 1e-4  # a smaller p fails


def verify_distributions(ranks: Ranks, run: Run, generations: Sequence[int], individuals: int | None) -> list[str]:
    """Evaluate individuals again; raise a VerifyError if they differ. Return a line for each generation."""
    config = run.config
    if not config.population.has_individuals:
        raise ConfigError(
            f"generation {generations[0]}: the rollouts of its {config.population.row_name}s happen once, on a GPU "
            "or in a task that is not deterministic; verify works with other generations, and with MAML's updates from "
            "rollouts that maml.log_iterations has kept: see ees-mpi docs gpus"
        )
    noise = NoiseTable(config.noise_seed, config.noise.size, ranks)
    lines = []
    for device in sorted({run.device(g) for g in generations}):
        repeats = device == "cuda" and config.task.repeats_on_gpu and config.task.deterministic
        count = config.population.size if repeats else min(config.population.size, max(individuals or 0, INDIVIDUALS))
        evaluation = _opened(ranks, run, noise, device)
        here = {**machine.fingerprint(uses_torch(config)), **evaluation.described}
        for generation in (g for g in generations if run.device(g) == device):
            again = _evaluate(evaluation, run, generation, count)
            with ranks.together():
                logged = logged_outcomes(run, generation).at(np.arange(count))
                name, there = f"{run.path}: generation {generation}", run.machine(generation)
                found = compare_bits(name, logged, again, here, there) if repeats else "its rollouts cannot be repeated"
                if found:
                    compare(f"{name}: its behaviours", logged, again)
                    found += ": the same distribution of behaviours"
                lines.append(f"{name}: {count} individuals: {found or 'the same bits'}")
        evaluation.close()
    return lines


def compare_bits(name: str, logged: Outcomes, again: Outcomes, here: dict[str, str], there: dict[str, str]) -> str:
    """Compare outcomes of GPUs bit by bit; return why bits that differ may do so, or nothing if all are the same.

    Raise a VerifyError if they differ although the machine that wrote the file has the same GPU and packages.
    """
    parts = [(one.valid, one.length, one.fitness, one.behavior) for one in (logged, again)]
    rows = [np.column_stack(part).astype(np.float64) for part in parts]
    same = np.array([np.array_equal(one, other, equal_nan=True) for one, other in zip(*rows, strict=True)])
    if same.all():
        return ""
    differ = f"{np.sum(~same)} of {len(same)} individuals have other bits"
    if "gpu" not in there:
        return f"{differ}, and the file does not name its GPU"
    other = machine.differences(here, there)
    if not other:
        raise VerifyError(f"{name}: {differ} on the same kind of GPU: the file or the code has changed")
    return f"{differ}, as expected here: {'; '.join(other)}"


def _opened(ranks: Ranks, run: Run, noise: NoiseTable, device: str) -> Evaluation:
    """Open the task on a device; raise a ConfigError if there is no GPU for generations of a GPU."""
    try:
        return Evaluation(run.config, noise, ranks, device)
    except ConfigError as error:
        if device == "cpu":
            raise
        problem = ConfigError(
            f"a generation was evaluated on a GPU, and this job has none ({error}); verify --updates works without one"
        )
        problem.collective = error.collective
        raise problem from None


def _evaluate(evaluation: Evaluation, run: Run, generation: int, count: int) -> Outcomes:
    """Return the outcomes of the first individuals of a generation: they are random draws."""
    statistics = run.observation_statistics(generation)
    work = Work(run.learned(generation), run.draw(generation), statistics, observed(run.config, generation))
    return outcomes_of(evaluation, work, count, generation)


def compare(name: str, logged: Outcomes, again: Outcomes) -> None:
    """Raise a VerifyError if two sets of outcomes are distributed otherwise; `name`: of the behaviours."""
    count = len(again.valid)
    p = two_proportions(logged.size, again.size, count)
    if p < LEAST_P:
        raise VerifyError(
            f"{name}: {logged.size} of {count} are valid in the file, and {again.size} when they are evaluated again "
            f"(p = {p:.2g})"
        )
    for number in range(logged.behavior.shape[1]):
        p = kolmogorov_smirnov(*(outcomes.behavior[outcomes.valid, number] for outcomes in (logged, again)))
        if p < LEAST_P:
            raise VerifyError(
                f"{name} are distributed otherwise when they are evaluated again (number {number}, {count} "
                f"individuals, p = {p:.2g})"
            )


def two_proportions(one: int, other: int, count: int) -> float:
    """Return p of the test that two numbers, each out of `count`, have the same chance (normal approximation)."""
    share = (one + other) / (2 * count)
    std = math.sqrt(share * (1 - share) * 2 / count)
    return math.erfc(abs(one - other) / count / std / math.sqrt(2)) if std else 1.0


def kolmogorov_smirnov(one: Floats, other: Floats) -> float:
    """Return the asymptotic p of the two-sample Kolmogorov-Smirnov test (Press et al., Numerical Recipes, 14.3)."""
    if not len(one) or not len(other):
        return 1.0 if len(one) == len(other) else 0.0
    values = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (one, other)]
    distance = float(np.abs(shares[0] - shares[1]).max())
    effective = math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    scaled = (effective + 0.12 + 0.11 / effective) * distance
    if scaled < 0.2:  # the series does not converge there, and p is 1 to all digits
        return 1.0
    total = sum(math.exp(-2 * (k * scaled) ** 2) * (1 if k % 2 else -1) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * total))
