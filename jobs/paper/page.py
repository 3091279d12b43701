"""The tables and sentences with numbers of docs/results.md and README.md, from the rows of numbers.csv."""

import math
import textwrap
from collections.abc import Callable, Sequence

import first_plan
import numpy as np
import second_plan
from endpoints import PAPERS_ROBOTS, Row, column, lines, number, select
from intervals import Interval, paired_ratio, ratio

NAMED = MAXVAR, MAXENT, STANDARD = "MaxVar", "MaxEnt", "standard ES"
OPTIMUM = 2.5 * math.pi
NAMES = {"full": "plain Adam", "gentle": "gentle rule", "trust": "trust"}
STARTS = {
    "random": "random mean",
    MAXVAR: MAXVAR,
    MAXENT: MAXENT,
    STANDARD: "control: standard ES, the opposite direction",
}
ONE_RULE = {
    "standard ES, L2 0.005": (STANDARD, "released", ""),
    "MaxEnt, released rules": (MAXENT, "released", ""),
    "MaxVar, released rules": (MAXVAR, "released", ""),
    "MaxEnt, only ranks": (MAXENT, "other", "ranks"),
    "MaxEnt, only L2 0.005": (MAXENT, "other", "L2 0.005"),
    "MaxEnt, the text's rules": (MAXENT, "text", ""),
    "MaxVar, the text's rules": (MAXVAR, "text", ""),
    "standard ES, the text's rules": (STANDARD, "text", ""),
}
CLAIMS = """cheetah, MaxEnt: distance over that of standard ES | 0.94
cheetah, MaxVar: the same | 0.92
cheetah: standard ES goes further than MaxEnt | p < 0.05
cheetah, MaxEnt: both sides have a quarter of the offspring or more | two sides
cheetah: MaxVar over MaxEnt, same seeds | p > 0.1
cause: ranks over whitening, same seeds, else released rules | -
ant, MaxEnt: offspring form a ring | a ring
ant, MaxEnt: distance over that of standard ES | 0.83
ant: share of offspring within 5 units, more for standard ES | p < 0.01
ant: a trained mean speeds up standard ES; mean x after 20 updates | p < 0.0005
cheetah: MaxEnt adapts better than MaxVar; distance, mean of left and right | p < 0.05
cheetah: MaxEnt adapts better than MAML; distance, mean of left and right | p < 0.005
cheetah: offspring go further and vary more than MAML's; mean and sd of 1,000 distances | p < 0.00005
ant: the components of a mixture specialise (1: position tells the component) | a figure
ant: two components cover no more than one mean; cells | p > 0.1
interference, MaxVar and MaxEnt: x converges to 7.854 | a figure""".splitlines()  # and the paper's number


def trained(rows: Sequence[Row], robot: str, algorithm: str, rules: str) -> list[Row]:
    """Return the trainings of the paper's robots towards +x, N = 10,000."""
    chosen = select(rows, robot=robot, algorithm=algorithm, rules=rules, kind="training", **PAPERS_ROBOTS)
    return [row for row in chosen if row["direction"] in ("", "0")]


def early(rows: Sequence[Row], robot: str, algorithm: str, rules: str) -> list[Row]:
    """Return the trainings with 30 generations, seeds 0 to 5."""
    chosen = trained(rows, robot, algorithm, rules)
    return [row for row in chosen if row["generations"] == "30" and int(row["seed"]) < first_plan.SEEDS]


def late(rows: Sequence[Row], robot: str, algorithm: str) -> tuple[list[Row], str]:
    """Return the longest trainings with the released rules, and the ending of their endpoints.

    These are the runs of the second plan (generations 90 to 99), or before they exist those with 95 generations.
    """
    chosen = [row for row in trained(rows, robot, algorithm, "released") if int(row["generations"]) >= 95]
    planned = [row for row in chosen if int(row["seed"]) >= first_plan.SEEDS]
    return (planned, "_90_99") if planned else (chosen, "_85_94")


