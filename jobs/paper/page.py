"""The tables and sentences with numbers of docs/results.md and README.md, from the rows of numbers.csv."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence

import first_plan
import numpy as np
import second_plan
from endpoints import PAPERS_ROBOTS, Row, column, lines, number, select
from heritability_plan import shares
from intervals import LEVEL, Interval, paired_ratio, ratio

NAMED = MAXVAR, MAXENT, STANDARD = "MaxVar", "MaxEnt", "standard ES"
OPTIMUM = 2.5 * math.pi
NAMES = {"full": "plain Adam", "gentle": "gentle rule", "trust": "trust"}
STARTS = {
    "random": "random mean",
    MAXVAR: MAXVAR,
    MAXENT: MAXENT,
    STANDARD: "control: standard ES",
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
cheetah, MaxEnt: as far backwards, and forwards, as standard ES forwards; last generation | nearly
cheetah: standard ES learns faster; generations until the offspring are 20 units away, median | slightly
cheetah: MaxVar over MaxEnt, same seeds | p > 0.1
cause: ranks over whitening, same seeds, else released rules | -
ant, MaxEnt: nearly all directions can be reached; of 36, by 1,000 offspring | a figure
ant, MaxEnt: an even ring, no sector of eight below a third of its share | a ring
ant, MaxEnt: distance over that of standard ES | 0.83
ant: share of offspring within 5 units, more for standard ES | p < 0.01
ant: a trained mean speeds up standard ES; mean x after 20 updates | p < 0.0005
cheetah: MaxEnt adapts better than MaxVar; distance, mean of left and right (our p: uncorrected) | p < 0.05
cheetah: MaxEnt adapts better than MAML; distance, mean of left and right | p < 0.005
cheetah: offspring go further and vary more than MAML's; mean and sd of distances | p < 0.00005
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


def late(rows: Sequence[Row], robot: str, algorithm: str) -> list[Row]:
    """Return the trainings of the second plan: 100 generations with the released rules, fresh seeds."""
    return list(second_plan.group(rows, second_plan.CHEETAHS, robot, algorithm).values())


def over_standard(rows: Sequence[Row], robot: str, algorithm: str) -> tuple[str, str]:
    """Return the ratio of the distances to standard ES, with its interval: released rules, the text's rules.

    The first is of the same seeds at the end, with the generations; the second of seeds 0 to 5 at generations 20 to 29.
    """
    name = f"distance{second_plan.LATE}"
    pair = [{row["seed"]: number(row, name) for row in late(rows, robot, each)} for each in (algorithm, STANDARD)]
    common = [seed for seed in pair[0] if seed in pair[1]]
    found = ratio(*([each[seed] for seed in common] for each in pair))
    shown = f"{found}; generations {window(second_plan.LATE)}, n = {len(common)}" if common else "-"
    return shown, f"{early_ratio(rows, robot, algorithm, 'text')}"


def early_ratio(rows: Sequence[Row], robot: str, algorithm: str, rules: str) -> Interval:
    """Return the ratio of the distances to standard ES at generations 20 to 29, seeds 0 to 5."""
    return ratio(*(column(early(rows, robot, name, rules), "distance_20_29") for name in (algorithm, STANDARD)))


def window(ending: str) -> str:
    """Return the generations of an endpoint, in words."""
    return ending.strip("_").replace("_", " to ")


def share(runs: Sequence[Row], has: Callable[[Row, str], bool], ending: str) -> str:
    """Return how many runs have a property."""
    return f"{sum(has(row, ending) for row in runs)} of {len(runs)} runs" if runs else "-"


def sides(runs: Sequence[Row], ending: str) -> str:
    """Return in how many runs both sides have a quarter of the offspring."""
    return share(runs, second_plan.has_sides, ending)


def both_methods(groups: Mapping[str, Sequence[Row]], ending: str) -> str:
    """Return in how many runs of MaxEnt both sides are there, and in how many of MaxVar."""
    return f"{sides(groups[MAXENT], ending)}; MaxVar {sides(groups[MAXVAR], ending)}"


def means(name: str, *groups: tuple[str, Sequence[Row]], digits: int = 1) -> str:
    """Return the mean of an endpoint for each group."""
    found = [(words, column(runs, name)) for words, runs in groups]
    return ", ".join(f"{words} {np.mean(values):.{digits}f}" for words, values in found if values) or "-"


def directed(groups: Mapping[str, Sequence[Row]]) -> str:
    """Return how many of 36 directions the runs of each group reach."""
    return ", ".join(f"{name} {spanned(runs, 'directions_last')}" for name, runs in groups.items())


def spanned(runs: Sequence[Row], name: str) -> str:
    """Return the range of an endpoint that is a whole number."""
    found = column(runs, name)
    return f"{min(found):.0f} to {max(found):.0f}" if found else "-"


def both_ways(runs: Sequence[Row], base: Sequence[Row]) -> str:
    """Return how far offspring go to the left and to the right, over standard ES to the right."""
    right = column(base, "right_distance_last")
    return ", ".join(f"{ratio(column(runs, f'{way}_distance_last'), right)}" for way in ("left", "right"))


def sooner(runs: Sequence[Row], base: Sequence[Row]) -> str:
    """Return the median generation in which offspring are 20 units away, and how many runs get there."""
    words = []
    for name, group in ((STANDARD, base), (MAXENT, runs)):
        there = column(group, "generations_to_20")
        missing = f" (of the {len(there)} of {len(group)} runs that get there)" if len(there) < len(group) else ""
        words.append(f"{name} {np.median(there):g}{missing}" if there else f"{name} -")
    return ", ".join(words)


def without_one(runs: Sequence[Row], base: Sequence[Row]) -> str:
    """Return in how many cases p of "standard ES goes further" is 0.05 or more if one run is left out."""
    far, other = (column(group, f"distance{second_plan.LATE}") for group in (runs, base))
    values = [second_plan.further_verdict(far[:k] + far[k + 1 :], other)[0] for k in range(len(far))]
    values += [second_plan.further_verdict(far, other[:k] + other[k + 1 :])[0] for k in range(len(other))]
    above = sum(p >= LEVEL for p in values)
    return f"; without one run 0.05 or more in {above} of {len(values)} cases" if min(len(far), len(other)) > 1 else ""


def without_stuck(rows: Sequence[Row]) -> str:
    """Return the ratio of the ant's distances without those runs of standard ES that never walked, and their seeds."""
    ants, standard = (second_plan.group(rows, second_plan.SIX, "ant", name) for name in (MAXENT, STANDARD))
    stuck = [seed for seed, row in standard.items() if number(row, f"distance{second_plan.LATE}") < second_plan.FAR]
    walking = {seed: row for seed, row in standard.items() if seed not in stuck}
    found = ratio(second_plan.distances(ants), second_plan.distances(walking))
    return f"; without seed {', '.join(map(str, stuck))} of standard ES, which never walked, {found}" if stuck else ""


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
    if not select(rows, algorithm="MAML", kind="training", engine="mujoco"):
        first |= dict.fromkeys(("cheetah-adaptation", "cheetah-offspring"), "waits for MAML")
    verdict = {name: each.verdict.replace("not run", "not run yet") for name, each in plan.items()}
    of_ants = f"{plan['ant'].found}{without_stuck(rows)}; MaxVar {over_standard(rows, 'ant', MAXVAR)[0]}"
    cheetah, ant = ({name: early(rows, robot, name, "text") for name in NAMED} for robot in ("cheetah", "ant"))
    p = second_plan.further_verdict(*(column(cheetah[name], "distance_20_29") for name in (MAXENT, STANDARD)))[0]
    runners, walkers = ({name: late(rows, robot, name) for name in NAMED} for robot in ("cheetah", "ant"))
    pairs = ((walkers, second_plan.LATE), (ant, "_last"))
    rings = [share(runs[MAXENT], second_plan.has_ring, ending) for runs, ending in pairs]
    fuller = ", ".join(f"{name} {spanned(walkers[name], 'directions_by_3_last')}" for name in (MAXVAR, MAXENT))
    near = [column(walkers[name], f"near_origin{second_plan.LATE}") for name in (MAXENT, STANDARD)]
    close = means(f"near_origin{second_plan.LATE}", *walkers.items(), digits=3)
    close += f"; medians of the last two {np.median(near[0]):.3f}, {np.median(near[1]):.3f}"
    close += f"; p = {second_plan.further_verdict(*near)[0]:.2g}"
    ways = ((runners[MAXENT], runners[STANDARD]), (cheetah[MAXENT], cheetah[STANDARD]))
    alike = paired_ratio(*(column(cheetah[name], "distance_20_29") for name in (MAXVAR, MAXENT)))
    maml = adapted(adapting(rows, "MAML", "text"))
    better = adaptation_words(rows, "text").replace(" (n = 6)", "").replace("after 30 generations ", "")
    mixed = {kind: select(rows, robot="ant", kind=kind, rules="text", **PAPERS_ROBOTS) for kind in ("mixture", "split")}
    special = [(kind, column(runs, "specialization_last")) for kind, runs in mixed.items()]
    ranges = ", ".join(f"{kind}s {min(found):.2f} to {max(found):.2f}" for kind, found in special if found)
    covered = means("coverage_10_19", ("mixture", mixed["mixture"]), ("one mean", ant[MAXENT]), digits=0)
    both_rules = "; ".join(seeding_words(rows, "text", first_steps) for first_steps in ("gentle", "full"))
    cells = (
        (*over_standard(rows, "cheetah", MAXENT), verdict["distance"]),
        (*over_standard(rows, "cheetah", MAXVAR), second_plan.PLANNED),
        (f"{plan['further'].found}{without_one(*ways[0])}", f"p = {p:.2g}", verdict["further"]),
        (both_methods(runners, second_plan.LATE), both_methods(cheetah, "_20_29"), verdict["sides"]),
        (*(both_ways(runs, base) for runs, base in ways), second_plan.PLANNED),
        (*(sooner(runs, base) for runs, base in ways), second_plan.PLANNED),
        (plan["equal"].found, f"{alike}", verdict["equal"]),
        (plan["cause"].found, "-", verdict["cause"]),
        (f"{directed(walkers)}; by three or more {fuller}", directed(ant), f"chosen afterwards; {second_plan.PLANNED}"),
        (rings[0], f"{rings[1]} after 30 generations", verdict["ring"]),
        (of_ants, over_standard(rows, "ant", MAXENT)[1], second_plan.PLANNED),
        (close, means("near_origin_20_29", *ant.items(), digits=2), f"{second_plan.PLANNED}; {first['ant-origin']}"),
        (
            f"{seeding_words(rows, 'released', 'full')}; {seeding_p(rows)}",
            both_rules,
            f"{'as in the paper, all runs apart; ' * apart(rows)}{second_plan.PLANNED}; {first['ant-seeding']}",
        ),
        (adaptation_words(rows, "released"), better, first["cheetah-adaptation"]),
        (*(against_maml(rows, rules) for rules in ("released", "text")), second_plan.PLANNED if maml else "not run"),
        (spreads(rows, "released"), spreads(rows, "text").replace(" (n = 6)", ""), first["cheetah-offspring"]),
        ("not run", f"{ranges}; all {sum(map(len, mixed.values()))} runs", "no test"),
        ("not run", f"{covered} (generations 10 to 19)", first["ant-mixtures"]),
        ("-", *interference(rows)),
    )
    table = [(*words.split(" | "), *each) for words, each in zip(CLAIMS, cells, strict=True)]
    return lines(("claim", "paper", "released rules", "the text's rules", "verdict"), table)


