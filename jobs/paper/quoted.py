"""The numbers that README.md, results.md, heritability.md and fidelity.md quote in running text, by name.

In a page a number stands before its name: `0.93<!-- cheetah.maxent -->`. `python jobs/paper/results.py quoted` prints
all names and values; a test compares each number of a page with its value, to the digits shown. A ratio has the names
NAME, NAME.low and NAME.high (its 90 % interval); several values have NAME.low and NAME.high, the least and the largest.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import claims
import heritability
import numpy as np
import page_tables as tables
import rules
from blocks import Floats, read_block
from endpoints import Row, column, number, select
from page_tables import MAXENT, MAXVAR, STANDARD
from rules import ANTS, LATE, SIX, STAGES, group, mann_whitney, over, paired, ratio

from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives import OBJECTIVES

Numbers = dict[str, float]
WAYS = {"ranks": ("ranks", 0.5**0.5), "whiten": ("whiten", 1.0), "narrow": ("ranks", 0.1)}  # and the kernel of MaxEnt
COMPARED = ("heritable", "heritable_share", "distance_single")
ONE_START = ("ranks", "whiten", "own", "small", "narrow", "wide", "spatial")  # arms of the ant


def interval(name: str, found: rules.Interval) -> Numbers:
    """Return a ratio and its interval."""
    return {name: found.value, f"{name}.low": found.low, f"{name}.high": found.high}


def compared(name: str, first: Sequence[Row], second: Sequence[Row], key: str) -> Numbers:
    """Return the ratio of a column in two groups of runs, its interval, and p of Mann and Whitney."""
    pair = column(first, key), column(second, key)
    return interval(name, ratio(*pair)) | {f"{name}.p": mann_whitney(*pair)[0]}


def limits(name: str, values: Iterable[float]) -> Numbers:
    """Return the least and the largest of some values."""
    found = list(values)
    return {f"{name}.low": min(found), f"{name}.high": max(found)} if found else {}


def plan6(rows: Sequence[Row]) -> Numbers:
    """Return the numbers of the sixth plan: RULES.ROBOT.ALGORITHM is the distance over that of standard ES."""
    found: Numbers = {}
    arms = claims.arms_of(rows)
    for (whose, robot, name), runs in arms.items():
        key = f"{whose}.{robot}.{name}"
        found |= compared(key, runs, arms[whose, robot, STANDARD], claims.DISTANCE) | {f"{key}.runs": len(runs)}
        found[f"{key}.near"] = float(np.mean(column(runs, claims.NEAR)))
        found[f"{key}.there"] = sum(map(claims.has_both if robot == "cheetah" else claims.has_ring, runs))
        found |= limits(f"{key}.directions", column(runs, "directions_last"))
        found |= limits(f"{key}.distance", column(runs, claims.DISTANCE))
    return found | {"released.planned": len(select(rows, block="sixth-released"))}


def swaps(rows: Sequence[Row]) -> Numbers:
    """Return the numbers on robots with one rule changed: whitening in place of ranks, or another kernel."""
    es, ranks = (group(rows, SIX, "cheetah", name) for name in (STANDARD, MAXENT))
    white = group(rows, SIX, "cheetah", MAXENT, "other", rules.WHITENED)
    found = interval("cheetah.whiten", over(white, es)) | interval("cheetah.ranks-over-whiten", paired(ranks, white))
    arms = tables.by_arm(rows, "run")
    for arm in ("ranks", "whiten", "narrow", "wide"):
        runs = [*arms[arm].values()]
        found[f"ant.{arm}.even"] = sum(map(rules.has_ring, runs))
        found |= limits(f"ant.{arm}.ring", tables.rings(runs))
        found |= limits(f"ant.{arm}.correlation", np.abs(column(runs, "correlation_last")))
    found |= interval("ant.whiten-over-ranks", paired(arms["whiten"], arms["ranks"]))
    late = [column(arms["long"].values(), f"distance{ending}") for ending in ("_last_10", LATE)]
    found |= interval("ant.long.growth", rules.paired_ratio(*late))
    found["ant.whiten.ring.10"] = tables.rings([arms["whiten"][10]])[0]
    digests = {row["digest"] for row in arms["whiten"].values()}
    sampled = [row for row in select(rows, kind="sample", engine="bullet") if row["start_digest"] in digests]
    found["ant.whiten.bullet.even"] = sum(rules.has_ring(row, "_last") for row in sampled)
    return found | limits("ant.whiten.bullet.ring", tables.rings(sampled, "_last"))


def others(rows: Sequence[Row]) -> Numbers:
    """Return the numbers on adaptation, offspring of MAML, seeding and mixtures."""
    found: Numbers = {}
    adapted = {".".join(key).removeprefix("-."): runs for key, runs in tables.adaptation_groups(rows).items()}
    adapted["same-seeds"] = [*group(rows, SIX, "cheetah", MAXENT).values()]
    for name, runs in adapted.items():
        found[f"adapt.{name}"] = float(np.mean(tables.adapted(runs)))
        found[f"adapt.{name}.wrong"], _ = tables.wrong_side(runs)
    for name in (MAXVAR, MAXENT, "MAML"):
        runs = select(rows, robot="cheetah", algorithm=name, kind="sample", engine="mujoco", std="0.02")
        runs = [row for row in runs if row["rules"] == "released" or name == "MAML"]
        found[f"offspring.{name}"] = float(np.mean(column(runs, "distance_last")))
        found[f"offspring.{name}.sd"] = float(np.mean(np.sqrt(column(runs, "distance_variance_last"))))
    starts = {start: runs for (start, _), runs in tables.seeding_runs(rows, "released").items()}
    found |= {f"seeding.{start}": float(np.mean(column(runs, "x_20"))) for start, runs in starts.items()}
    pairs = [[column(starts[each], f"x_{updates}") for each in (MAXENT, STANDARD)] for updates in (5, 10, 20)]
    found[f"seeding.{STANDARD}.p"] = max(mann_whitney(*pair)[0] for pair in pairs)
    for kind in ("mixture", "split"):
        found |= limits(f"{kind}.specialization", column(tables.mixture_runs(rows, kind), "specialization_last"))
    return found


def heritable(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return the numbers on what belongs to the mutation, of ants: ant.ARM.COLUMN, and ant.ARM-over-ARM.COLUMN."""
    found: Numbers = {}
    seeds = {"four": ANTS, "own": ANTS, "staged": STAGES, "long": STAGES}
    arms = ("whiten", "ranks", "small", "narrow", "own", "four", "staged", "long")
    ants = {arm: tables.replica_arm(measured, arm, seeds.get(arm, SIX)) for arm in arms}
    ants["fresh"] = tables.replica_arm(measured, "whiten", STAGES)
    ants["one"] = ants["whiten"] + ants["fresh"]  # the fourth plan compares with `whiten` only
    trained = tables.by_arm(rows, "run")
    every = tables.by_arm(measured, "mean")
    ants["even"] = [every[arm][seed] for arm in ONE_START for seed, row in trained[arm].items() if rules.has_ring(row)]
    for arm, runs in ants.items():
        for name in (*COMPARED, "realised", "same_way"):
            found |= limits(f"ant.{arm}.{name}", column(runs, name))
        for name in ("reliable_sectors", "held_out_sectors"):
            found[f"ant.{arm}.{name}.all"] = sum(value == 8 for value in column(runs, name))
        found[f"ant.{arm}.elsewhere"] = sum(value >= rules.RING for value in column(runs, "ring"))
    pairs = [("four", arm) for arm in ("whiten", "own", "fresh", "one", "ranks")]
    for first, second in (*pairs, ("long", "four"), ("long", "one"), ("ranks", "whiten"), ("fresh", "whiten")):
        for name in COMPARED:
            found |= compared(f"ant.{first}-over-{second}.{name}", ants[first], ants[second], name)
    return found | {"ant.whiten.elsewhere.10": number(every["whiten"][10], "ring")}


