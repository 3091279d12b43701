"""The tables of results.md and heritability.md, from the rows of numbers.csv and heritability.csv."""

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np
import rules
from endpoints import Row, column, lines, number, of_plan, select, trainings
from plan import WORK
from rules import LATE, SIX

NAMED = MAXVAR, MAXENT, STANDARD = "MaxVar", "MaxEnt", "standard ES"
STARTS = {"random": "random network", **{name: f"network of {name}" for name in NAMED}}
STARTS[STANDARD] += " that walks sideways"
RULES = {"text": "text's rules", "released": "released rules"}
CHANGED = {rules.WHITENED: "whitening", "ranks, L2 0.005, sd 0.1": "ranks and a kernel of 0.1"}  # from the text's rules
INHERITED = {  # column of heritability.csv, and how its numbers are shown
    "heritable variance": ("heritable", (0,)),
    "share": ("heritable_share", (0, 100, " %")),
    "passed on": ("realised", (0, 100, " %")),
}
ARM_RUN = re.compile(r"(ant|cheetah)-maxent-authors(?:-([a-z-]+?))?-mujoco-seed(\d+)(-after30)?")
ARMS = WORK["arms"]  # of the third to the fifth plan, in the order of the tables
SAME = {"first": "whiten"}  # the fifth plan trains as the third does, with other seeds
MAIN = ("ranks", "whiten", "own", "four", "long")  # the arms of the ant that the figure shows


def spread(values: Sequence[float], digits: int = 1, scale: float = 1.0, unit: str = "") -> str:
    """Return the mean of some values, and their range; a dash if there are none."""
    if not values:
        return "-"
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
    return f"{mean}{unit} ({low} to {high})" if len(values) > 1 else f"{mean}{unit}"


def count(runs: Sequence[Mapping[str, object]]) -> str:
    """Return the number of some runs in words."""
    return f"{len(runs)} run{'s' * (len(runs) > 1)}"


def seeding_runs(rows: Sequence[Row], whose: str) -> dict[tuple[str, str], list[Row]]:
    """Return the runs of standard ES towards +x on the ant, by start and first steps.

    By the text's rules the first updates of the plan's trainings are those from a random network.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    random = trainings(rows, "ant", STANDARD, whose) if whose == "text" else []
    for row in select(rows, robot="ant", kind="seeding", engine="mujoco", population="10000", rules=whose) + random:
        found.setdefault((row["start"], row["first_steps"]), []).append(row)
    return {key: of_plan(runs) for key, runs in found.items()}


def mixture_runs(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the mixtures (of random networks, or a split one) on the ant, by the text's rules."""
    return of_plan(select(rows, robot="ant", kind=kind, rules="text"))


def seeding(rows: Sequence[Row]) -> str:
    """Return the table of seeding: mean x after so many updates, with plain Adam or the gentle rule."""
    table = []
    for whose, first, start in itertools.product(RULES, ("full", "gentle"), STARTS):
        if runs := seeding_runs(rows, whose).get((start, first)):
            words = f"{RULES[whose]}{', gentle' * (first == 'gentle')}: {STARTS[start]}"
            table.append((words, f"{len(runs)}", *(f"{np.mean(column(runs, f'x_{n}')):.1f}" for n in (5, 20))))
    return lines(("standard ES begins with", "runs", "x after 5 updates", "after 20"), table)


def adapted(runs: Sequence[Row], ending: str = "") -> list[float]:
    """Return the distance after adaptation of each run, the mean of left and right; `_best`: from its own start."""
    both = [column([row], f"adapt_left{ending}") + column([row], f"adapt_right{ending}") for row in runs]
    return [sum(each) / 2 for each in both if len(each) == 2]


def wrong_side(runs: Sequence[Row]) -> tuple[int, int]:
    """Return how many evaluations of adapted runs end on the wrong side, and how many there are."""
    every = 20 * len(runs)
    return every - int(sum(sum(column(runs, f"adapt_{way}_wanted")) for way in ("left", "right"))), every


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
    return dict(sorted(found.items(), key=lambda each: (*each[0][:2], int(each[0][2]))))


def adaptation(rows: Sequence[Row]) -> str:
    """Return the table of adaptation: from the start of training and from ten others, means of left and right."""
    table = []
    for (whose, algorithm, length), runs in adaptation_groups(rows).items():
        how = f", {RULES[whose]}, {length} generations" if whose in RULES else f", {length} iterations"
        cells = [f"{np.mean(found):.1f}" if (found := adapted(runs, ending)) else "-" for ending in ("_best", "")]
        table.append((f"{algorithm}{how} ({count(runs)})", *cells, "{} of {}".format(*wrong_side(runs))))
    return lines(("trained by", "own start", "ten others", "wrong side"), table)