def against_maml(rows: Sequence[Row], rules: str) -> str:
    """Return the distances after adaptation of MaxEnt and of MAML, which had equal steps."""
    ours, theirs = adapted(early(rows, "cheetah", MAXENT, rules)), adapted(adapting(rows, "MAML", "text"))
    if not theirs:
        return "MAML not run"
    words = f"MaxEnt {np.mean(ours):.1f} (30 generations, n = {len(ours)}), MAML {np.mean(theirs):.1f} "
    words += f"(equal steps, n = {len(theirs)})"
    complete = len(theirs) == first_plan.SEEDS
    return words + (f"; p = {second_plan.further_verdict(ours, theirs)[0]:.2g}" if complete else "")


def open_runs(rows: Sequence[Row]) -> str:
    """Return which runs are still open, in words."""
    count = len(select(rows, robot="cheetah", algorithm="MAML", kind="training", engine="mujoco"))
    missing = first_plan.SEEDS - count
    runs = "MAML, and " if not count else f"{missing} of {first_plan.SEEDS} runs of MAML, and " if missing else ""
    return f"{runs}mixtures with the released rules"


def spreads(rows: Sequence[Row], rules: str) -> str:
    """Return mean and sd of the offspring's distances, std 0.02, by algorithm and length of the training."""
    words = []
    for algorithm in (MAXVAR, MAXENT, "MAML"):
        runs = select(rows, robot="cheetah", algorithm=algorithm, kind="sample", engine="mujoco", std="0.02")
        runs = [row for row in runs if row["rules"] == rules or algorithm == "MAML"]
        of_30 = early(rows, "cheetah", algorithm, rules) if rules == "released" else []
        for some, after in ((of_30, " after 30 generations"), (runs, " after 100" if of_30 else "")):
            if some:
                sd = np.sqrt(np.mean(column(some, "distance_variance_last")))
                far = np.mean(column(some, "distance_last"))
                words.append(f"{algorithm}{after} {far:.1f}, {sd:.1f} (n = {len(some)})")
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
    turns = {row["digest"]: row["direction"] for row in rows if row["kind"] == "training"}
    for rules in ("released", "text"):
        found = seeding_runs(rows, rules)
        for start, words in STARTS.items():
            for first, way in NAMES.items():
                if chosen := found.get(f"{start} {first}"):
                    found_x = [np.mean(column(chosen, f"x_{update}")) for update in updates]
                    cells = [f"{round(x, 2) + 0:.2f}" for x in found_x]  # no minus zero
                    turned = {turns.get(row["start_digest"], "other") for row in chosen if start == STANDARD}
                    shown = words + "".join(f", trained at {angle} degrees" for angle in turned)
                    table.append((rules, shown, way, f"{len(chosen)}", *cells))
    return lines(("rules", "start", "first steps", "runs", *map(str, updates)), table)