def over_standard(rows: Sequence[Row], robot: str, algorithm: str) -> tuple[str, str]:
    """Return the ratio of the distances to standard ES, with its interval: released rules, the text's rules.

    The first is of the same seeds at the end, with the generations; the second of seeds 0 to 5 at generations 20 to 29.
    """
    text = ratio(*(column(early(rows, robot, name, "text"), "distance_20_29") for name in (algorithm, STANDARD)))
    (first, ending), (second, other) = (late(rows, robot, name) for name in (algorithm, STANDARD))
    if ending != other:  # the planned runs of one group have not begun
        first, second = (trained(rows, robot, name, "released") for name in (algorithm, STANDARD))
        ending = "_85_94"
    name = f"distance{ending}"
    by_seed = [{row["seed"]: number(row, name) for row in each if row.get(name)} for each in (first, second)]
    common = [seed for seed in by_seed[0] if seed in by_seed[1]]
    found = ratio(*([each[seed] for seed in common] for each in by_seed))
    return f"{found}; generations {window(ending)}, n = {len(common)}" if common else "-", f"{text}"


def early_pairs(rows: Sequence[Row], rules: str) -> Interval:
    """Return the ratio of MaxVar to MaxEnt of the same seeds at generations 20 to 29."""
    return paired_ratio(*(column(early(rows, "cheetah", name, rules), "distance_20_29") for name in (MAXVAR, MAXENT)))


def window(ending: str) -> str:
    """Return the generations of an endpoint, in words."""
    return ending.strip("_").replace("_", " to ")


def share(runs: Sequence[Row], has: Callable[[Row, str], bool], ending: str) -> str:
    """Return how many runs have a property."""
    return f"{sum(has(row, ending) for row in runs)} of {len(runs)} runs" if runs else "-"


def sides(runs: Sequence[Row], ending: str) -> str:
    """Return in how many runs both sides have a quarter of the offspring."""
    return share(runs, second_plan.has_sides, ending)


def means(name: str, *groups: tuple[str, Sequence[Row]], digits: int = 1) -> str:
    """Return the mean of an endpoint for each group."""
    found = [(words, column(runs, name)) for words, runs in groups]
    return ", ".join(f"{words} {np.mean(values):.{digits}f}" for words, values in found if values) or "-"


def spread(values: Sequence[float], digits: int = 1, scale: float = 1.0, unit: str = "") -> str:
    """Return the mean of some values, and their range; a dash if there are none."""
    if not values:
        return "-"
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
    return f"{mean}{unit} ({low} to {high})" if len(values) > 1 else f"{mean}{unit}"


