"""Verifying generations that a GPU has evaluated: behaviours are compared as distributions, not bit by bit.

MuJoCo Warp adds contact forces in changing order, so that two equal rollouts part after some steps. The test is the
two-sample Kolmogorov-Smirnov test, for each number of the behaviour.
"""

import math
from collections.abc import Sequence

import numpy as np

from ees_mpi.commands.sample import gather
from ees_mpi.errors import ConfigError, VerifyError
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.results import observed
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Floats
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run

INDIVIDUALS = 1000  # at least, or all
LEAST_P = 1e-4  # a smaller p fails


def verify_gpu(ranks: Ranks, run: Run, generations: Sequence[int], individuals: int | None) -> int:
    """Evaluate individuals again on a GPU; raise a VerifyError if their behaviours are distributed otherwise."""
    if run.config.population.rows != "individual":
        raise ConfigError(
            f"generation {generations[0]}: a GPU made the rollouts of its {run.config.population.rows}s, which happen "
            "once; verify works with generations of CPU ranks, and maml.log_iterations keeps rollouts for checks"
        )
    count = min(run.config.population.size, max(individuals or 0, INDIVIDUALS))
    noise = NoiseTable(run.config.noise_seed, run.config.noise.size, ranks)
    try:
        evaluation = Evaluation(run.config, noise, ranks, "cuda")
    except ConfigError as error:
        problem = ConfigError(
            f"generation {generations[0]} was evaluated on a GPU, and this job has none ({error}); "
            "verify --updates works without one"
        )
        problem.collective = error.collective
        raise problem from None
    for generation in generations:
        found = _evaluate(evaluation, run, generation, count)
        with ranks.together():
            _compare(run, generation, run["behavior"][generation][:count], found)
    evaluation.close()
    return count


def _evaluate(evaluation: Evaluation, run: Run, generation: int, count: int) -> Floats:
    """Return the behaviours [count, B] of the first individuals of a generation: they are random draws."""
    statistics = run.observation_statistics(generation)
    work = Work(run.learned(generation), run.draw(generation), statistics, observed(run.config, generation))
    mine = evaluation.run(work, range(count), {}, generation)
    return gather(evaluation.ranks, list(mine.values()), run.config, count).behavior


def _compare(run: Run, generation: int, logged: Floats, found: Floats) -> None:
    for number in range(logged.shape[1]):
        one, other = (rows[np.isfinite(rows[:, number]), number] for rows in (logged, found))
        p = kolmogorov_smirnov(one, other)
        if p < LEAST_P:
            raise VerifyError(
                f"{run.path}: the behaviours of generation {generation} are distributed otherwise when they are "
                f"evaluated again (number {number}, {len(found)} individuals, p = {p:.2g})"
            )


def kolmogorov_smirnov(one: Floats, other: Floats) -> float:
    """Return the asymptotic p of the two-sample Kolmogorov-Smirnov test (Press et al., Numerical Recipes, 14.3)."""
    if not len(one) or not len(other):
        return 1.0 if len(one) == len(other) else 0.0
    values = np.concatenate([one, other])
    shares = [np.searchsorted(np.sort(each), values, side="right") / len(each) for each in (one, other)]
    distance = float(np.abs(shares[0] - shares[1]).max())
    effective = math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    scaled = (effective + 0.12 + 0.11 / effective) * distance
    if scaled < 0.2:  # the series does not converge there, and p is 1 to all digits
        return 1.0
    total = sum(math.exp(-2 * (k * scaled) ** 2) * (1 if k % 2 else -1) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * total))