def bullet(rows: Sequence[Row]) -> str:
    """Return trained means of the replica, rolled out in Bullet, by robot and rules: distance, and sides or ring."""
    homes = {row["digest"]: row for row in rows if row["kind"] == "training" and row["engine"] == "mujoco"}
    groups: dict[str, list[tuple[Row, Row]]] = {}
    for row in select(rows, kind="sample", engine="bullet"):
        home = homes[row["start_digest"]]
        whose = RULES.get(home["rules"]) or CHANGED[home["changed"]]
        groups.setdefault(f"{row['robot']}, {home['algorithm']}, {whose}", []).append((row, home))
    table = []
    for name, pairs in sorted(groups.items(), reverse=True):
        ratios = [number(row, "distance_last") / number(home, "distance_last") for row, home in pairs]
        if "cheetah" in name:
            shown = [f"{100 * np.mean(column(each, 'left_last')):.0f} %" for each in zip(*pairs, strict=True)]
        else:
            shown = [f"{np.mean(rings(each, '_last')):.2f}" for each in zip(*pairs, strict=True)]
        table.append((name, f"{len(pairs)}", spread(ratios, 2), ", ".join(shown)))
    head = ("trained in the replica", "runs", "distance, Bullet over replica")
    return lines((*head, "sides or ring: Bullet, replica"), table)


def rings(runs: Sequence[Row], ending: str = LATE) -> list[float]:
    """Return the ring of each run, over its mean distance: 1 is even, 0 has a gap."""
    return [number(row, f"ring{ending}") / number(row, f"distance{ending}") for row in runs]


def by_arm(rows: Sequence[Row], name: str, robot: str = "ant") -> dict[str, dict[int, Row]]:
    """Return the rows of the third to the fifth plan by arm and seed; the column `name` has the name of the run."""
    found: dict[str, dict[int, Row]] = {arm: {} for arm in ARMS[robot]}  # in their order
    for row in sorted(rows, key=lambda row: row["engine"]):  # a measurement in the replica replaces one in Bullet
        match = ARM_RUN.fullmatch(row[name])
        arm = f"{SAME.get(match[2], match[2] or 'ranks')}{match[4] or ''}" if match else ""
        if match and match[1] == robot and arm in found and (match[2] or int(match[3]) in SIX):
            found[arm][int(match[3])] = row
    return {arm: dict(sorted(runs.items())) for arm, runs in found.items() if runs}


def replica_arm(measured: Sequence[Row], arm: str, seeds: Sequence[int], robot: str = "ant") -> list[Row]:
    """Return the measurements of one arm in the replica, for these seeds."""
    found = by_arm(measured, "mean", robot).get(arm, {})
    return [row for seed, row in found.items() if seed in seeds and row["engine"] == "mujoco"]


def by_training(measured: Sequence[Row], robot: str, shown: Sequence[str] = ()) -> dict[str, dict[int, Row]]:
    """Return what 200 mutations do from 20 unseen starts in the replica, by arm and seed; `shown`: only these arms.

    The seeds 6 to 8 of four own starts were trained before their plan, which they have shaped.
    """
    found: dict[str, dict[int, Row]] = {}
    for arm, runs in by_arm(measured, "mean", robot).items():
        for seed, row in runs.items():
            before = ", before the plan" if (robot, arm) == ("ant", "four") and seed not in rules.ANTS else ""
            if row["engine"] == "mujoco" and (not shown or (arm in shown and not before)):
                found.setdefault(f"{ARMS[robot][arm]}{before}", {})[seed] = row
    return found


def seeds_of(runs: Mapping[int, Row]) -> str:
    """Return the seeds of some runs in words: 6 to 11, 15."""
    parts: list[list[int]] = []
    for seed in sorted(runs):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts)


def arms(rows: Sequence[Row], measured: Sequence[Row], robot: str) -> str:
    """Return all arms with their seeds: what 200 mutations keep from unseen starts, and the rings of the ant."""
    trained = {row["digest"]: row for runs in by_arm(rows, "run", robot).values() for row in runs.values()}
    table = []
    for words, runs in by_training(measured, robot).items():
        columns = [(column(runs.values(), name), *how) for name, how in INHERITED.values()]
        cells = [spread(values, *how) for values, *how in columns]
        if robot == "ant":
            homes = [trained[row["digest"]] for row in runs.values() if row["digest"] in trained]
            there = sum(rules.has_ring(row, "_last_10") for row in homes)
            elsewhere = sum(each >= rules.RING for each in column(runs.values(), "ring"))
            cells += [f"{there} of {len(homes)}", f"{elsewhere} of {len(runs)}"]
            cells += [spread(column(homes, "distance_last_10"), 0)]
        table.append((words, seeds_of(runs), *cells))
    more = ("even rings", "even from other starts", "distance") if robot == "ant" else ()
    return lines((f"how the {robot} was trained", "seeds", *INHERITED, *more), table)


def by_chance(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return how the variance splits of means that were measured twice, by how they were trained."""
    table = []
    matches = {mean: ARM_RUN.fullmatch(mean) for mean in found}
    for robot, arm in [(each, arm) for each in ("ant", "cheetah") for arm in ARMS[each]]:
        each = [found[mean] for mean, match in matches.items() if match and match.group(1, 2) == (robot, arm)]
        if each:
            cells = (spread([parts[key] for parts in each], 0, 100, " %") for key in each[0])
            table.append((f"{robot}, {ARMS[robot][arm]} ({count(each)})", *cells))
    return lines(("trained with", "mutation", "start", "both together", "chance"), table)