def from_both(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the runs of standard ES with the released rules that start from MaxEnt, and from a random mean."""
    found = seeding_runs(rows, "released")
    return [found[f"{start} full"] for start in (MAXENT, "random")]


def seeding_p(rows: Sequence[Row]) -> str:
    """Return p of Mann-Whitney after 5, 10 and 20 updates: from MaxEnt against a random mean, released rules."""
    groups = from_both(rows)
    values = [second_plan.further_verdict(*(column(runs, f"x_{k}") for runs in groups))[0] for k in (5, 10, 20)]
    return f"p = {' / '.join(f'{p:.2g}' for p in values)} after 5, 10, 20"


def apart(rows: Sequence[Row]) -> bool:
    """Return whether every run from MaxEnt is ahead of every run from a random mean after 5, 10 and 20 updates."""
    ours, theirs = from_both(rows)
    return all(min(column(ours, f"x_{k}")) > max(column(theirs, f"x_{k}")) for k in (5, 10, 20))


def ahead_words(rows: Sequence[Row]) -> str:
    """Return how far standard ES is after 20 updates with the released rules, from MaxEnt and from a random mean."""
    groups = [column(runs, "x_20") for runs in from_both(rows)]
    far = [f"{np.mean(values):.0f}" for values in groups]
    counts = " and ".join(dict.fromkeys(str(len(values)) for values in groups))
    words = f"{counts} runs each, {'all of them apart' if apart(rows) else 'not all of them apart'}; no verdict planned"
    control = column(seeding_runs(rows, "released")[f"{STANDARD} full"], "x_20")
    return (
        f"Standard ES from MaxEnt's mean is at x = {far[0]} after 20 updates, from a random one at {far[1]} ({words}), "
        f"from one that standard ES trained sideways at {np.mean(control):.0f} (n = {len(control)}, 30 "
        "generations; MaxEnt had 100)"
    )


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
        if len(found) > 1:
            shown += f"; p = {second_plan.further_verdict(*(adapted(runs) for _, runs in found))[0]:.2g}"
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
    head = ("rules", "", "generations", "runs", "best of 40, from the training's start")
    return lines((*head, "the same mutation, ten other starts", "starts that end on the wanted side"), table)


def in_bullet(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return the samples of trained means in Bullet, each with its training in the replica."""
    by_digest = {row["digest"]: row for row in rows if row["kind"] == "training"}
    by_file = {f"{row['run']}.h5": row for row in rows}
    samples = select(rows, kind="sample", engine="bullet")
    found = [(row, by_file.get(row["start_file"]) or by_digest.get(row["start_digest"])) for row in samples]
    return [(row, home) for row, home in found if home and home["engine"] == "mujoco"]


def bullet_check(rows: Sequence[Row]) -> str:
    """Return trained means of the replica, rolled out in Bullet, by robot and rules: distance, sides, directions."""
    groups: dict[str, list[tuple[Row, Row]]] = {}
    for row, home in in_bullet(rows):
        length = home["generations"] if int(home["generations"]) < 95 else "95 to 100"
        rules = f"{home['rules']} rules" if home["rules"] != "other" else f"text rules but {home['changed']}"
        name = f"{row['robot']}, {home['algorithm']}, {rules}, {length} generations"
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
            shares = [[number(row, "ring_last") / number(row, "distance_last") for row in each] for each in engines]
            shown = [spread(each, 2) for each in shares]
        table.append((name, ", ".join(map(str, seeds)), *cells, spread(ratios, 2), *shown))
    head = ("means, trained in the replica", "seeds", "distance in Bullet", "in the replica", "ratio, by run")
    return lines((*head, "left share or ring over distance, Bullet", "the same, replica"), table)


def bullet_ratio(rows: Sequence[Row]) -> str:
    """Return the ratio of the cheetah's distances, MaxEnt over standard ES, in Bullet and in the replica."""
    planned = [
        (row, home)
        for row, home in in_bullet(rows)
        if row["robot"] == "cheetah" and home["rules"] == "released" and int(home["seed"]) >= first_plan.SEEDS
    ]
    groups = [[pair for pair in planned if pair[1]["algorithm"] == name] for name in (MAXENT, STANDARD)]
    found = [ratio(*([number(pair[k], "distance_last") for pair in group] for group in groups)) for k in (0, 1)]
    counts = " and ".join(str(len(group)) for group in groups)
    return (
        f"MaxEnt over standard ES, cheetah, released rules, last generation: {found[0]} in Bullet, {found[1]} in the "
        f"replica ({counts} runs of the second plan).\n"
    )


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
        "- **Both sides are not certain**: a quarter of the offspring or more on each side, generations 20 to 29, "
        f"{'; '.join(words)}. With N = 600 they are luck (text rules, MaxEnt, a tenth or more): {', '.join(small)}. "
        f"With the released rules and N = 200 in Bullet, a quarter or more: {laptop[0]} from one common start (preset "
        f"`cheetah-maxent-authors-laptop`), {laptop[1]} from a start of their own.\n"
    )


