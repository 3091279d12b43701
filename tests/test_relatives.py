"""The programs of jobs/examples/relatives: their updates are those of a few lines with a loop."""

from pathlib import Path
from typing import Any

import es_maml
import numpy as np
import pytest
import quality
from support.outcomes import outcomes
from support.program import CHECKOUT, ees, python, run

import ees_mpi

PROGRAMS = CHECKOUT / "jobs" / "examples" / "relatives"
SIZE, D, STD = 8, 4, 0.3
ASCENT = {"name": "ascent", "lr": 0.5}
TABLE = {"noise": {"seed": 0, "size": 1000}}


def toy(z: Any) -> tuple[Any, Any]:
    """Return behaviours [n, 2] and fitnesses [n] of individuals [n, 4]."""
    z = z.astype(float)
    return np.sin(3 * z[:, :2]) + z[:, 2:], z[:, 0] - z[:, 1] ** 2


def strategy(mean: Any, objective: Any = None, **more: Any) -> ees_mpi.Strategy:
    return ees_mpi.Strategy(mean, objective, **{"size": SIZE, "std": STD, "config": TABLE, **more})


def ranks_of(values: Any) -> Any:
    return np.argsort(np.argsort(values)) / (len(values) - 1) - 0.5


def better(one: Any, other: Any) -> bool:
    return bool((one >= other).all() and (one > other).any())


def peeled(both: Any) -> list[list[int]]:
    """Return the fronts, found by comparing all with all and taking away one front after the other."""
    left, found = set(range(len(both))), []
    while left:
        found.append([i for i in sorted(left) if not any(better(both[j], both[i]) for j in left)])
        left -= set(found[-1])
    return found


def reference_order(both: Any) -> list[int]:
    """Return the individuals from worst to best, as NSGA-II orders them."""
    crowding = np.zeros(len(both))
    for front in peeled(both):
        for column in both.T:
            line = sorted(front, key=lambda i: column[i])
            crowding[[line[0], line[-1]]] = np.inf
            for before, here, after in zip(line, line[1:], line[2:], strict=False):
                crowding[here] += (column[after] - column[before]) / np.ptp(column)
    number = {i: place for place, front in enumerate(peeled(both)) for i in front}
    return sorted(range(len(both)), key=lambda i: (-number[i], crowding[i]))


def nsga_ranks(behavior: Any, fitness: Any) -> Any:
    both = np.stack([fitness, ((behavior - behavior.mean(axis=0)) ** 2).sum(axis=1)], axis=1)
    rank = np.zeros(len(both))
    rank[reference_order(both)] = np.linspace(-0.5, 0.5, len(both))
    for front in peeled(both):  # both ends of a front are infinitely far from the others: they share their mean rank
        ends = sorted({min(front, key=lambda i: both[i, 0]), max(front, key=lambda i: both[i, 0])})
        rank[ends] = rank[ends].mean()
    return rank


@pytest.mark.parametrize("count", [5, 40, 200])
def test_the_weights_of_quality_are_the_ranks_of_nsga_2(count: int) -> None:
    given = outcomes(count)
    expected = nsga_ranks(given.behavior, given.fitness) / count
    np.testing.assert_allclose(quality.weights_of(given.behavior, given.fitness), expected, atol=1e-15)


def test_equal_individuals_have_equal_weights_and_failed_ones_none() -> None:
    given = outcomes()
    behavior, fitness = given.behavior.copy(), given.fitness.copy()
    behavior[3], fitness[3] = behavior[17], fitness[17]
    behavior[5], fitness[6] = np.nan, np.inf
    weights = quality.weights_of(behavior, fitness)
    assert weights[3] == weights[17] and len(np.unique(weights)) > 30
    assert weights[5] == weights[6] == 0 and weights.sum() == pytest.approx(0)
    assert not quality.weights_of(behavior, np.full(len(fitness), np.nan)).any()


def test_the_updates_of_es_maml_are_those_of_a_few_lines_with_a_loop_over_queries() -> None:
    def fitness(z: Any) -> float:
        return float(toy(z[None])[1][0])

    with strategy(np.full(D, 0.1), "fitness", optimizer=ASCENT) as es:
        for generation in range(2):
            mean, z, values = es.mean.copy(), es.ask(), []
            for index, (best, sign) in enumerate(zip(z, es_maml.directions(7, generation, SIZE), strict=True)):
                value, generator = sign * fitness(best), np.random.default_rng([7, generation, index])
                for _ in range(3):
                    tried = best + np.float32(STD) * generator.standard_normal(D, np.float32)
                    if sign * fitness(tried) > value:
                        best, value = tried, sign * fitness(tried)
                values.append(value)
            expected = ranks_of(values) @ ((z - mean) / STD) / (SIZE * STD)
            np.testing.assert_allclose(es_maml.step(es, toy, 3, STD, 7), values, rtol=1e-6)
            np.testing.assert_allclose(es.mean - mean, 0.5 * expected, rtol=1e-3, atol=1e-5)
            assert len(set(values)) == SIZE


SMALL = ("--size", 6, "--generations", 3)
WORDS = {
    "quality.py": SMALL,
    "nsr.py": (*SMALL, "--means", 2, "--share", 1.0, "--change", 0.05, "--patience", 1),
    "es_maml.py": (*SMALL, "--queries", 2, "--few", 2),
}


def digests(program: Path, *words: object, ranks: int | None = None) -> list[str]:
    """Run a program that must succeed; return the digests of the states that it prints."""
    if "walker" in words or not ranks:
        finished = ees(program, *words, ranks=ranks)
    else:  # MuJoCo writes warnings, which standing ranks do not expect
        finished = run(python(program, *words, ranks=ranks))
    assert finished.returncode == 0, finished.stderr
    return [line for line in finished.stdout.splitlines() if len(line) == 64]


@pytest.mark.standing_ranks
@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), [*((name, "walker") for name in WORDS), ("nsr.py", "HalfCheetah-v5")])
def test_a_program_goes_on_from_its_file_with_the_same_bits_on_any_number_of_ranks(
    name: str, task: str, inside: Path
) -> None:
    if task != "walker":
        pytest.importorskip("mujoco")
    program, words = PROGRAMS / name, (task, *WORDS[name], "--steps", 5)
    alone, saved = digests(program, *words), inside / "search.npz"
    assert len(alone) == (2 if name == "nsr.py" else 1)
    first, second = (3, 2) if task == "walker" else (2, None)  # ranks of their own start and import in seconds
    digests(program, *words, "--generations", 2, "--out", saved, ranks=first)
    assert digests(program, *words, "--out", saved, ranks=second) == alone
    assert [path.name for path in inside.glob("search*")] == ["search.npz"]
