"""The tables of results.md and heritability.md, from the rows of numbers.csv and heritability.csv."""

import re
from collections.abc import Sequence

import heritability
import numpy as np
import rules
from endpoints import Row, column, lines, number, select, trainings
from plan import WORK
from rules import LATE, SIX

NAMED = MAXVAR, MAXENT, STANDARD = "MaxVar", "MaxEnt", "standard ES"
FIRST_STEPS = {"full": "plain Adam", "gentle": "gentle rule", "trust": "trust"}
STARTS = {"random": "random mean", MAXVAR: MAXVAR, MAXENT: MAXENT, STANDARD: "control: standard ES"}
ONE_RULE: dict[str, tuple[str, ...]] = {
    "standard ES, L2 0.005": (STANDARD, "released"),
    "MaxEnt, released rules": (MAXENT, "released"),
    "MaxVar, released rules": (MAXVAR, "released"),
    "MaxEnt, only ranks": (MAXENT, "other", "ranks"),
    "MaxEnt, only L2 0.005": (MAXENT, "other", "L2 0.005"),
    "MaxEnt, the text's rules": (MAXENT, "text"),
    "MaxVar, the text's rules": (MAXVAR, "text"),
    "standard ES, the text's rules": (STANDARD, "text"),
}
ARM_RUN = re.compile(r"(ant|cheetah)-maxent-authors(?:-([a-z-]+?))?-mujoco-seed(\d+)(-after30)?")
ARMS = WORK["arms"]  # of the third and the fourth plan, in the order of the tables


def early(rows: Sequence[Row], algorithm: str, whose: str, changed: str = "") -> list[Row]:
    """Return the trainings of the cheetah with 30 generations, seeds 0 to 5."""
    chosen = trainings(rows, "cheetah", algorithm, whose, changed)
    return [row for row in chosen if row["generations"] == "30" and int(row["seed"]) < 6]


def spread(values: Sequence[float], digits: int = 1, scale: float = 1.0, unit: str = "") -> str:
    """Return the mean of some values, and their range; a dash if there are none."""
    if not values:
        return "-"
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
    return f"{mean}{unit} ({low} to {high})" if len(values) > 1 else f"{mean}{unit}"


def one_rule(rows: Sequence[Row]) -> str:
    """Return the distance at generations 20 to 29, and the balance: one rule alone, and all of them."""
    table = []
    for words, which in ONE_RULE.items():
        chosen = early(rows, *which)
        cells = (spread(column(chosen, f"{name}_20_29"), digits) for name, digits in (("distance", 1), ("balance", 2)))
        table.append((words, f"{len(chosen)}", *cells))
    return lines(("cheetah, seeds 0 to 5, generations 20 to 29", "runs", "distance", "balance"), table)


def seeding_runs(rows: Sequence[Row], whose: str) -> dict[tuple[str, str, str], list[Row]]:
    """Return the runs of standard ES towards +x on the ant: by start, how a control was trained, and first steps."""
    homes = {row["digest"]: row for row in rows if row["kind"] == "training"}
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in select(rows, robot="ant", kind="seeding", engine="mujoco", population="10000"):
        if row["rules"] == whose or (whose == "text" and row["changed"] == "trust"):
            home = homes.get(row["start_digest"], {}) if row["start"] == STANDARD else {}
            how = f", {home['generations']} generations at {home['direction']} degrees" if home else ""
            found.setdefault((row["start"], how, row["changed"] or row["first_steps"]), []).append(row)
    return found


def seeding(rows: Sequence[Row]) -> str:
    """Return the table of seeding: mean x after so many updates, means over the seeds."""
    updates, table = (0, 5, 10, 20), []
    for whose in ("released", "text"):
        order = {name: place for place, name in enumerate((*STARTS, *FIRST_STEPS))}
        groups = sorted(seeding_runs(rows, whose).items(), key=lambda each: (order[each[0][0]], order[each[0][2]]))
        for (start, how, first), runs in groups:
            cells = [f"{round(np.mean(column(runs, f'x_{update}')), 2) + 0:.2f}" for update in updates]  # no minus zero
            table.append((whose, STARTS[start] + how, FIRST_STEPS[first], f"{len(runs)}", *cells))
    return lines(("rules", "start", "first steps", "runs", *map(str, updates)), table)


