"""The variances of mutations x starts, the interval of their share, and `ees-mpi measure --starts`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.program import done, refusal, sets
from support.run_files import assert_same_bits
from support.small_runs import walk

import ees_mpi
from ees_mpi import open_run
from ees_mpi.analysis.numbers.heritability import facts, heritability, kept_side, sentence
from ees_mpi.arrays import Floats
from ees_mpi.generation import Outcomes
from ees_mpi.metrics import METRICS, Sample, Settings
from ees_mpi.ranks import Ranks
from ees_mpi.run import progress
from ees_mpi.spread import best_elsewhere, best_of

SMALL = sets("task.steps=5", "task.hidden=[4]", "noise.size=20000")


def places(seed: int, shares: tuple[float, float, float], shape: tuple[int, int, int] = (48, 8, 1)) -> Floats:
    """Return places of mutations x starts, with these variances of mutations, starts and interaction."""
    generator, (n, k, dim) = np.random.default_rng(seed), shape
    sizes = ((n, 1, dim), (1, k, dim), (n, k, dim))
    parts = [np.sqrt(share) * generator.normal(size=size) for share, size in zip(shares, sizes, strict=True)]
    return 3.0 + parts[0] + parts[1] + parts[2]


def test_the_variances_have_no_bias_and_a_share_of_nothing_is_not_an_eighth() -> None:
    for shares in ((4.0, 2.0, 1.0), (0.0, 0.0, 1.0)):
        found = [heritability(places(seed, shares)) for seed in range(300)]
        means = [np.mean([one[name] for one in found]) for name in ("heritable", "start", "interaction")]
        np.testing.assert_allclose(means, shares, atol=0.15)
    assert abs(np.mean([one["heritable_share"] for one in found])) < 0.01
    plane = heritability(places(0, (4.0, 2.0, 1.0), (4000, 50, 2)))  # traces
    assert plane["heritable"] == pytest.approx(8.0, rel=0.1) and plane["heritable_share"] == pytest.approx(
        4 / 7, abs=0.1
    )


def test_the_share_and_its_interval_are_those_of_the_example_of_shrout_and_fleiss() -> None:
    """Shrout and Fleiss 1979, table 2: ICC(2,1) = 0.29, ICC(3,1) = 0.71; R's psych::ICC: interval 0.019 to 0.76."""
    ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    found = heritability(np.array(ratings, float)[..., None])
    assert (found["mutations"], found["starts"]) == (6, 4)
    np.testing.assert_allclose(
        [found["heritable_share"], found["low"], found["high"]], [0.2898, 0.0188, 0.7611], atol=2e-4
    )
    assert found["consistency"] == pytest.approx(0.7148, abs=1e-4)


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_the_interval_covers_the_share_in_90_to_99_of_100_tries(share: float) -> None:
    rest = 1 - share
    found = [heritability(places(seed, (share, 0.2 * rest, 0.8 * rest))) for seed in range(100)]
    assert 90 <= sum(one["low"] <= share <= one["high"] for one in found) <= 99


def test_sides_and_sectors_are_kept_or_not() -> None:
    x = np.array([[1.0, 2, 3, 4], [-1, -2, -3, 4], [-1, -2, 3, 4]])[..., None]
    assert kept_side(x) == pytest.approx(((1 + 0.75 + 0.5) / 3, 1 / 3))
    angles = np.radians([[0, 20, -20, 10], [90, 80, 100, 180], [0, 90, 180, 270]])
    plane = np.stack([np.cos(angles), np.sin(angles)], axis=2)
    assert kept_side(plane) == pytest.approx(((1 + 0.75 + 0.25) / 3, 1 / 3))


def test_the_best_of_40_is_chosen_from_one_start_and_scored_at_the_others() -> None:
    x = np.random.default_rng(0).normal(size=(60, 1, 2))
    assert best_elsewhere(np.repeat(x, 3, axis=1), 40) == pytest.approx(best_of(x[:, 0], x[:, 0], 40))
    luck = np.random.default_rng(1).normal(size=(60, 3, 1))
    same_rollout = np.mean([best_of(luck[:, s], luck[:, s], 40) for s in range(3)])  # chooses and scores
    assert abs(best_elsewhere(luck, 40)) < 0.5 < same_rollout
    assert np.isnan(best_elsewhere(luck[:39], 40))