def answer(rows: Sequence[Row]) -> str:
    """Return the first paragraph of the page: does the paper reproduce, with which rules, with which number."""
    plan, count = second_plan.examine(rows), len(early(rows, "cheetah", MAXENT, "text"))
    main, ring, maxvar = plan["distance"], plan["ring"], late(rows, "cheetah", MAXVAR)
    words = [
        f"**Does the paper reproduce? {headline(plan)}**",
        "The number: how far MaxEnt's offspring go, over standard ES, on the paper's cheetah. The paper has 0.94;",
        f"with the released rules it is {main.found}; generations 90 to 99, n = {', '.join(map(str, main.runs))}; "
        f"both sides in {plan['sides'].found}. MaxVar: the paper has 0.92, here it is "
        f"{over_standard(rows, 'cheetah', MAXVAR)[0]}; both sides in {sides(maxvar, second_plan.LATE)} (no verdict "
        "planned).",
        "With whitening, which the text prescribes, and else the same rules, both sides are there in "
        f"{sides(list(whitened_runs(rows).values()), second_plan.LATE)}, too, but the ratio is {whitened(rows)}: ranks "
        f"carry MaxEnt {plan['cause'].found} times as far. With all of the text's rules it is "
        f"{over_standard(rows, 'cheetah', MAXENT)[1]} after 30 generations (n = {count}), where the released rules "
        f"have {early_ratio(rows, 'cheetah', MAXENT, 'released')}.",
        f"The ant's offspring {ring_words(rows)}; an even ring is there in {ring.found}, with whitening instead of "
        f"ranks in {whitened_rings(rows)}.",
        f"{ahead_words(rows)}.",
        f"Open: {open_runs(rows)}. Which rules made the paper's figures is not known. Beyond the paper: how much of "
        "the variety does not change with the start ([heritability](heritability.md)).",
        "Verdicts are those of the [second plan](reproduce.md), which is older than its runs; *not decided* is no "
        "evidence against the paper.",
    ]
    return "\n".join(words) + "\n"