def claim_table(rows: Sequence[Row]) -> str:
    """Return the table of claims: paper, released rules, the text's rules, verdict."""
    plan = second_plan.examine(rows)
    first = {each.claim.name: f"first plan: {each.verdict}" for each in first_plan.examine(rows)}
    verdict = {name: each.verdict.replace("not run", "not run yet") for name, each in plan.items()}
    for name in ("equal", "ant"):
        verdict[name] = f"{second_plan.PLANNED}; {' and '.join(map(str, plan[name].runs))} of 6 runs"
    of_ants = f"{plan['ant'].found}; generations {window(second_plan.LATE)}" if all(plan["ant"].runs) else "-"
    cheetah, ant = ({name: early(rows, robot, name, "text") for name in NAMED} for robot in ("cheetah", "ant"))
    p = second_plan.further_verdict(*(column(cheetah[name], "distance_20_29") for name in (MAXENT, STANDARD)))[0]
    maxent, ending = late(rows, "cheetah", MAXENT)
    ants, end = late(rows, "ant", MAXENT)
    ring = share(ant[MAXENT], second_plan.has_ring, "_last")
    close = means(f"near_origin{end}", (MAXENT, ants), (STANDARD, late(rows, "ant", STANDARD)[0]), digits=3)
    pairs = early_pairs(rows, "released")
    paired = plan["equal"].found if any(plan["equal"].runs) else f"{pairs}; generations 20 to 29, n = {pairs.runs}"
    maml = adapted(adapting(rows, "MAML", "text"))
    learned = f"MAML {np.mean(maml):.1f} (n = {len(maml)})" if maml else "MAML not run"
    better = adaptation_words(rows, "text").replace(" (n = 6)", "").replace("after 30 generations ", "")
    mixed = {kind: select(rows, robot="ant", kind=kind, rules="text", **PAPERS_ROBOTS) for kind in ("mixture", "split")}
    special = [(kind, column(runs, "specialization_last")) for kind, runs in mixed.items()]
    ranges = ", ".join(f"{kind}s {min(found):.2f} to {max(found):.2f}" for kind, found in special)
    covered = means("coverage_10_19", ("mixture", mixed["mixture"]), ("one mean", ant[MAXENT]), digits=0)
    both_rules = "; ".join(seeding_words(rows, "text", first_steps) for first_steps in ("gentle", "full"))
    cells = (
        (*over_standard(rows, "cheetah", MAXENT), verdict["distance"]),
        (*over_standard(rows, "cheetah", MAXVAR), second_plan.PLANNED),
        (plan["further"].found, f"p = {p:.2g}", verdict["further"]),
        (sides(maxent, ending), sides(cheetah[MAXENT], "_20_29"), verdict["sides"]),
        (paired, f"{early_pairs(rows, 'text')}", verdict["equal"]),
        (plan["cause"].found, "-", verdict["cause"]),
        (share(ants, second_plan.has_ring, end), f"{ring} after 30 generations", verdict["ring"]),
        (of_ants, over_standard(rows, "ant", MAXENT)[1], verdict["ant"]),
        (close, means("near_origin_20_29", *ant.items(), digits=2), first["ant-origin"]),
        (seeding_words(rows, "released", "full"), both_rules, first["ant-seeding"]),
        (adaptation_words(rows, "released"), better, first["cheetah-adaptation"]),
        (learned, learned, second_plan.PLANNED if maml else "not run"),
        (spreads(rows, "released"), spreads(rows, "text").replace(" (n = 6)", ""), first["cheetah-offspring"]),
        ("not run", f"{ranges}; all {sum(map(len, mixed.values()))} runs", "no test"),
        ("not run", f"{covered} (generations 10 to 19)", first["ant-mixtures"]),
        ("-", *interference(rows)),
    )
    table = [(*words.split(" | "), *each) for words, each in zip(CLAIMS, cells, strict=True)]
    return lines(("claim", "paper", "released rules", "the text's rules", "verdict"), table)


def spreads(rows: Sequence[Row], rules: str) -> str:
    """Return mean and sd of the distances of 1,000 offspring, std 0.02, by algorithm."""
    words = []
    for algorithm in (MAXVAR, MAXENT, "MAML"):
        runs = select(rows, robot="cheetah", algorithm=algorithm, kind="sample", engine="mujoco", std="0.02")
        runs = [row for row in runs if row["rules"] == rules or algorithm == "MAML"]
        if runs:
            sd = np.sqrt(np.mean(column(runs, "distance_variance_last")))
            words.append(f"{algorithm} {np.mean(column(runs, 'distance_last')):.1f}, {sd:.1f} (n = {len(runs)})")
    return "; ".join(words) or "-"


def interference(rows: Sequence[Row]) -> tuple[str, str]:
    """Return x of the longest interference runs, and whether it settles within 0.1 of the optimum."""
    found = select(rows, robot="interference")
    longest = max(int(row["generations"]) for row in found)
    values = [number(row, "x_settled") for row in found if int(row["generations"]) == longest]
    near = all(abs(value - OPTIMUM) < 0.1 for value in values)
    ends = dict.fromkeys(f"{value:.3f}" for value in (min(values), max(values)))
    shown = f"{' to '.join(ends)}: {len(values)} runs after {longest:,} generations"
    return shown, f"{'all' if near else 'not all'} within 0.1; no plan"


