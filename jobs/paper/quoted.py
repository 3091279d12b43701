"""The numbers that README.md, results.md and heritability.md quote in running text, by name.

In a page a number stands before its name: `0.93<!-- cheetah.maxent -->`. `python jobs/paper/results.py quoted` prints
all names and values; a test compares each number of a page with its value, to the digits shown. A ratio has the names
NAME, NAME.low and NAME.high (its 90 % interval); several values have NAME.low and NAME.high, the least and the largest.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import fourth_plan
import numpy as np
import page_tables as tables
import second_plan
from blocks import read_block
from endpoints import Row, column, number, select
from fidelity import weights_alike
from heritability_plan import TWO_STARTS, measured_arms, planned
from intervals import Interval, ratio
from page_tables import MAXENT, MAXVAR, NAMED, STANDARD
from scipy.stats import spearmanr

LATE, SIX = second_plan.LATE, second_plan.SIX
Numbers = dict[str, float]


def interval(name: str, found: Interval) -> Numbers:
    """Return a ratio and its interval."""
    return {name: found.value, f"{name}.low": found.low, f"{name}.high": found.high}


def limits(name: str, values: Iterable[float]) -> Numbers:
    """Return the least and the largest of some values."""
    found = list(values)
    return {f"{name}.low": min(found), f"{name}.high": max(found)} if found else {}


def cheetahs(rows: Sequence[Row]) -> Numbers:
    """Return the numbers on the cheetah's distance and sides."""
    runs = {name: second_plan.group(rows, second_plan.CHEETAHS, "cheetah", name) for name in NAMED}
    six = {name: {seed: row for seed, row in each.items() if seed in SIX} for name, each in runs.items()}
    white = second_plan.group(rows, SIX, "cheetah", MAXENT, "other", second_plan.WHITENED)
    far = {name: second_plan.distances(each) for name, each in runs.items()}
    short = {
        rules: [column(tables.early(rows, "cheetah", name, rules), "distance_20_29") for name in (MAXENT, STANDARD)]
        for rules in ("text", "released")
    }
    left_out = [
        second_plan.further_verdict(far[MAXENT][:k] + far[MAXENT][k + 1 :], far[STANDARD])[0] for k in range(12)
    ]
    left_out += [
        second_plan.further_verdict(far[MAXENT], far[STANDARD][:k] + far[STANDARD][k + 1 :])[0] for k in range(12)
    ]
    found = interval("cheetah.maxent", ratio(far[MAXENT], far[STANDARD]))
    found |= interval("cheetah.maxvar", ratio(far[MAXVAR], second_plan.distances(six[STANDARD])))
    found |= interval("cheetah.whiten", ratio(second_plan.distances(white), second_plan.distances(six[STANDARD])))
    found |= interval("cheetah.ranks-over-whiten", second_plan.paired(six[MAXENT], white))
    found |= interval("cheetah.maxvar-over-maxent", second_plan.paired(six[MAXVAR], six[MAXENT]))
    for rules, pair in short.items():
        found |= interval(f"cheetah.{rules}30", ratio(*pair))
    for way in ("left", "right"):
        pair = [
            column(runs[MAXENT].values(), f"{way}_distance_last"),
            column(runs[STANDARD].values(), "right_distance_last"),
        ]
        found |= interval(f"cheetah.{way}", ratio(*pair))
    for name, each in runs.items():
        found[f"cheetah.sides.{name}"] = sum(map(second_plan.has_sides, each.values()))
        found[f"cheetah.soon.{name}"] = float(np.median(column(each.values(), "generations_to_20")))
    found["cheetah.sides.whiten"] = sum(map(second_plan.has_sides, white.values()))
    for rules in ("text", "released"):
        for name in (MAXVAR, MAXENT):
            found[f"cheetah.sides30.{rules}.{name}"] = sum(
                second_plan.has_sides(row, "_20_29") for row in tables.early(rows, "cheetah", name, rules)
            )
    return found | {
        "cheetah.further.p": second_plan.further_verdict(far[MAXENT], far[STANDARD])[0],
        "cheetah.further.fragile": sum(p >= 0.05 for p in left_out),
        "cheetah.power": second_plan.power(far[MAXENT], far[STANDARD]),
    }


