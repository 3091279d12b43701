"""`ees-mpi signal`: how much of a gradient is signal, and how long the steps are, from the run file alone.

The individuals of a generation are split at random into halves. Individuals that share a noise vector, such as an
antithetic pair, stay together. Each half computes its own weights with the objective of the run: ranks, whitening and
kernel sums are those of the half. So the two gradients are independent, and their common part is signal.

    length of a step in mutations = |step / std| / sqrt(D)      (a mutation is about std sqrt(D) long; mean over means)
    length of a step in nats      = KL(next || present), the mean over the Gaussians of a mixture: |step / std|^2 / 2

The gradient of a half is G + n: the signal G and noise n, whose mean is 0. Half a is the mean of the gradients A_1 ...
A_m of its groups of individuals, half b that of B_1 ... B_m.

    S     = a . b                               estimates |G|^2, because the halves are independent
    nu    = mean_j |A_j - a|^2 / (m - 1)        estimates |n|^2; the whole population has the noise nu / 2
    ratio = S / (nu / 2)                        share of signal = |G|^2 / (|G|^2 + nu / 2) = ratio / (1 + ratio)

The error of S has two parts. The products A_j . B_k form a table. The variance of its rows and columns is the product
of signal and noise (C); what rows and columns leave over is the product of noise and noise (R). Another random split of
the same individuals has the same C, and shares half of R. So the mean over s splits has the variance
C + R (1 + 1 / s) / 2.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi import machine, terminal
from ees_mpi.arrays import Arrays, Floats
from ees_mpi.commands.arguments import counted, path_of
from ees_mpi.commands.offspring import AS_IT_IS_NOW
from ees_mpi.commands.requests import SignalRequest, check_same
from ees_mpi.commands.verify import UPDATED, learned_after, spaced
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.generation import Draw, Outcomes, State
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.ranks import Ranks
from ees_mpi.registry.search import sources
from ees_mpi.run.file import Run, is_study, open_on_ranks
from ees_mpi.run.parts import evolution_of, logged_outcomes
from ees_mpi.strategy.evolution import Evolution
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.base import Memory, Objective

Indices = NDArray[np.int64]
GENERATIONS = 5  # measured by default
SPLITS = 2  # a split costs as much as a gradient
GROUPS = 16  # in a half
FEWEST = 8  # noise vectors of a generation
ERRORS = 2.0  # half the length of an interval, in standard errors: it covers the true value in about 95 of 100 cases


@dataclass(frozen=True)
class Signal:
    """The signal and the step of one generation; NaN where there is no gradient. Intervals are of 95 percent."""

    generation: int
    cosine: float  # of the gradients of two halves, mean over the splits
    share: float  # of signal in the squared length of the whole gradient
    share_interval: tuple[float, float]
    equal_population: float  # N at which signal and noise would be equal; inf: no signal was found
    equal_population_interval: tuple[float, float]
    step_mutations: float
    step_nats: float


@dataclass(frozen=True)
class Split:
    """The numbers of one split into halves of m groups each."""

    products: Floats  # [m, m]: A_j . B_k
    noise: Floats  # [2, m]: |A_j - a|^2 / (m - 1) and |B_k - b|^2 / (m - 1)
    cosine: float  # of a and b


def signal(ranks: Ranks, request: SignalRequest) -> list[Signal]:
    """Measure the signal of some generations, shared by the ranks; the bits do not depend on their number."""
    check_same(ranks, request, "run", "splits", "objective")
    run = open_on_ranks(ranks, path_of(request.run), request.trust, UPDATED)
    chosen = ranks.from_root(lambda: choose(run, request.generation, request.every))
    with ranks.together():
        other = OBJECTIVES.build({"name": request.objective}) if request.objective else None
    ranks.set_stall_limit(60 * run.config.run.stall_minutes)
    signals = list(measure_signal(ranks, run, chosen, request.splits, other))
    here = machine.own_code(sources(run.config.to_toml()))
    for number in chosen if ranks.is_root else ():
        since = f"generation {number} of {run.path}"
        if changed := machine.code_change(here, machine.own_code(run.machine(number)), since):
            terminal.say_on_stderr(f"warning: {changed}. {AS_IT_IS_NOW}\n")  # stdout may have to be JSON
            break
    run.close()
    return signals


def choose(run: Run, generation: int | None, every: int | None) -> list[int]:
    """Return the generations to measure; raise an error if the run has no gradients."""
    if generation is not None and every is not None:
        raise ConfigError("--generation and --every exclude each other")
    if run.config.method.name != "ees":
        raise ConfigError(f"signal: the gradient of {run.config.method.name} needs rollouts that files do not keep")
    if is_study(run) or run.generations == 0:
        raise RunFileError(f"{run.path} holds no update, so there is no gradient to measure")
    vectors = run.config.population.size // (2 if run.config.population.antithetic else 1)
    if vectors < FEWEST:
        raise ConfigError(f"signal: a generation has {vectors} noise vectors (or antithetic pairs); expected {FEWEST}")
    if generation is not None:
        return [counted("generation", generation, run.generations)]
    if every is not None:
        return list(range(0, run.generations, every))
    return spaced(run.generations, GENERATIONS)


def measure_signal(
    ranks: Ranks, run: Run, generations: Sequence[int], splits: int = SPLITS, objective: Objective | None = None
) -> Iterator[Signal]:
    """Yield the signal of each generation; called on all ranks together. `objective`: in place of the run's."""
    noise = NoiseTable(run.config.noise_seed, run.config.noise.size, ranks)
    with ranks.together():
        run.check_noise(noise)
    own = evolution_of(run.config, noise)
    update = replace(own, objective=objective or own.objective)
    memory: Memory = {}
    remembered, remembers = 0, any(part.remembers for _, part in update.objective.members)
    for g in sorted(generations):
        with ranks.together():
            for earlier in range(remembered, g) if remembers else ():
                memory = update.objective.remember(logged_outcomes(run, earlier), memory)
            remembered = g
            learned, draw, outcomes = run.learned(g), run.draw(g), logged_outcomes(run, g)
        state = State(g, learned, {}, np.zeros(1), memory)
        found = (split_halves(update, state, draw, outcomes, number, ranks) for number in range(splits))
        parts = [split for split in found if split]
        ratio, low, high = ratio_of(parts)
        yield Signal(
            g,
            float(np.mean([split.cosine for split in parts])) if parts else math.nan,
            ratio / (1 + ratio),
            (low / (1 + low), high / (1 + high)),
            _equal(outcomes.size, ratio),
            (_equal(outcomes.size, high), _equal(outcomes.size, low)),
            *step_lengths(learned, learned_after(run, g), *stds_around(run, g)),
        )