def generations(rows: Sequence[Row]) -> str:
    """Return the distances of the long runs of the cheetah, released rules, with the ratio to standard ES."""
    table = []
    for ending in ("_90_99", "_85_94"):
        beside: dict[str, float] = {}
        for algorithm in (STANDARD, MAXENT, MAXVAR):
            runs = [row for row in trained(rows, "cheetah", algorithm, "released") if row.get(f"distance{ending}")]
            far = {row["seed"]: number(row, f"distance{ending}") for row in runs}
            beside = beside or far
            runs = [row for row in runs if ending == "_90_99" or not row.get("distance_90_99")]
            if not runs:
                continue
            seeds = [int(row["seed"]) for row in runs]
            whole = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
            ratios = [far[row["seed"]] / beside[row["seed"]] for row in runs if row["seed"] in beside]
            cells = [spread(column(runs, f"distance{end}")) for end in ("_20_29", ending)]
            cells += [window(ending), "-" if algorithm == STANDARD else spread(ratios, 2)]
            left = spread(column(runs, f"left{ending}"), 0, 100, " %")
            words = f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))
            table.append((algorithm, words, *cells, left))
    head = ("cheetah, released rules", "seeds", "distance, 20 to 29", "distance at the end", "generations")
    return lines((*head, "over standard ES, same seed", "left"), table)


def one_rule(rows: Sequence[Row]) -> str:
    """Return the distance at generations 20 to 29, and the balance: one rule alone, and all of them."""
    table = []
    for words, (algorithm, rules, changed) in ONE_RULE.items():
        chosen = [row for row in early(rows, "cheetah", algorithm, rules) if row["changed"] == changed]
        cells = (spread(column(chosen, f"{name}_20_29"), digits) for name, digits in (("distance", 1), ("balance", 2)))
        table.append((words, f"{len(chosen)}", *cells))
    return lines(("cheetah, seeds 0 to 5, generations 20 to 29", "runs", "distance", "balance"), table)


def seeding_runs(rows: Sequence[Row], rules: str, robot: str = "ant", size: str = "10000") -> dict[str, list[Row]]:
    """Return the runs of standard ES towards +x, by start and rule of the first steps."""
    found: dict[str, list[Row]] = {}
    for row in select(rows, robot=robot, kind="seeding", engine="mujoco", population=size):
        if row["rules"] == rules or (rules == "text" and row["changed"] == "trust"):
            found.setdefault(f"{row['start']} {row['changed'] or row['first_steps']}", []).append(row)
    return found


def seeding_words(rows: Sequence[Row], rules: str, first: str) -> str:
    """Return mean x after 20 updates by start, in one line."""
    found = seeding_runs(rows, rules)
    shown = means("x_20", *((STARTS[start], found.get(f"{start} {first}", [])) for start in ("random", MAXVAR, MAXENT)))
    return f"{shown} ({NAMES[first]})" if shown != "-" else "not run"


def seeding(rows: Sequence[Row]) -> str:
    """Return the table of seeding: mean x after so many updates, means over the seeds."""
    updates, table = (0, 5, 10, 20), []
    for rules in ("text", "released"):
        found = seeding_runs(rows, rules)
        for start, words in STARTS.items():
            for first, way in NAMES.items():
                if chosen := found.get(f"{start} {first}"):
                    cells = [f"{np.mean(column(chosen, f'x_{update}')):.2f}" for update in updates]
                    table.append((rules, words, way, f"{len(chosen)}", *cells))
    return lines(("rules", "start", "first steps", "runs", *map(str, updates)), table)