def headline(plan: Mapping[str, second_plan.Finding]) -> str:
    """Return the answer in one sentence, from the verdicts."""
    names = {"distance": "the cheetah's distance", "sides": "its two sides", "ring": "an even ring of the ant"}
    by_verdict: dict[str, list[str]] = {}
    for name, words in names.items():
        by_verdict.setdefault(plan[name].verdict, []).append(words)
    found = []
    for verdict, words in by_verdict.items():
        several, shown = len(words) > 1, " and ".join(words)
        ends = {
            second_plan.AGREES: f" agree{'' if several else 's'} with the paper",
            second_plan.NOT: f" {'are' if several else 'is'} not reproduced",
        }
        found.append(shown + ends.get(verdict, f": {verdict}"))
    return f"With the rules of the authors' released program {'; '.join(found)}."


def ring_words(rows: Sequence[Row]) -> str:
    """Return how far the ant's offspring go with the released rules, and how much of the circle they reach."""
    ants = late(rows, "ant", MAXENT)
    reached = [spanned(ants, f"directions{by}_last") for by in ("", "_by_3")]
    distance = np.mean(column(ants, f"distance{second_plan.LATE}"))
    words = f"1,000 of them reach {reached[0]} of 36 directions ({reached[1]} by three or more)"
    return f"go {distance:.0f} units away; {words}"