def split_halves(
    update: Evolution, state: State, draw: Draw, outcomes: Outcomes, number: int, ranks: Ranks
) -> Split | None:
    """Return the numbers of one split; None if a half has fewer than two groups, or two valid individuals."""
    halves = groups_of(update, state.generation, number, draw)
    if len(halves[0]) < 2 or min(int(outcomes.valid[np.concatenate(half)].sum()) for half in halves) < 2:
        return None
    return split_of(*(half_gradients(update, state, draw, outcomes, half, ranks) for half in halves))


def groups_of(update: Evolution, generation: int, number: int, draw: Draw) -> list[list[Indices]]:
    """Return the individuals of each group of each half: a random split, keyed by its number."""
    step = 2 if update.population.antithetic else 1
    _, rows = np.unique(draw.offset[::step], return_inverse=True)
    vector = np.repeat(rows, step)  # individuals with equal numbers share a noise vector
    count = int(vector.max()) + 1
    order = stream(update.seed, f"signal/{generation}", number).permutation(count)
    halves = order[: count // 2], order[count // 2 :]
    groups = max(1, min(GROUPS, count // 2))
    return [[np.flatnonzero(np.isin(vector, part)) for part in np.array_split(half, groups)] for half in halves]


def half_gradients(
    update: Evolution, state: State, draw: Draw, outcomes: Outcomes, groups: Sequence[Indices], ranks: Ranks
) -> Floats:
    """Return the gradients [m, K D] of the groups of one half; their mean is the gradient of the half.

    They are gradients of the means in units of the std, so that all parameters of a population have equal noise.
    """
    half = np.sort(np.concatenate(groups))
    places = [np.searchsorted(half, group) for group in groups]
    gradients = update.gradients(state, draw.at(half), outcomes.at(half), places, ranks)
    std = np.asarray(update.population.stds(state.learned, draw), np.float64)
    return np.stack([len(groups) * (gradient["mean"] * std).ravel() for gradient in gradients])


def _equal(size: int, ratio: float) -> float:
    """Return the population at which signal and noise would be equal: the ratio grows in proportion to it."""
    return size / ratio if ratio else math.inf


def step_lengths(learned: Arrays, following: Arrays, std: Any, next_std: Any) -> tuple[float, float]:
    """Return the length of a step in mutations and in nats; std: of the mutations before and after it."""
    shape = learned["mean"].shape
    before, after = (np.broadcast_to(np.asarray(each, np.float64), shape) for each in (std, next_std))
    steps = np.square((following["mean"].astype(np.float64) - learned["mean"]) / before)
    growth = np.square(after / before)
    nats = (steps + growth - 1 - np.log(growth)).sum(axis=1).mean() / 2
    return math.sqrt(steps.mean()), float(nats)


def stds_around(run: Run, generation: int) -> tuple[Any, Any]:
    """Return the std of the mutations of a generation and of the next one: of each parameter [D], or one of all."""
    population, draws = run.config.population, run.draw(generation)
    following = replace(draws, std=population.std_at(generation + 1) if population.decays else None)
    return population.stds(run.learned(generation), draws), population.stds(learned_after(run, generation), following)


def split_of(first: Floats, second: Floats) -> Split:
    """Return the numbers of a split from the gradients [m, D] of the groups of both halves."""
    m, a, b = len(first), first.mean(axis=0), second.mean(axis=0)
    noise = [np.square(first - a).sum(axis=1) / (m - 1), np.square(second - b).sum(axis=1) / (m - 1)]
    lengths = math.sqrt(float(a @ a) * float(b @ b))
    cosine = float(a @ b) / lengths if lengths > 0 else math.nan
    return Split(first @ second.T, np.array(noise), cosine)


def ratio_of(splits: Sequence[Split]) -> tuple[float, float, float]:
    """Return the ratio of signal to noise in the whole gradient, from several splits of the same individuals.

    Also the limits of an interval of about 95 percent. None is below 0; NaN if the gradient is 0.
    """
    noise = float(np.mean([split.noise.mean() for split in splits])) if splits else 0.0
    if not noise > 0:
        return math.nan, math.nan, math.nan
    signal = float(np.mean([split.products.mean() for split in splits]))
    parts = np.mean([_variances(split, signal / noise) for split in splits], axis=0)
    error = math.sqrt(max(parts[0], 0.0) + parts[1] * (1 + 1 / len(splits)) / 2) / (noise / 2)
    value = signal / (noise / 2)
    return max(0.0, value), max(0.0, value - ERRORS * error), max(0.0, value + ERRORS * error)


def _variances(split: Split, ratio: float) -> tuple[float, float]:
    """Return C and R; the groups of a half with much noise lower the ratio, so their noise is part of C."""
    m, table = len(split.products), split.products
    sides = [table.mean(axis=1), table.mean(axis=0)]
    rest = table - sides[0][:, None] - sides[1][None] + table.mean()
    left = float(np.square(rest).sum()) / (m - 1) ** 2 / m**2
    effects = [side - ratio / 2 * noise for side, noise in zip(sides, split.noise, strict=True)]
    return sum(float(effect.var(ddof=1)) / m - left for effect in effects), left