def seeding_ratio(rows: Sequence[Row]) -> str:
    """Return how much further standard ES is from MaxEnt than from a random mean, with each rule of the first steps."""
    words = []
    for rules in ("released", "text"):
        found = seeding_runs(rows, rules)
        for first, way in (("full", "plain Adam"), ("gentle", "the gentle rule")):
            if f"{MAXENT} {first}" in found and f"random {first}" in found:
                far, base = (column(found[f"{start} {first}"], "x_20") for start in (MAXENT, "random"))
                words.append(f"{ratio(far, base)} with {way} ({rules} rules, n = {len(far)})")
    return f"Mean x after 20 updates, from MaxEnt over a random mean: {', '.join(words)}.\n"


def gymnasium_seeding(rows: Sequence[Row]) -> str:
    """Return mean x of standard ES on Gymnasium's cheetah after 5 and 20 updates, from different starts."""
    found = seeding_runs(rows, "text", "gymnasium-cheetah", "200")
    ways = []
    for first in ("full", "gentle"):
        words = []
        for start in ("random", MAXVAR, MAXENT):
            values = [f"{np.mean(column(found[f'{start} {first}'], f'x_{update}')):.1f}" for update in (5, 20)]
            words.append(f"{STARTS[start]} {' and '.join(values)}")
        ways.append(f"{NAMES[first]}: {', '.join(words)}")
    return f"Seeding of the cheetah, N = 200, mean x of standard ES after 5 and 20 updates; {'; '.join(ways)}.\n"


def adapted(runs: Sequence[Row]) -> list[float]:
    """Return the distance after adaptation of each run, the mean of left and right."""
    return [
        sum(each) / 2 for row in runs if len(each := column([row], "adapt_left") + column([row], "adapt_right")) > 1
    ]


def adapting(rows: Sequence[Row], algorithm: str, rules: str) -> list[Row]:
    """Return the trainings of the cheetah that may have adaptations; MAML has 40 tasks and no rules of this kind."""
    if algorithm != "MAML":
        return trained(rows, "cheetah", algorithm, rules)
    return select(rows, robot="cheetah", algorithm="MAML", kind="training", engine="mujoco") if rules == "text" else []


def adaptation_groups(rows: Sequence[Row], rules: str) -> dict[tuple[str, str], list[Row]]:
    """Return the runs with adaptation, by algorithm and generations."""
    found: dict[tuple[str, str], list[Row]] = {}
    for algorithm in (*NAMED, "MAML"):
        for row in adapting(rows, algorithm, rules):
            if row.get("adapt_left"):
                found.setdefault((algorithm, row["generations"]), []).append(row)
    return found


def adaptation_words(rows: Sequence[Row], rules: str) -> str:
    """Return the distance after adaptation by generations and algorithm, in one line."""
    words, groups = [], adaptation_groups(rows, rules)
    lengths = sorted({int(length) for algorithm, length in groups if algorithm in (MAXVAR, MAXENT)})
    for length in lengths:
        found = [(name, groups[name, f"{length}"]) for name in (MAXVAR, MAXENT) if (name, f"{length}") in groups]
        shown = ", ".join(f"{name} {np.mean(adapted(runs)):.1f} (n = {len(runs)})" for name, runs in found)
        words.append(f"after {length} generations {shown}")
    return "; ".join(words) or "-"


def adaptation(rows: Sequence[Row]) -> str:
    """Return the table of adaptation: the best of 40 mutations, from the start of training and from ten others."""
    table = []
    groups = [(rules, *each) for rules in ("text", "released") for each in adaptation_groups(rows, rules).items()]
    for rules, (algorithm, length), runs in groups:
        for way in ("left", "right"):
            if not (done := [row for row in runs if row.get(f"adapt_{way}")]):
                continue
            found = (column(done, f"adapt_{way}{end}") for end in ("_best", ""))
            cells = [f"{np.mean(values):.1f}" if values else "-" for values in found]
            cells.append(f"{sum(column(done, f'adapt_{way}_wanted')):.0f} of {10 * len(done)}")
            shown = "-" if algorithm == "MAML" else rules
            table.append((shown, f"{algorithm}, {way}", length, f"{len(done)}", *cells))
    head = (
        "rules",
        "",
        "generations",
        "runs",
        "best of 40, from the training's start",
        "the same mutation, ten other starts",
    )
    return lines((*head, "starts that end on the wanted side"), table)