def adapted(runs: Sequence[Row]) -> list[float]:
    """Return the distance after adaptation of each run, the mean of left and right."""
    both = [column([row], "adapt_left") + column([row], "adapt_right") for row in runs]
    return [sum(each) / 2 for each in both if len(each) == 2]


def adaptation_kind(row: Row) -> tuple[str, str, str]:
    """Return rules, algorithm and generations of a cheetah that was adapted; MAML has no rules of this kind."""
    earlier = re.fullmatch(r".*-after(\d+)-starts", row["run"])  # an earlier generation of a run with several starts
    several = ", 4 own starts" if earlier else f", {row['rollouts']} own starts" if row["starts"] == "own" else ""
    whose = "-" if row["algorithm"] == "MAML" else row["rules"]
    return whose, f"{row['algorithm']}{several}", earlier[1] if earlier else row["generations"]


def adaptation_groups(rows: Sequence[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Return the cheetahs with adaptation, by rules, algorithm and generations."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in select(rows, robot="cheetah", engine="mujoco"):
        if row["adapt_left"] and row["direction"] in ("", "0") and row["changed"] == "":
            found.setdefault(adaptation_kind(row), []).append(row)
    return dict(sorted(found.items(), key=lambda each: (each[0][0] != "text", each[0][1], int(each[0][2]))))


def adaptation(rows: Sequence[Row]) -> str:
    """Return the table of adaptation: the best of 40 mutations, from the start of training and from ten others."""
    table = []
    for (whose, algorithm, length), runs in adaptation_groups(rows).items():
        for way in ("left", "right"):
            done = [row for row in runs if row[f"adapt_{way}"]]
            found = (column(done, f"adapt_{way}{end}") for end in ("_best", ""))
            cells = [f"{np.mean(values):.1f}" if values else "-" for values in found]
            cells.append(f"{sum(column(done, f'adapt_{way}_wanted')):.0f} of {10 * len(done)}")
            table.append((whose, f"{algorithm}, {way}", length, f"{len(done)}", *cells))
    head = ("rules", "", "generations", "runs", "best of 40, from the training's start")
    return lines((*head, "the same mutation, ten other starts", "starts that end on the wanted side"), table)


def bullet(rows: Sequence[Row]) -> str:
    """Return trained means of the replica, rolled out in Bullet, by robot and rules: distance, sides, directions."""
    homes = {row["digest"]: row for row in rows if row["kind"] == "training" and row["engine"] == "mujoco"}
    groups: dict[str, list[tuple[Row, Row]]] = {}
    for row in select(rows, kind="sample", engine="bullet", population="100"):
        if home := homes.get(row["start_digest"]):
            length = home["generations"] if int(home["generations"]) < 95 else "95 to 100"
            whose = f"{home['rules']} rules" if home["rules"] != "other" else f"text rules but {home['changed']}"
            name = f"{row['robot']}, {home['algorithm']}, {whose}, {length} generations"
            groups.setdefault(name, []).append((row, home))
    table = []
    for name, pairs in sorted(groups.items(), reverse=True):
        seeds = sorted(int(home["seed"]) for _, home in pairs)
        engines = list(zip(*pairs, strict=True))
        cells = [f"{np.mean(column(each, 'distance_last')):.1f}" for each in engines]
        ratios = [number(row, "distance_last") / number(home, "distance_last") for row, home in pairs]
        if "cheetah" in name:
            shown = [spread(column(each, "left_last"), 0, 100, " %") for each in engines]
        else:
            shown = [spread(rings(each, "_last"), 2) for each in engines]
        table.append((name, ", ".join(map(str, seeds)), *cells, spread(ratios, 2), *shown))
    head = ("means, trained in the replica", "seeds", "distance in Bullet", "in the replica", "ratio, by run")
    return lines((*head, "left share or ring over distance, Bullet", "the same, replica"), table)


def rings(runs: Sequence[Row], ending: str = LATE) -> list[float]:
    """Return the ring of each run, over its mean distance: 1 is even, 0 has a gap."""
    return [number(row, f"ring{ending}") / number(row, f"distance{ending}") for row in runs]


def by_arm(rows: Sequence[Row], name: str, robot: str = "ant") -> dict[str, dict[int, Row]]:
    """Return the rows of the third and the fourth plan by arm and seed; the column `name` has the name of the run."""
    found: dict[str, dict[int, Row]] = {arm: {} for arm in ARMS[robot]}  # in their order
    for row in sorted(rows, key=lambda row: row["engine"]):  # a measurement in the replica replaces one in Bullet
        match = ARM_RUN.fullmatch(row[name])
        arm = f"{match[2] or 'ranks'}{match[4] or ''}" if match else ""
        if match and match[1] == robot and arm in found and (match[2] or int(match[3]) in SIX):
            found[arm][int(match[3])] = row
    return {arm: dict(sorted(runs.items())) for arm, runs in found.items() if runs}


def replica_arm(measured: Sequence[Row], arm: str, seeds: Sequence[int], robot: str = "ant") -> list[Row]:
    """Return the measurements of one arm in the replica, for these seeds."""
    found = by_arm(measured, "mean", robot).get(arm, {})
    return [row for seed, row in found.items() if seed in seeds and row["engine"] == "mujoco"]


def ring_table(rows: Sequence[Row], measured: Sequence[Row]) -> str:
    """Return how many ants of each arm have an even ring in training, and from unseen starts."""
    elsewhere, table = by_arm(measured, "mean"), []
    for arm, runs in by_arm(rows, "run").items():
        if all(number(row, "generations") >= 100 for row in runs.values()):
            even, trainings = sum(map(rules.has_ring, runs.values())), list(runs.values())
            others = [elsewhere.get(arm, {}).get(seed, {}).get("ring", "") for seed in runs]
            cells = [f"{min(runs)} to {max(runs)}", f"{even} of {len(runs)}", _each(rings(trainings)), _each(others)]
            cells += [spread(column(trainings, f"distance{LATE}")), _each(column(trainings, "correlation_last"))]
            table.append((ARMS["ant"][arm], *cells))
    head = ("how the ant was trained", "seeds", "runs with an even ring", "ring", "ring from 20 other starts")
    return lines((*head, "distance", "correlation of x and y"), table)


def starts_table(measured: Sequence[Row], robot: str) -> str:
    """Return what 200 mutations do from 20 unseen starts, by arm and seed."""
    digits = {"heritable": 0, "interaction": 0, "share": 2, "consistency": 2, "realised": 2}
    if robot == "ant":
        digits |= {"reliable": 0, "reliable_sectors": 0, "ring": 2, "distance": 1, "distance_of_means": 1}
    else:
        digits |= {"left": 0, "right": 0, "best_elsewhere": 1, "distance": 1, "distance_of_means": 1}
    percent = ("reliable", "left", "right")
    names, table = ARMS[robot], []
    for arm, runs in by_arm(measured, "mean", robot).items():
        for seed, row in runs.items():
            cells = []
            for name, places in digits.items():
                scale, unit = (100, " %") if name in percent else (1, "")
                cells.append(f"{scale * float(row[name]):.{places}f}{unit}" if row[name] else "-")
            where = " (Bullet, 48 x 8)" if row["engine"] == "bullet" else ""
            table.append((f"{names[arm]}{where}", f"{seed}", *cells))
    heads = {"reliable_sectors": "sectors", "distance_of_means": "of means", "best_elsewhere": "best elsewhere"}
    return lines(("how it was trained", "seed", *(heads.get(name, name) for name in digits)), table)


def fourth(measured: Sequence[Row]) -> str:
    """Return the claims of the fourth plan with its verdicts, which wait for all runs."""
    fixed, four, own = (
        replica_arm(measured, arm, seeds) for arm, seeds in (("whiten", SIX), ("four", rules.ANTS), ("own", rules.ANTS))
    )
    table, six = [], len(SIX)
    for name, words in (("heritable", "heritable variance"), ("share", "share")):
        groups = [column(group, name) for group in (four, fixed, own)]
        found = [
            f"{rules.ratio(groups[0], other)} times {whose}, p = {rules.mann_whitney(groups[0], other)[0]:.2g}"
            for other, whose in zip(groups[1:], ("one fixed start", "one own start"), strict=True)
            if len(groups[0]) == len(other) == six
        ]
        verdict = rules.when_complete(six, rules.above_verdict, *groups)
        table.append((f"ant, four own starts: {words}", "; ".join(found) or "-", verdict))
    sectors = [row["reliable_sectors"] for row in four]
    verdict = rules.when_complete(six, rules.ring_verdict, column(four, "reliable_sectors"))
    shown = f"sectors with a reliable mutation: {', '.join(sectors)}" if sectors else "-"
    table.append(("ant, four own starts: a reliable ring", shown, verdict))
    pair = [replica_arm(measured, arm, SIX, "cheetah") for arm in ("four", "ranks")]
    share, amount = ([column(group, name) for group in pair] for name in ("share", "heritable"))
    over, shown = rules.ratio(*amount), "-"
    if pair[0]:
        p = rules.mann_whitney(*share)[0]
        shown = f"share {rules.ratio(*share)}, p = {p:.2g}; heritable variance {over}"
    verdict = rules.when_complete(six, lambda *two: rules.share_verdict(two, over), *share)
    table.append(("cheetah, four own starts: share, and no less heritable variance", shown, verdict))
    return lines(("claim of the fourth plan", "here", "verdict"), table)


def _each(values: Sequence[float | str], digits: int = 2) -> str:
    return ", ".join("-" if value == "" else f"{float(value):.{digits}f}" for value in values)


def means(rows: Sequence[Row], measured: Sequence[Row]) -> str:
    """Return the older measurements of trained means, without the arms of an experiment."""
    homes = {row["digest"]: row for row in rows if row["kind"] == "training"}
    cells = []
    for row in old_means(measured):
        name = row["mean"]
        if home := homes.get(row["digest"]):
            name = f"{home['robot']}, {home['algorithm']}, seed {home['seed']}"
            learned = home["algorithm"] == "MAML"
            name += ", text's rules" if home["rules"] == "text" and not learned else ""
            unit = "iterations" if learned else "generations"
            name += f", {home['generations']} {unit}" if home["generations"] != "100" else ""
        name += f", {row['mutations']} from {row['starts']} in Bullet" if row["engine"] == "bullet" else ""
        names = ("heritable", "share", "consistency", "kept", "best_elsewhere", "distance")
        shown = {key: f"{value:.0f}" if abs(value := float(row[key])) >= 10 else f"{value:.2g}" for key in names}
        shown["share"] += f" ({float(row['low']):.2f} to {float(row['high']):.2f})"
        cells.append((name, *shown.values()))
    return lines(("mean", "heritable", "share", "consistency", "kept", "best elsewhere", "distance"), cells)


def old_means(measured: Sequence[Row]) -> list[Row]:
    """Return the measurements of single means, before the third plan, by their heritable variance."""
    rows = [row for row in measured if not (heritability.ARM.fullmatch(row["mean"]) or row["distance_of_means"])]
    return sorted(rows, key=lambda row: float(row["heritable"]))


def arms(measured: Sequence[Row]) -> str:
    """Return the arms of the experiment with two starts, with a number for each seed."""
    found, cells = heritability.arms(measured), []
    for robot, bullet, arm in sorted(found, key=lambda key: (*key[:2], list(heritability.ARMS).index(key[2]))):
        rows = [row for _, row in sorted(found[robot, bullet, arm].items())]
        ways = [[100 * float(row[way]) for way in ("left", "right", "quarter") if row[way]] for row in rows]
        sides = ", ".join(" / ".join(f"{share:.0f}" for share in each) for each in ways)
        digits = {"heritable": 0, "share": 2, "consistency": 2, "interaction": 0, "realised": 2, "distance": 0}
        shown = [_each([row[name] for row in rows], places) for name, places in digits.items()]
        elsewhere = _each([row["best_elsewhere"] for row in rows], 0)
        cells.append((f"{robot}, {arm}{', in Bullet' * bullet}", *shown, sides, elsewhere))
    where = "left / right (ant: commonest quarter), %"
    head = ("heritable", "share", "consistency", "interaction", "realised", "distance", where, "best elsewhere")
    return lines(("arm, seeds in order", *head), cells)


def tests(measured: Sequence[Row]) -> str:
    """Return the planned tests of that experiment, on both engines."""
    cells = [
        (f"{arm}{', in Bullet' * bullet}", *(text for over, p in each for text in (str(over), f"{p:.2g}")))
        for bullet in (False, True)
        for arm, each in heritability.planned(heritability.arms(measured), bullet).items()
    ]
    head = ("heritable variance over that of `fixed` (90 % interval)", "p", "share over that of `fixed`", "p")
    return lines((f"arm, {heritability.SEEDS} seeds", *head), cells)