def whitened_rings(rows: Sequence[Row]) -> str:
    """Return in how many ants of MaxVar with whitening, and else the released rules, the last ten have an even ring."""
    ants = [row for row in rows if row["run"].startswith("ant-fixed-seed")]
    return f"{share(ants, second_plan.has_ring, '_last_10')} of MaxVar (60 generations; not planned)"


def whitened_runs(rows: Sequence[Row]) -> dict[int, Row]:
    """Return the runs of MaxEnt on the cheetah with whitening, and else the released rules, by seed."""
    return second_plan.group(rows, second_plan.SIX, "cheetah", MAXENT, "other", second_plan.WHITENED)


def whitened(rows: Sequence[Row]) -> Interval:
    """Return the ratio of MaxEnt with whitening, else the released rules, to standard ES after 100 generations."""
    standard = second_plan.group(rows, second_plan.SIX, "cheetah", STANDARD)
    return ratio(*map(second_plan.distances, (whitened_runs(rows), standard)))


def short_answer(rows: Sequence[Row]) -> str:
    """Return the answer for the README, in lines of less than 120 characters."""
    plan = second_plan.examine(rows)
    main = plan["distance"]
    points = (
        f"Cheetah: MaxEnt goes {main.found} times as far as standard ES (the paper: 0.94; n = {main.runs[0]}, 100 "
        f"generations, a replica of its physics), to both sides in {plan['sides'].found}; MaxVar "
        f"{over_standard(rows, 'cheetah', MAXVAR)[0].partition(';')[0]} (the paper: 0.92; "
        f"n = {len(late(rows, 'cheetah', MAXVAR))}; with these rules nearly the same method). With the whitening that "
        f"the paper's text prescribes instead of ranks MaxEnt has {whitened(rows)}.",
        f"Ant: an even ring of mutations is there in {plan['ring'].found} of MaxEnt, with whitening instead of ranks "
        f"in {whitened_rings(rows)}. {ahead_words(rows)}.",
        "Distance after adaptation (the best of 40 mutations; MAML: a gradient step), cheetah: "
        f"{against_maml(rows, 'released')}. The paper has MaxEnt ahead.",
        f"Beyond the paper: of a cheetah's variety, what does not change with its start is {shares()}. Equal rollouts, "
        "60 generations of whitening ([heritability](ees_mpi/docs/heritability.md)).",
        f"Open: {open_runs(rows)}. [Results](ees_mpi/docs/results.md) has all claims.",
    )
    question = textwrap.fill(f"**Does the paper reproduce?** {headline(plan)}", 118)
    wrapper = textwrap.TextWrapper(118, "- ", "  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join((question, "", *map(wrapper.fill, points))) + "\n"