def four_starts(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return the numbers on cheetahs with four own starts, and on Gymnasium's robots; distances of single rollouts."""
    found: Numbers = {}
    for robot in ("ant", "cheetah"):
        (row,) = (row for row in measured if row["mean"] == f"gymnasium-{robot}-maxent")
        found |= {f"gymnasium.{robot}.{name}": number(row, name) for name in ("heritable_share", "realised")}
    arms = {arm: [*runs.values()] for arm, runs in tables.by_arm(measured, "mean", "cheetah").items()}
    for arm in ("four", "ranks"):
        found |= limits(f"cheetah.{arm}.heritable_share", column(arms[arm], "heritable_share"))
        found[f"cheetah.{arm}.best_elsewhere"] = float(np.mean(column(arms[arm], "best_elsewhere")))
    for name in ("heritable", "heritable_share", "best_elsewhere"):
        found |= compared(f"cheetah.four.over.{name}", arms["four"], arms["ranks"], name)
    trained, standard = tables.by_arm(rows, "run", "cheetah")["four"], group(rows, SIX, "cheetah", STANDARD)
    far = column(trained.values(), f"single{LATE}"), column(standard.values(), f"distance{LATE}")
    return found | interval("cheetah.four.over.es", ratio(*far))


def engines(results: Path) -> Numbers:
    """Return what the same mutations of ants do from the same starts in Bullet, and with other kernels."""
    found: Numbers = {}
    raw = heritability.raw_places(results)
    shares, parts = heritability.shares_in_bullet(raw), heritability.with_other_rounding(raw)
    for arm in ("four", "whiten"):
        found |= limits(f"ant.{arm}.bullet.heritable_share", shares[arm])
        chosen = {mean: each for mean, each in parts.items() if mean.startswith(f"ant-maxent-authors-{arm}-")}
        found[f"ant.{arm}.bullet.chance"] = chosen.pop(f"ant-maxent-authors-{arm}-mujoco-seed7-bullet")["chance"]
        for name in ("both", "chance"):
            found |= limits(f"ant.{arm}.{name}", [each[name] for each in chosen.values()])
    places = raw["ant-maxent-authors-whiten-mujoco-seed10-starts"]
    return found | {"ant.whiten.left.10": float((places[..., 0] < 0).mean())}


def weights(results: Path) -> Numbers:
    """Return how alike the weights are that MaxVar and MaxEnt give to the last mutations of MaxEnt's runs."""
    found: Numbers = {}
    for robot, blocks in (("cheetah", "ab"), ("ant", "d")):
        kept = last_of_maxent(results, *blocks)
        for way, how in WAYS.items():
            found |= limits(f"weights.{robot}.{way}", [correlation_of_weights(last, *how) for last in kept])
    return found


def last_of_maxent(results: Path, *blocks: str) -> list[Floats]:
    """Return the last places [n, axes] of the mutations of MaxEnt's runs, released rules."""
    runs = [run for block in blocks for run in read_block(results / f"released-{block}.h5")]
    return [run.last for run in runs if "-maxent-" in run.name and run.generations > 1]


def correlation_of_weights(last: Floats, normalization: str, bandwidth: float) -> float:
    """Return how the weights of MaxVar and MaxEnt correlate."""
    n = len(last)
    outcomes = Outcomes(last, np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool), np.zeros((0, 1)))
    sections = [{"name": "maxvar"}, {"name": "maxent", "bandwidth": bandwidth}]
    objectives = [OBJECTIVES.build({**each, "normalization": normalization}) for each in sections]
    return float(np.corrcoef(*(each.weights(outcomes, {}, Ranks()) for each in objectives))[0, 1])


def quoted(rows: Sequence[Row], measured: Sequence[Row], results: Path) -> Numbers:
    """Return all numbers by name."""
    paper = plan6(rows) | swaps(rows) | others(rows) | weights(results)
    return paper | heritable(rows, measured) | four_starts(rows, measured) | engines(results)
