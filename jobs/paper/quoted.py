"""The numbers that README.md, results.md, heritability.md and further.md quote in running text, by name.

In a page a number stands before its name: `0.93<!-- cheetah.maxent -->`. `python jobs/paper/results.py quoted` prints
all names and values; a test compares each number of a page with its value, to the digits shown. A ratio has the names
NAME, NAME.low and NAME.high (its 90 % interval); several values have NAME.low and NAME.high, the least and the largest.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import first_plan
import heritability
import numpy as np
import page_tables as tables
import rules
from blocks import read_block
from endpoints import Row, column, number, select
from fidelity import weights_alike
from page_tables import HELD_OUT, MAXENT, MAXVAR, NAMED, STANDARD
from rules import ANTS, CHEETAHS, LATE, SIX, STAGES, group, mann_whitney, over, paired, ratio
from scipy.stats import spearmanr

Numbers = dict[str, float]
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


def cheetahs(rows: Sequence[Row]) -> Numbers:
    """Return the numbers on the cheetah's distance and sides."""
    runs = {name: group(rows, CHEETAHS, "cheetah", name) for name in NAMED}
    six = {name: {seed: row for seed, row in each.items() if seed in SIX} for name, each in runs.items()}
    white = group(rows, SIX, "cheetah", MAXENT, "other", rules.WHITENED)
    far, standard = rules.distances(runs[MAXENT]), rules.distances(runs[STANDARD])
    found = interval("cheetah.maxent", ratio(far, standard))
    found |= interval("cheetah.maxvar", over(six[MAXVAR], six[STANDARD]))
    found |= interval("cheetah.whiten", over(white, six[STANDARD]))
    found |= interval("cheetah.ranks-over-whiten", paired(six[MAXENT], white))
    found |= interval("cheetah.maxvar-over-maxent", paired(six[MAXVAR], six[MAXENT]))
    for whose in ("text", "released"):
        early = {name: tables.early(rows, name, whose) for name in NAMED}
        found |= interval(
            f"cheetah.{whose}30", ratio(*(column(early[name], "distance_20_29") for name in (MAXENT, STANDARD)))
        )
        for name in (MAXVAR, MAXENT):
            found[f"cheetah.sides30.{whose}.{name}"] = sum(rules.has_sides(row, "_20_29") for row in early[name])
    for name, each in runs.items():
        found[f"cheetah.sides.{name}"] = sum(map(rules.has_sides, each.values()))
        found[f"cheetah.soon.{name}"] = float(np.median(column(each.values(), "generations_to_20")))
    without_one = [(far[:k] + far[k + 1 :], standard) for k in range(len(far))]
    without_one += [(far, standard[:k] + standard[k + 1 :]) for k in range(len(standard))]
    return found | {
        "cheetah.further.p": mann_whitney(far, standard)[0],
        "cheetah.further.fragile": sum(mann_whitney(*pair)[0] >= rules.LEVEL for pair in without_one),
        "cheetah.power": rules.power(far, standard),
    }


