"""How much of a gradient is signal: `ees-mpi signal`, its half-gradients, its intervals."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.outcomes import outcomes
from support.program import done, train

import ees_mpi
from ees_mpi.analysis.numbers.tables import to_json
from ees_mpi.arrays import Floats
from ees_mpi.commands.signal import (
    Split,
    groups_of,
    half_gradients,
    ratio_of,
    split_of,
    step_lengths,
)
from ees_mpi.generation import State
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.evolution import Evolution, Starts
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.optimizers.ascent import Ascent
from ees_mpi.strategy.populations.diagonal import Diagonal
from ees_mpi.strategy.populations.mixture import Mixture
from ees_mpi.strategy.populations.normal import Normal

D = 70
NOISE = Noise(3, 1 << 18)
POPULATIONS = {
    "normal": Normal(size=60, std=0.3),
    "single": Normal(size=60, std=0.3, antithetic=False),
    "mixture": Mixture(size=60, std=0.3, components=3),
    "diagonal": Diagonal(size=60, std=0.3),
}
OBJECTIVES_OF = {
    "fitness": {"name": "fitness"},
    "maxvar": {"name": "maxvar"},
    "maxent": {"name": "maxent", "bandwidth": 0.7},
}


def update_of(population: Any, objective: dict[str, Any], seed: int = 0) -> Evolution:
    starts = Starts(0, 1, "fixed", in_pairs=False)
    return Evolution(population, OBJECTIVES.build(objective), Ascent(), NOISE, seed, starts, 0.0, 0, None)


def state_of(population: Any, generation: int = 0) -> State:
    generator = np.random.default_rng(1)
    learned = dict(population.learned(generator.normal(size=(population.components, D)).astype(np.float32) * 0.1))
    if "std" in learned:
        learned["std"] = (learned["std"] * np.exp(generator.normal(size=(1, D)))).astype(np.float32)
    return State(generation, learned, {}, np.zeros(1))


@pytest.mark.parametrize(
    ("population", "objective"),
    [
        *(("normal", name) for name in OBJECTIVES_OF),
        *((name, "maxent") for name in POPULATIONS if name != "normal"),
    ],
)
def test_the_mean_of_the_groups_of_a_half_is_its_gradient_in_units_of_the_std(population: str, objective: str) -> None:
    rule = POPULATIONS[population]
    update, state, found = update_of(rule, OBJECTIVES_OF[objective]), state_of(rule), outcomes(60, invalid=(7, 30))
    draw = update.ask(state).draw
    for groups in groups_of(update, 0, 0, draw):
        half = np.sort(np.concatenate(groups))
        weights = update.objective.weights(found.at(half), {}, Ranks())
        slope = rule.gradient(weights, draw.at(half), state.learned, NOISE, Ranks())["mean"]
        expected = (slope * np.asarray(rule.stds(state.learned, draw), np.float64)).ravel()
        computed = half_gradients(update, state, draw, found, groups, Ranks()).mean(axis=0)
        assert np.linalg.norm(computed - expected) < 1e-6 * np.linalg.norm(expected)


def test_splits_keep_pairs_together_and_differ() -> None:
    update = update_of(POPULATIONS["normal"], {"name": "maxvar"})
    draw = update.ask(state_of(POPULATIONS["normal"])).draw
    splits = [groups_of(update, generation, number, draw) for generation, number in ((0, 0), (0, 1), (1, 0))]
    for halves in splits:
        members = [set(np.concatenate(half).tolist()) for half in halves]
        assert members[0] | members[1] == set(range(60)) and not members[0] & members[1]
        assert all(index ^ 1 in each for each in members for index in each)
    assert len({tuple(sorted(np.concatenate(halves[0]).tolist())) for halves in splits}) == 3


@pytest.mark.parametrize(
    ("dimensions", "pairs", "slope", "noise"),
    [(1000, 100, 0.2, 1.0), (100, 50, 1.0, 0.0), (3, 50, 0.3, 1.0)],
)
def test_the_interval_covers_the_true_share(dimensions: int, pairs: int, slope: float, noise: float) -> None:
    # A pair has the gradient c eps with c = slope eps_1 + noise: its mean has the length `slope`.
    generator = np.random.default_rng(0)
    variance = (slope**2 * (dimensions + 2) + noise**2 * dimensions - slope**2) / pairs
    covered = 0
    for _ in range(100):
        eps = generator.standard_normal((pairs, dimensions))
        each = (slope * eps[:, :1] + noise * generator.standard_normal((pairs, 1))) * eps
        _, low, high = ratio_of([random_split(each, generator) for _ in range(2)])
        covered += low <= slope**2 / variance <= high
    assert 90 <= covered <= 99


def random_split(each: Floats, generator: np.random.Generator) -> Split:
    halves = np.split(generator.permutation(len(each)), 2)
    return split_of(*(np.stack([each[p].sum(0) * 16 / len(h) for p in np.array_split(h, 16)]) for h in halves))


def test_lengths_of_steps() -> None:
    rule = POPULATIONS["mixture"]
    learned = state_of(rule).learned
    moved = learned["mean"] + np.float32(0.3) * np.array([1, 0, 2], np.float32)[:, None]
    mutations, nats = step_lengths(learned, {"mean": moved}, rule.std, rule.std)
    assert (mutations, nats) == pytest.approx((math.sqrt(5 / 3), D * (1 + 4) / 3 / 2), rel=1e-5)
    wide = {"mean": np.zeros((1, D), np.float32), "std": np.full((1, D), 0.2, np.float32)}
    grown = {"mean": wide["mean"] + np.float32(0.1), "std": wide["std"] * np.float32(1.5)}
    expected = D * (math.log(1 / 1.5) + (0.3**2 + 0.1**2) / (2 * 0.2**2) - 0.5)  # KL of two normal distributions
    mutations, nats = step_lengths(wide, grown, wide["std"], grown["std"])
    assert (mutations, nats) == pytest.approx((0.5, expected), rel=1e-5)


@pytest.mark.slow
def test_the_command_and_the_function_agree(tmp_path: Path) -> None:
    run = train(tmp_path / "run.h5", "interference-maxent", "population.size=40")
    found = json.loads(done("signal", run, "--json").stdout)
    assert [each["generation"] for each in found] == [0, 1, 2, 4, 5]
    assert found == json.loads(to_json(ees_mpi.signal(run)))
    with ees_mpi.open_run(run) as opened:
        steps = np.diff([*opened["mean"][:, 0, 0], opened.state_arrays()["mean"][0, 0]]) / opened.config.population.std
    for each in found:
        low, high = each["share_interval"]
        assert low <= each["share"] <= high and each["share"] > 0.5  # one parameter, forty individuals
        assert each["equal_population"] == pytest.approx(40 * (1 - each["share"]) / each["share"])
        assert each["step_mutations"] == pytest.approx(abs(steps[each["generation"]]))
        assert each["step_nats"] == pytest.approx(steps[each["generation"]] ** 2 / 2)
    assert [each.generation for each in ees_mpi.signal(run, every=4)] == [0, 4]
    assert ees_mpi.signal(run, generation=-1, splits=7)[0].generation == 5
    (other,) = ees_mpi.signal(run, generation=2, objective="fitness")
    assert other.step_nats == found[2]["step_nats"] and other.share != found[2]["share"]
    lines = done("signal", run, "--generation", 3).stdout.splitlines()
    assert lines[0].startswith("generation") and lines[1].startswith("3 ")


def test_novelty_needs_an_archive_and_gets_the_one_of_the_run(tmp_path: Path) -> None:
    parts = 'objective.parts=[{name="novelty",share=1.0,neighbors=3}]'
    run = train(tmp_path / "run.h5", "interference-maxvar", "objective.name=blend", parts)
    first, second = ees_mpi.signal(run, every=1)[:2]
    assert math.isnan(first.share) and math.isnan(first.cosine) and first.step_nats == 0
    assert 0 <= second.share < 1