def test_policies_that_all_do_the_same_have_no_share() -> None:
    found = heritability(np.ones((5, 3, 1)))
    assert found["heritable"] == 0 and np.isnan([found["heritable_share"], found["low"], found["high"]]).all()
    assert "std 0.02: all rollouts behave alike" in sentence({"std": 0.02, **found})


def test_offspring_have_a_heritable_variance_only_if_all_have_the_same_starts(tmp_path: Path) -> None:
    x, whole = places(0, (4.0, 2.0, 1.0)), np.ones(48, bool)
    found, expected = Outcomes(x.mean(axis=1), x[:, 0, 0], *2 * (whole,), x[:, 0], x), heritability(x)
    settings = Settings(1, places=1, starts=8, common_starts=True)
    for name in ("heritable", "heritable_share"):
        metric = METRICS[name]
        assert not metric.lacks(settings) and metric.lacks(replace(settings, common_starts=False))
        assert metric.compute(Sample(found, settings, Ranks())) == expected[name]
        assert np.isnan(metric.compute(Sample(found.at(np.array([0])), settings, Ranks())))
    pytest.importorskip("pybullet", exc_type=ImportError)
    own, out = {"task.rollouts": 2, "task.starts": "own"}, tmp_path / "own.h5"
    ees_mpi.measure(walk(tmp_path / "run.h5", "cheetah-maxent"), count=3, std=0.02, settings=own, out=out).close()
    code, line = refusal("figure", "starts", out)
    assert code == 3 and "--starts K" in line


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_measure_crosses_mutations_with_unseen_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("pybullet", exc_type=ImportError)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    run = walk(tmp_path / "run.h5", "ant-maxent", "task.hidden=[4]", "task.steps=5")
    words = ("measure", run, "--starts", 3, "--count", 20, "--std", "0.02,0.5", *SMALL)
    said = done(*words, "-o", tmp_path / "one.h5").stdout
    assert "20 mutations x 3 starts" in said and "one-starts.png" in said
    assert (tmp_path / "one-starts.png").stat().st_size > 10_000
    request.getfixturevalue("quick_figures")  # once on paper is enough
    printed = json.loads(done(*words, "--json", "-o", tmp_path / "two.h5", ranks=2).stdout)
    assert_same_bits(tmp_path / "one.h5", tmp_path / "two.h5")
    with open_run(tmp_path / "one.h5") as found, open_run(run) as trained:
        assert found["behavior_by_start"].shape[:3] == (2, 20, 3)
        assert found.config.task.reset_seed not in (None, trained.config.run.seed)
        assert [row["std"] for row in facts(found)] == [0.02, 0.5]
        for row, again in zip(facts(found), printed["stds"], strict=True):
            best = again.pop("best_elsewhere"), row.pop("best_elsewhere")
            assert best[0] is None and np.isnan(best[1])  # fewer than 40 mutations
            assert row == pytest.approx({name: again[name] for name in row}) and again["best_of_40"] is None
            assert {"heritable_share", "kept"} <= row.keys() and again["coverage"] > 0
        assert np.ptp(found["behavior_by_start"][1], axis=1).min() > 0
    rows = json.loads(done("metrics", tmp_path / "one.h5", "--all", "--json").stdout)
    assert [[row[name] for name in ("std", "heritable", "heritable_share")] for row in rows] == [
        [pytest.approx(row[name]) for name in ("std", "heritable", "heritable_share")] for row in printed["stds"]
    ]
    done("report", tmp_path / "one.h5")
    page = (tmp_path / "one-report.html").read_text()
    assert "<h2>Heritability</h2>" in page and "<dd>0.02, 0.5</dd>" in page
    assert "<h2>By std</h2>" in page and "<h2>Extremes at std 0.5</h2>" in page and ">std</label>" in page
    done("export", tmp_path / "one.h5", "--csv")
    csv = [line.split(",") for line in (tmp_path / "one.csv").read_text().splitlines()]
    assert [float(row[csv[0].index("std")]) for row in csv[1:]] == pytest.approx([0.02, 0.5])
    assert "the same bits" in done("verify", tmp_path / "one.h5", "--individuals", 2).stdout