def bullet_check(rows: Sequence[Row]) -> str:
    """Return trained means of the replica, rolled out in Bullet: distance, sides or ring, in both engines."""
    by_file = {f"{row['run']}.h5": row for row in rows}
    by_digest = {row["digest"]: row for row in rows if row["kind"] == "training"}
    table = []
    for row in select(rows, kind="sample", engine="bullet"):
        home = by_file.get(row["start_file"]) or by_digest.get(row["start_digest"])
        if not home or home["engine"] != "mujoco":
            continue
        cells = [f"{number(each, 'distance_last'):.1f}" for each in (row, home)]
        for each in (row, home):
            left, right, ring, distance = (
                number(each, f"{name}_last") for name in ("left", "right", "ring", "distance")
            )
            shown = f"{100 * left:.0f} / {100 * right:.0f} %" if row["robot"] == "cheetah" else f"{ring / distance:.2f}"
            cells.append(shown)
        facts = f"{home['rules']} rules, seed {home['seed']}, {home['generations']} generations"
        table.append((f"{row['robot']}, {home['algorithm']}, {facts}", *cells))
    head = ("mean (trained in the replica)", "distance in Bullet", "in the replica")
    return lines((*head, "left / right or ring over distance, Bullet", "the same, replica"), table)


def sides_words(rows: Sequence[Row]) -> str:
    """Return in how many runs both sides are there: N = 10,000 after 30 generations, N = 600, and N = 200."""
    words, small = [], []
    for rules in ("text", "released"):
        found = [f"{name} {sides(early(rows, 'cheetah', name, rules), '_20_29')}" for name in (MAXENT, MAXVAR)]
        words.append(f"{rules} rules: {', '.join(found)}")
    facts = {"robot": "cheetah", "algorithm": MAXENT}
    for engine, name in (("bullet", "Bullet"), ("mujoco", "the replica")):
        runs = select(rows, engine=engine, population="600", rules="text", **facts)
        there = [min(number(row, "left_last"), number(row, "right_last")) >= 0.1 for row in runs]
        small.append(f"{name} {sum(there)} of {len(there)} runs")
    runs = select(rows, engine="bullet", population="200", rules="released", kind="training", **facts)
    common = [row["config"] == "cheetah-maxent-authors-laptop" for row in runs]
    laptop = [sides([row for row, each in zip(runs, common, strict=True) if each == x], "_last") for x in (True, False)]
    return (
        "- **Both sides are not certain.** A quarter of the offspring or more on each side, generations 20 to 29, "
        f"{'; '.join(words)}. With N = 600 they are a matter of luck (text rules, MaxEnt, last generation, a tenth or "
        f"more on each side): {', '.join(small)}. With the released rules and N = 200 in Bullet, a quarter or more on "
        f"each side: {laptop[0]} from one common start (preset `cheetah-maxent-authors-laptop`), {laptop[1]} if each "
        "run has its own start.\n"
    )