def ants(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return the numbers on the ant's ring and distance."""
    arms = tables.by_arm(rows, "run")
    standard, maxvar = (second_plan.group(rows, SIX, "ant", name) for name in (STANDARD, MAXVAR))
    walking = {seed: row for seed, row in standard.items() if number(row, f"distance{LATE}") >= second_plan.FAR}
    found: Numbers = {}
    for arm in ("ranks", "whiten", "spatial", "four"):
        runs = arms[arm]
        found[f"ant.{arm}.even"] = sum(map(second_plan.has_ring, runs.values()))
        found[f"ant.{arm}.distance"] = float(np.mean(second_plan.distances(runs)))
        found |= limits(f"ant.{arm}.ring", tables.rings(list(runs.values())))
        found |= limits(f"ant.{arm}.correlation", np.abs(column(runs.values(), "correlation_last")))
        found |= limits(f"ant.{arm}.directions", column(runs.values(), "directions_last"))
        if arm in ("whiten", "spatial"):
            found |= interval(f"ant.{arm}-over-ranks", second_plan.paired(runs, arms["ranks"]))
        if arm in ("ranks", "whiten"):
            found |= interval(f"ant.{arm}-over-es", ratio(second_plan.distances(runs), second_plan.distances(standard)))
            found |= interval(
                f"ant.{arm}-over-walking", ratio(second_plan.distances(runs), second_plan.distances(walking))
            )
    found |= {f"ant.whiten.ring.{seed}": tables.rings([row])[0] for seed, row in arms["whiten"].items()}
    found |= interval("ant.maxvar-over-es", ratio(second_plan.distances(maxvar), second_plan.distances(standard)))
    for name, runs in (("es", standard), ("ranks", arms["ranks"])):
        found[f"ant.near.{name}"] = float(np.median(column(runs.values(), f"near_origin{LATE}")))
    found["ant.near.p"] = second_plan.further_verdict(
        *(column(runs.values(), f"near_origin{LATE}") for runs in (arms["ranks"], standard))
    )[0]
    elsewhere = tables.replica_arm(measured, "whiten", SIX)
    found["ant.whiten.elsewhere"] = sum(value >= second_plan.RING for value in column(elsewhere, "ring"))
    found |= {f"ant.whiten.elsewhere.{seed}": number(row, "ring") for seed, row in zip(SIX, elsewhere, strict=True)}
    bullet = [row for row, _ in tables.in_bullet(rows) if row["run"] == "ant-fixed-seed0-bullet-many"]
    found |= {"ant.maxvar60.bullet": tables.rings(bullet, "_last")[0]} if bullet else {}
    return found


def others(rows: Sequence[Row]) -> Numbers:
    """Return the numbers on adaptation, offspring of MAML, seeding, mixtures and interference."""
    found: Numbers = {}
    for (rules, name, length), runs in tables.adaptation_groups(rows).items():
        key = f"adapt.{'' if rules == '-' else f'{rules}.'}{name}.{length}"
        found |= {key: float(np.mean(tables.adapted(runs))), f"{key}.n": len(runs)}
        wanted = sum(sum(column(runs, f"adapt_{way}_wanted")) for way in ("left", "right"))
        found |= {f"{key}.wrong": 20 * len(runs) - wanted, f"{key}.starts": 20 * len(runs)}
    for name in (MAXVAR, MAXENT, "MAML"):
        runs = select(rows, robot="cheetah", algorithm=name, kind="sample", engine="mujoco", std="0.02")
        runs = [row for row in runs if row["rules"] == "released" or name == "MAML"]
        found[f"offspring.{name}"] = float(np.mean(column(runs, "distance_last")))
        found[f"offspring.{name}.sd"] = float(np.mean(np.sqrt(column(runs, "distance_variance_last"))))
    seeds = tables.seeding_runs(rows, "released")
    groups = {start: runs for (start, how, _), runs in seeds.items() if start != STANDARD or ", 30 gen" in how}
    found |= {f"seeding.{start}": float(np.mean(column(runs, "x_20"))) for start, runs in groups.items()}
    found["seeding.p"] = max(
        second_plan.further_verdict(*(column(groups[start], f"x_{k}") for start in (MAXENT, "random")))[0]
        for k in (5, 10, 20)
    )
    found |= interval("seeding.ratio", ratio(*(column(groups[start], "x_20") for start in (MAXENT, "random"))))
    for kind in ("mixture", "split"):
        found |= limits(
            f"{kind}.specialization", column(select(rows, robot="ant", kind=kind, rules="text"), "specialization_last")
        )
    last = [row for row in select(rows, robot="interference") if row["generations"] == "6000"]
    return found | limits("interference.x", column(last, "x_settled"))


def heritable(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return the numbers on what belongs to the mutation."""
    found: Numbers = {}
    arms = measured_arms()
    for name in ("share", "heritable", "realised"):
        found |= limits(f"cheetah.one.{name}", column(arms["cheetah", False, "fixed"].values(), name))
        two = [value for arm in TWO_STARTS for value in column(arms["cheetah", False, arm].values(), name)]
        found |= limits(f"cheetah.two.{name}", two)
    planned_ants = {"whiten": SIX, "ranks": SIX, "small": SIX, "four": fourth_plan.ANTS, "own": fourth_plan.ANTS}
    ants = {arm: tables.replica_arm(measured, arm, seeds) for arm, seeds in planned_ants.items()}
    for arm, group in ants.items():
        for name in ("heritable", "share", "realised", "reliable", "distance"):
            found |= limits(f"ant.{arm}.{name}", column(group, name))
        found[f"ant.{arm}.all-sectors"] = sum(value == 8 for value in column(group, "reliable_sectors"))
        if arm != "four" and group:
            pair = column(ants["four"], "heritable"), column(group, "heritable")
            found |= interval(f"ant.four-over-{arm}", ratio(*pair))
            found[f"ant.four-over-{arm}.p"] = fourth_plan.exceeds(*pair)[0]
    tested = planned(bullet=False)
    found |= limits("cheetah.two.amount", [each[0][0].value for each in tested.values()])
    found |= {
        "cheetah.two.amount.p": max(each[0][1] for each in tested.values()),
        "cheetah.two.share.p": max(each[1][1] for each in tested.values()),
    }
    old = tables.old_means(measured)
    homes = {row["digest"]: row for row in rows if row["kind"] == "training"}
    found["means.elsewhere"] = _rank(column(old, "heritable"), column(old, "best_elsewhere"))
    found |= {"means.count": len(old), "means.means": len({row["digest"] for row in old})}
    pairs = [(row, homes[row["digest"]]) for row in old if homes.get(row["digest"], {}).get("adapt_left")]
    for key, names in (("all", (*NAMED, "MAML")), ("ours", (MAXVAR, MAXENT))):
        some = [(row, home) for row, home in pairs if home["algorithm"] in names]
        found[f"means.adapt.{key}"] = _rank(
            column([row for row, _ in some], "heritable"), tables.adapted([home for _, home in some])
        )
        found |= {
            f"means.adapt.{key}.count": len(some),
            f"means.adapt.{key}.means": len({row["digest"] for row, _ in some}),
        }
    return found


def _rank(first: Sequence[float], second: Sequence[float]) -> float:
    return float(spearmanr(first, second).statistic)


def shapes(results: Path) -> Numbers:
    """Return how the rings with ranks are stretched, and how alike the weights of MaxVar and MaxEnt are there."""
    kept = [run for run in read_block(results / "released-d.h5") if "-maxent-" in run.name]
    axes = [np.linalg.eigh(np.cov(run.last.T))[1][:, 1] for run in kept]
    turns = [abs(math.degrees(math.atan2(y, x)) % 90 - 45) for x, y in axes]
    found = {"ant.ranks.axis": float(np.mean(turns))}
    alike = weights_alike()
    for robot in ("cheetah", "ant"):
        for place, way in enumerate(("ranks", "whiten", "narrow")):
            found |= limits(f"weights.{robot}.{way}", [each[place] for name, _, *each in alike if name == robot])
    return found


def quoted(rows: Sequence[Row], measured: Sequence[Row], results: Path) -> Numbers:
    """Return all numbers by name."""
    return cheetahs(rows) | ants(rows, measured) | others(rows) | heritable(rows, measured) | shapes(results)