def ants(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return the numbers on the ant's ring and distance."""
    standard, maxvar = (group(rows, SIX, "ant", name) for name in (STANDARD, MAXVAR))
    walking = {seed: row for seed, row in standard.items() if number(row, f"distance{LATE}") >= rules.FAR}
    arms, found = (
        tables.by_arm(rows, "run"),
        interval("ant.maxvar-over-es", over(maxvar, standard)),
    )
    for arm in ("ranks", "whiten", "narrow", "wide"):
        runs = arms[arm]
        found[f"ant.{arm}.even"] = sum(map(rules.has_ring, runs.values()))
        found |= limits(f"ant.{arm}.ring", tables.rings([*runs.values()]))
        found |= limits(f"ant.{arm}.correlation", np.abs(column(runs.values(), "correlation_last")))
        found |= limits(f"ant.{arm}.directions", column(runs.values(), "directions_last"))
        found |= interval(f"ant.{arm}-over-es", over(runs, standard))
        found |= interval(f"ant.{arm}-over-walking", over(runs, walking))
    found |= interval("ant.whiten-over-ranks", paired(arms["whiten"], arms["ranks"]))
    found |= limits("ant.maxvar.directions", column(maxvar.values(), "directions_last"))
    groups = {"es": standard, "ranks": arms["ranks"], "whiten": arms["whiten"]}
    near = {name: column(runs.values(), f"near_origin{LATE}") for name, runs in groups.items()}
    found |= {f"ant.near.{name}": float(np.median(values)) for name, values in near.items()}
    found["ant.near.p"] = mann_whitney(near["ranks"], near["es"])[0]
    found["ant.near.whiten.p"] = mann_whitney(near["whiten"], near["es"])[0]
    late = [column(arms["long"].values(), f"distance{ending}") for ending in ("_last_10", LATE)]
    found |= interval("ant.long.growth", rules.paired_ratio(*late))
    elsewhere = tables.by_arm(measured, "mean")["whiten"]
    found["ant.whiten.elsewhere"] = sum(value >= rules.RING for value in column(elsewhere.values(), "ring"))
    found |= {f"ant.whiten.elsewhere.{seed}": number(row, "ring") for seed, row in elsewhere.items()}
    found |= {f"ant.whiten.ring.{seed}": tables.rings([row])[0] for seed, row in arms["whiten"].items()}
    for arm in ("whiten", "narrow"):
        digests = {row["digest"] for row in arms[arm].values()}
        sampled = [row for row in select(rows, kind="sample", engine="bullet") if row["start_digest"] in digests]
        found[f"ant.{arm}.bullet.even"] = sum(rules.has_ring(row, "_last") for row in sampled)
        found |= limits(f"ant.{arm}.bullet.ring", tables.rings(sampled, "_last"))
    (bullet,) = select(rows, run="ant-fixed-seed0-bullet-many")
    return found | {"ant.maxvar60.bullet": tables.rings([bullet], "_last")[0]}


def others(rows: Sequence[Row]) -> Numbers:
    """Return the numbers on adaptation, offspring of MAML, seeding, mixtures and interference."""
    found: Numbers = {}
    for (whose, name, length), runs in tables.adaptation_groups(rows).items():
        key = f"adapt.{'' if whose == '-' else f'{whose}.'}{name}.{length}"
        found[key] = float(np.mean(tables.adapted(runs)))
        found[f"{key}.wrong"], found[f"{key}.starts"] = tables.wrong_side(runs)
    same = [*group(rows, SIX, "cheetah", MAXENT).values()]
    found["adapt.same-seeds"] = float(np.mean(tables.adapted(same)))
    found["adapt.same-seeds.wrong"], _ = tables.wrong_side(same)
    for name in (MAXVAR, MAXENT, "MAML"):
        runs = select(rows, robot="cheetah", algorithm=name, kind="sample", engine="mujoco", std="0.02")
        runs = [row for row in runs if row["rules"] == "released" or name == "MAML"]
        found[f"offspring.{name}"] = float(np.mean(column(runs, "distance_last")))
        found[f"offspring.{name}.sd"] = float(np.mean(np.sqrt(column(runs, "distance_variance_last"))))
    seeds = tables.seeding_runs(rows, "released")
    groups = {start: runs for (start, how, _), runs in seeds.items() if start != STANDARD or ", 100 gen" in how}
    found |= {f"seeding.{start}": float(np.mean(column(runs, "x_20"))) for start, runs in groups.items()}
    for start in ("random", STANDARD):
        pairs = [[column(groups[each], f"x_{updates}") for each in (MAXENT, start)] for updates in (5, 10, 20)]
        found[f"seeding.{start}.p"] = max(mann_whitney(*pair)[0] for pair in pairs)
    homes = {row["digest"]: row for row in rows if row["kind"] == "training"}
    walked = [number(homes[row["start_digest"]], f"distance{LATE}") >= 30 for row in groups[STANDARD]]
    reached = np.array(column(groups[STANDARD], "x_20"))
    found |= limits("seeding.far", reached[walked]) | limits("seeding.slow", reached[np.logical_not(walked)])
    for kind in ("mixture", "split"):
        runs = select(rows, robot="ant", kind=kind, rules="text")
        found |= limits(f"{kind}.specialization", column(runs, "specialization_last"))
    claims = {each.claim["name"]: each.answers for each in first_plan.examine(rows)}
    maml, maxvar, _ = (answer.p for answer in claims["cheetah-adaptation"])
    found |= {"first.maxent-maml.p": maml, "first.maxent-maxvar.p": maxvar}
    found["first.seeding.p"] = max(answer.p for answer in claims["ant-seeding"])
    return found | limits("interference.x", column(select(rows, robot="interference", generations="6000"), "x_settled"))


def heritable(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return the numbers on what belongs to the mutation."""
    found: Numbers = {}
    arms = heritability.arms(measured)
    for name in ("share", "realised"):
        found |= limits(f"cheetah.one.{name}", column(arms["cheetah", False, "fixed"].values(), name))
        two = [row for arm in heritability.TWO_STARTS for row in arms["cheetah", False, arm].values()]
        found |= limits(f"cheetah.two.{name}", column(two, name))
    tested = heritability.planned(arms, bullet=False).values()
    found |= limits("cheetah.two.amount", [amount.value for (amount, _), _ in tested])
    found["cheetah.two.amount.p"], found["cheetah.two.share.p"] = (max(each[k][1] for each in tested) for k in (0, 1))
    seeds = dict.fromkeys(("four", "own", "two", "sixteen"), ANTS) | dict.fromkeys(("staged", "long"), STAGES)
    named = ("whiten", "ranks", "small", "ranks-four", "narrow", "wide", "continued", *seeds)
    ants = {arm: tables.replica_arm(measured, arm, seeds.get(arm, SIX)) for arm in named}
    fresh = tables.replica_arm(measured, "whiten", STAGES)
    ants |= {"fresh": fresh, "one": ants["whiten"] + fresh}  # the fourth plan compares with `whiten` only
    for arm, runs in ants.items():
        for name in ("heritable", "share", "realised", "reliable", "distance", *HELD_OUT):
            found |= limits(f"ant.{arm}.{name}", column(runs, name))
        for name, key in (("all-sectors", "reliable_sectors"), ("all-sectors-held-out", "held_out_sectors")):
            found[f"ant.{arm}.{name}"] = sum(value == 8 for value in column(runs, key))
        if arm != "four" and runs:
            found |= compared(f"ant.four-over-{arm}", ants["four"], runs, "heritable")
            found |= compared(f"ant.four-over-{arm}.share", ants["four"], runs, "share")
    for first, second in (("ranks", "whiten"), ("staged", "long"), ("long", "four"), ("fresh", "whiten")):
        for name in ("heritable", "share"):
            found |= compared(f"ant.{first}-over-{second}.{name}", ants[first], ants[second], name)
    for arm in ("four", "long"):
        found |= compared(f"ant.{arm}-over-one.distance", ants[arm], ants["one"], "distance")
        found[f"ant.{arm}.elsewhere"] = sum(value >= rules.RING for value in column(ants[arm], "ring"))
    every, trained = tables.by_arm(measured, "mean"), tables.by_arm(rows, "run")
    rings = [every[arm][seed] for arm in ONE_START for seed, row in trained[arm].items() if rules.has_ring(row)]
    for name in ("share", "realised"):
        found |= limits(f"ant.even.{name}", column(rings, name))
    for four, one in (("ranks-four", "ranks"), ("continued", "whiten"), ("staged", "whiten")):
        gains = {
            seed: number(row, "heritable") / number(every[one][seed], "heritable") for seed, row in every[four].items()
        }
        found |= limits(f"ant.{four}-over-{one}", gains.values())
        found |= {f"ant.{four}-over-{one}.{seed}": gain for seed, gain in gains.items()}
    for robot in ("ant", "cheetah"):
        (row,) = (row for row in measured if row["mean"] == f"gymnasium-{robot}-maxent")
        found |= {f"gymnasium.{robot}.{name}": number(row, name) for name in ("share", "realised")}
    return found | four_starts(rows, measured) | means(rows, measured)


def four_starts(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return the numbers on cheetahs with four own starts, and on those of the laptop; distances of single rollouts."""
    found: Numbers = {}
    arms = tables.by_arm(measured, "mean", "cheetah")
    for arm, runs in arms.items():
        for name in ("heritable", "share", "realised", "best_elsewhere"):
            found |= limits(f"cheetah.{arm}.{name}", column(runs.values(), name))
            found[f"cheetah.{arm}.{name}"] = float(np.mean(column(runs.values(), name)))
    for name in ("heritable", "share", "best_elsewhere"):
        pair = [[*arms[arm].values()] for arm in ("four", "ranks")]
        found |= compared(f"cheetah.four.over.{name}", *pair, name)
    trained, standard = tables.by_arm(rows, "run", "cheetah")["four"], group(rows, SIX, "cheetah", STANDARD)
    for key, ending in (("", LATE), ("30", "_20_29")):
        single = column(trained.values(), f"single{ending}")
        found |= interval(f"cheetah.four{key}.over.es", ratio(single, column(standard.values(), f"distance{ending}")))
        found[f"cheetah.four{key}.sides"] = sum(rules.has_sides(row, ending) for row in trained.values())
    return found


def engines(results: Path) -> Numbers:
    """Return what the same mutations of ants do from the same starts in Bullet, and with other kernels."""
    found: Numbers = {}
    raw = heritability.raw_places(results)
    pairs = heritability.in_both_engines(raw)
    amounts: dict[str, list[list[float]]] = {}
    for arm in ("four", "whiten"):
        chosen = [pair for (each, _), pair in pairs.items() if each == arm]
        for engine, numbers in zip(("bullet", "as-in-bullet"), zip(*chosen, strict=True), strict=False):
            for name in ("heritable", "share"):
                found |= limits(f"ant.{arm}.{engine}.{name}", [each[name] for each in numbers])
            amounts.setdefault(engine, []).append([each["heritable"] for each in numbers])
        found |= limits(f"ant.{arm}.bullet.alike", [bullet["alike"] for bullet, _ in chosen])
    for engine, groups in amounts.items():
        found |= interval(f"ant.four-over-whiten.{engine}", ratio(*groups))
    parts = heritability.with_other_rounding(raw)
    for arm in ("four", "whiten"):
        chosen = {mean: each for mean, each in parts.items() if mean.startswith(f"ant-maxent-authors-{arm}-")}
        found[f"ant.{arm}.bullet.chance"] = chosen.pop(f"ant-maxent-authors-{arm}-mujoco-seed7-bullet")["chance"]
        found[f"ant.{arm}.chance.7"] = chosen[f"ant-maxent-authors-{arm}-mujoco-seed7"]["chance"]
        for name in ("both", "chance"):
            found |= limits(f"ant.{arm}.{name}", [each[name] for each in chosen.values()])
    places = raw["ant-maxent-authors-whiten-mujoco-seed10-starts"]
    return found | {"ant.whiten.left.10": float((places[..., 0] < 0).mean())}


def means(rows: Sequence[Row], measured: Sequence[Row]) -> Numbers:
    """Return rank correlations of the heritable variance with the best mutation elsewhere, and with adaptation."""
    old, homes = tables.old_means(measured), {row["digest"]: row for row in rows if row["kind"] == "training"}
    found = {"means.count": len(old), "means.means": len({row["digest"] for row in old})}
    found["means.elsewhere"] = spearmanr(column(old, "heritable"), column(old, "best_elsewhere")).statistic
    pairs = [(row, homes[row["digest"]]) for row in old if homes.get(row["digest"], {}).get("adapt_left")]
    for key, names in (("all", (*NAMED, "MAML")), ("ours", (MAXVAR, MAXENT))):
        some, adapted = zip(*(pair for pair in pairs if pair[1]["algorithm"] in names), strict=True)
        found[f"means.adapt.{key}"] = spearmanr(column(some, "heritable"), tables.adapted(adapted)).statistic
        found[f"means.adapt.{key}.count"] = len(some)
        found[f"means.adapt.{key}.means"] = len({row["digest"] for row in some})
    return found


def shapes(results: Path) -> Numbers:
    """Return how the rings with ranks are stretched, and how alike the weights of MaxVar and MaxEnt are there."""
    kept = [run for run in read_block(results / "released-d.h5") if "-maxent-" in run.name]
    axes = [np.linalg.eigh(np.cov(run.last.T))[1][:, 1] for run in kept]
    found = {"ant.ranks.axis": float(np.mean([abs(math.degrees(math.atan2(y, x)) % 90 - 45) for x, y in axes]))}
    spread = 12**-0.5  # the standard deviation of ranks, which are even from -0.5 to 0.5
    found |= {f"kernel.{way}": width / spread for way, width in (("ranks", 0.5**0.5), ("narrow", 0.1))}
    alike = weights_alike()
    for robot in ("cheetah", "ant"):
        for place, way in enumerate(("ranks", "whiten", "narrow")):
            found |= limits(f"weights.{robot}.{way}", [each[place] for name, _, *each in alike if name == robot])
    return found


def quoted(rows: Sequence[Row], measured: Sequence[Row], results: Path) -> Numbers:
    """Return all numbers by name."""
    return (
        cheetahs(rows)
        | ants(rows, measured)
        | others(rows)
        | heritable(rows, measured)
        | engines(results)
        | shapes(results)
    )