def answer(rows: Sequence[Row]) -> str:
    """Return the first paragraph of the page: does the paper reproduce, with which rules, with which number."""
    plan, count = second_plan.examine(rows), len(early(rows, "cheetah", MAXENT, "text"))
    main, ring = plan["distance"], plan["ring"]
    heads = {second_plan.AGREES: "Yes", second_plan.NOT: "No", second_plan.UNDECIDED: "Not decided"}
    ants = {
        second_plan.AGREES: " on the cheetah and on the ant,",
        second_plan.NOT: " on the cheetah, but not the ant's ring,",
        "not run": " on the cheetah (the ant waits for its runs),",
    }
    runs = ", ".join(map(str, main.runs))
    words = [
        f"**Does the paper reproduce? {heads.get(main.verdict, 'Not known yet')},"
        f"{ants.get(ring.verdict, ' on the cheetah (the ring of the ant is not decided),')} with the rules of the "
        "authors' released program. With the rules of the paper's text it does not, as far as they were run: 30 "
        "generations.**",
        "The number: how far MaxEnt's offspring go, over standard ES, on the paper's cheetah. The paper has 0.94;",
        f"with the released rules it is {main.found}; generations 90 to 99, n = {runs}; with the text's rules "
        f"{over_standard(rows, 'cheetah', MAXENT)[1]}; generations 20 to 29, n = {count}, where the released rules "
        f"have {early_ratio(rows)}.",
        f"With the released rules offspring run to both sides in {plan['sides'].found}.",
        *(
            [f"The ant's offspring {ring_words(rows)}: the plan's ring is there in {ring.found}."]
            if any(ring.runs)
            else []
        ),
        f"The cause is that behaviours are ranked: MaxEnt goes {plan['cause'].found} times as far as with whitening, "
        f"all else equal, after 100 generations; with whitening the ratio to standard ES stays at {whitened(rows)}.",
        "A sector counts with a third or more of an even share of the last generation. Open: seeding with the released "
        "rules, and MAML.",
        "Verdicts are those of the [second plan](reproduce.md), which is older than its runs.",
    ]
    return "\n".join(words) + "\n"


def ring_words(rows: Sequence[Row]) -> str:
    """Return how far the ant's offspring go with the released rules, and how much of the circle they fill."""
    ants, end = late(rows, "ant", MAXENT)
    filled = column(ants, "filled_sectors_last")
    return (
        f"go {np.mean(column(ants, f'distance{end}')):.0f} units away, into {min(filled):.0f} to {max(filled):.0f} of "
        "eight sectors"
    )


def early_ratio(rows: Sequence[Row]) -> Interval:
    """Return the ratio of MaxEnt to standard ES with the released rules at generations 20 to 29, seeds 0 to 5."""
    return ratio(*(column(early(rows, "cheetah", name, "released"), "distance_20_29") for name in (MAXENT, STANDARD)))


def whitened(rows: Sequence[Row]) -> Interval:
    """Return the ratio of MaxEnt with whitening, else the released rules, to standard ES after 100 generations."""
    runs = (
        second_plan.group(rows, second_plan.SIX, "cheetah", MAXENT, "other", second_plan.WHITENED),
        second_plan.group(rows, second_plan.SIX, "cheetah", STANDARD),
    )
    return ratio(*map(second_plan.distances, runs))


def short_answer(rows: Sequence[Row]) -> str:
    """Return the answer for the README, in lines of less than 120 characters."""
    plan, count = second_plan.examine(rows), len(early(rows, "cheetah", MAXENT, "text"))
    main, ring = plan["distance"], plan["ring"]
    heads = {second_plan.AGREES: "yes", second_plan.NOT: "no"}
    ants = (
        f"The ant's mutations {ring_words(rows)}: the plan's ring is there in {ring.found}. " if any(ring.runs) else ""
    )
    words = (
        "**Does the paper reproduce?** How far and to which sides mutations of its cheetah run: "
        f"{heads.get(main.verdict, main.verdict)}, with the rules of the authors' released program. MaxEnt goes "
        f"{main.found} times as far as standard ES (the paper: 0.94; n = {main.runs[0]}, 100 generations, a replica "
        f"of its physics), to both sides in {plan['sides'].found}. With the rules of the paper's text it is "
        f"{over_standard(rows, 'cheetah', MAXENT)[1]} after 30 generations (n = {count}), where the "
        f"released rules have {early_ratio(rows)}. The cause: they rank behaviours. "
        f"{ants}Open: seeding with these rules, and MAML. [All claims](ees_mpi/docs/results.md)."
    )
    return textwrap.fill(words, 118, break_long_words=False, break_on_hyphens=False) + "\n"
