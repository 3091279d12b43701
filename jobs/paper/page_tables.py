"""The tables of docs/results.md: claims side by side, generations, one rule alone, adaptation, seeding."""

import math
from collections.abc import Iterable, Sequence

import claims
import numpy as np
import second_plan
from endpoints import Row, number, select
from verdicts import FAILS, HOLDS

NAMED = MAXVAR, MAXENT, STANDARD = "MaxVar", "MaxEnt", "standard ES"
PAPERS_ROBOTS = {"engine": "mujoco", "population": "10000"}
OPTIMUM = 2.5 * math.pi
SHOWN = (0, 5, 10, 20)  # updates of the table of seeding; numbers.csv has more
START = "random mean"
FIRST_PLAN = "; generations 20 to 29, n = 6"  # is said once above the table of claims


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def trained(rows: Sequence[Row], robot: str, algorithm: str, rules: str, **more: str) -> list[Row]:
    """Return the trainings of the paper's robots towards +x, N = 10,000."""
    chosen = select(rows, robot=robot, algorithm=algorithm, rules=rules, kind="training", **PAPERS_ROBOTS, **more)
    return [row for row in chosen if row["direction"] in ("", "0")]


def early(rows: Sequence[Row], robot: str, algorithm: str, rules: str) -> list[Row]:
    """Return the trainings with 30 generations, seeds 0 to 5."""
    return [row for row in trained(rows, robot, algorithm, rules, generations="30") if int(row["seed"]) < claims.SEEDS]


def late(rows: Sequence[Row], robot: str, algorithm: str, rules: str = "released") -> tuple[list[Row], str]:
    """Return the longest trainings, and the ending of their endpoints.

    These are the runs of the second plan (generations 90 to 99), or before they exist those with 95 generations.
    """
    chosen = [row for row in trained(rows, robot, algorithm, rules) if int(row["generations"]) >= 95]
    planned = [row for row in chosen if int(row["seed"]) >= claims.SEEDS]
    return (planned, "_90_99") if planned else (chosen, "_85_94")


def column(rows: Sequence[Row], name: str) -> list[float]:
    """Return an endpoint of some runs that have it."""
    return [value for row in rows if math.isfinite(value := number(row, name))]


def over_standard(rows: Sequence[Row], robot: str, algorithm: str, rules: str, ending: str = "") -> str:
    """Return the ratio of the distances to standard ES of the same seeds: interval, generations, number of runs."""
    if ending:
        first, second = (early(rows, robot, name, rules) for name in (algorithm, STANDARD))
    else:
        (first, ending), (second, other) = (late(rows, robot, name, rules) for name in (algorithm, STANDARD))
        if ending != other:  # the planned runs of one group have not begun
            first, second = (trained(rows, robot, name, rules) for name in (algorithm, STANDARD))
            ending = "_85_94"
    column_of = f"distance{ending}"
    seeds = [{row["seed"]: number(row, column_of) for row in each if row.get(column_of)} for each in (first, second)]
    common = [seed for seed in seeds[0] if seed in seeds[1]]
    if not common:
        return "-"
    found = second_plan.ratio(*([each[seed] for seed in common] for each in seeds))
    return f"{found}; generations {window(ending)}, n = {len(common)}"


def window(ending: str) -> str:
    """Return the generations of an endpoint, in words."""
    return ending.strip("_").replace("_", " to ")


def sides(runs: Sequence[Row], ending: str) -> str:
    """Return in how many runs both sides have a quarter of the offspring."""
    there = [second_plan.has_sides(number(row, f"left{ending}"), number(row, f"right{ending}")) for row in runs]
    return f"{sum(there)} of {len(there)} runs" if there else "-"


def rings(runs: Sequence[Row], ending: str) -> str:
    """Return in how many runs the ant has a ring."""
    there = [second_plan.has_ring(number(row, f"ring{ending}"), number(row, f"distance{ending}")) for row in runs]
    return f"{sum(there)} of {len(there)} runs" if there else "-"


def means(name: str, *groups: tuple[str, Sequence[Row]], digits: int = 1) -> str:
    """Return the mean of an endpoint for each group."""
    found = [(words, column(runs, name)) for words, runs in groups]
    return ", ".join(f"{words} {np.mean(values):.{digits}f}" for words, values in found if values) or "-"


CLAIMS = (  # words, and the paper's number
    ("cheetah, MaxEnt: distance over that of standard ES", "0.94"),
    ("cheetah, MaxVar: the same", "0.92"),
    ("cheetah: standard ES goes further than MaxEnt", "p < 0.05"),
    ("cheetah, MaxEnt: both sides have a quarter of the offspring or more", "two sides"),
    ("cheetah: MaxVar over MaxEnt, same seeds", "p > 0.1"),
    ("cause: ranks over whitening, same seeds, else released rules", "-"),
    ("ant, MaxEnt: offspring form a ring", "a ring"),
    ("ant, MaxEnt: distance over that of standard ES", "0.83"),
    ("ant: share of offspring within 5 units, more for standard ES", "p < 0.01"),
    ("ant: a trained mean speeds up standard ES; mean x after 20 updates", "p < 0.0005"),
    ("cheetah: MaxEnt adapts better than MaxVar; distance, mean of left and right", "p < 0.05"),
    ("cheetah: MaxEnt adapts better than MAML; distance, mean of left and right", "p < 0.005"),
    ("cheetah: offspring go further and vary more than MAML's; mean and sd of 1,000 distances", "p < 0.00005"),
    ("ant: the components of a mixture specialise (1: position tells the component)", "a figure"),
    ("ant: two components cover no more than one mean; cells", "p > 0.1"),
    ("interference, MaxVar and MaxEnt: x converges to 7.854", "a figure"),
)


def claim_table(rows: Sequence[Row]) -> str:
    """Return the table of claims: paper, released rules, the text's rules, verdict."""
    plan = second_plan.examine(rows)
    first = {each.claim.name: f"first plan: {each.verdict}" for each in claims.examine(rows, claims.PLAN)}
    verdict = {name: each.verdict.replace("not run", "not run yet") for name, each in plan.items()}

    def ratios(robot: str, algorithm: str) -> tuple[str, str]:
        released = over_standard(rows, robot, algorithm, "released")
        return released, over_standard(rows, robot, algorithm, "text", "_20_29").removesuffix(FIRST_PLAN)

    cheetah, ant = ({name: early(rows, robot, name, "text") for name in NAMED} for robot in ("cheetah", "ant"))
    near = [column(cheetah[name], "distance_20_29") for name in (MAXENT, STANDARD)]
    maxent, ending = late(rows, "cheetah", MAXENT)
    rings_of, ring_ending = late(rows, "ant", MAXENT)
    standard = late(rows, "ant", STANDARD)[0]
    paired = plan["equal"].found if any(plan["equal"].runs) else pairs(rows, "released")
    maml = means_of("MAML", adapted(adapting(rows, "MAML", "text")))
    cells = [("coverage_10_19", "mixture", mixtures(rows, "mixture")), ("coverage_10_19", "one mean", ant[MAXENT])]
    covered = ", ".join(means(name, (words, runs), digits=0) for name, words, runs in cells)
    found = (
        (*ratios("cheetah", MAXENT), verdict["distance"]),
        (*ratios("cheetah", MAXVAR), second_plan.PLANNED),
        (plan["further"].found, f"p = {second_plan.further_verdict(*near)[0]:.2g}", verdict["further"]),
        (sides(maxent, ending), sides(cheetah[MAXENT], "_20_29"), verdict["sides"]),
        (paired, pairs(rows, "text").removesuffix(FIRST_PLAN), verdict["equal"]),
        (plan["cause"].found, "-", verdict["cause"]),
        (rings(rings_of, ring_ending), f"{rings(ant[MAXENT], '_last')} after 30 generations", verdict["ring"]),
        (*ratios("ant", MAXENT), verdict["ant"]),
        (
            means(f"near_origin{ring_ending}", (MAXENT, rings_of), (STANDARD, standard), digits=2),
            means("near_origin_20_29", *ant.items(), digits=2),
            first["ant-origin"],
        ),
        (seeding_words(rows, "released", "full"), seeding_words(rows, "text", "gentle"), first["ant-seeding"]),
        (
            adaptation_words(rows, "released"),
            adaptation_words(rows, "text").replace(" (n = 6, 30 generations)", ""),
            first["cheetah-adaptation"],
        ),
        (maml, maml, "not run" if "not run" in maml else "no verdict planned"),
        (spreads(rows, "released"), spreads(rows, "text").replace(" (n = 6)", ""), first["cheetah-offspring"]),
        ("not run", specialization(rows), "no test"),
        ("not run", f"{covered} (generations 10 to 19)", first["ant-mixtures"]),
        ("-", *interference(rows)),
    )
    table = [(*words, *cells) for words, cells in zip(CLAIMS, found, strict=True)]
    return lines(("claim", "paper", "released rules", "the text's rules", "verdict"), table)


def span(seeds: Sequence[int]) -> str:
    """Return seeds in words: a range if none is missing."""
    whole = len(seeds) > 2 and sorted(seeds) == list(range(min(seeds), max(seeds) + 1))
    return f"{min(seeds)} to {max(seeds)}" if whole else ", ".join(map(str, seeds))


def means_of(words: str, values: Sequence[float]) -> str:
    """Return the mean of some values, in words."""
    return f"{words} {np.mean(values):.1f} (n = {len(values)})" if values else f"{words} not run"


def spreads(rows: Sequence[Row], rules: str) -> str:
    """Return mean and sd of the distances of 1,000 offspring, std 0.02, by algorithm."""
    words = []
    for algorithm in (MAXVAR, MAXENT, "MAML"):
        wanted = {"robot": "cheetah", "algorithm": algorithm, "kind": "sample", "engine": "mujoco", "std": "0.02"}
        runs = [row for row in select(rows, **wanted) if row["rules"] == rules or algorithm == "MAML"]
        if runs:
            sd = np.sqrt(np.mean(column(runs, "distance_variance_last")))
            words.append(f"{algorithm} {np.mean(column(runs, 'distance_last')):.1f}, {sd:.1f} (n = {len(runs)})")
    return "; ".join(words) or "-"


def pairs(rows: Sequence[Row], rules: str) -> str:
    """Return the paired ratio of MaxVar to MaxEnt at generations 20 to 29."""
    first, second = (early(rows, "cheetah", name, rules) for name in (MAXVAR, MAXENT))
    found = second_plan.paired_ratio(column(first, "distance_20_29"), column(second, "distance_20_29"))
    return f"{found}; generations 20 to 29, n = {found.first}"


def mixtures(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the mixtures, or the splits, of the ant."""
    return select(rows, robot="ant", kind=kind, rules="text", **PAPERS_ROBOTS)


def specialization(rows: Sequence[Row]) -> str:
    """Return the range of the specialization of mixtures and splits."""
    words = []
    for kind in ("mixture", "split"):
        found = column(mixtures(rows, kind), "specialization_last")
        words.append(f"{kind}s {min(found):.2f} to {max(found):.2f}")
    return f"{', '.join(words)}; all {len(mixtures(rows, 'mixture')) + len(mixtures(rows, 'split'))} runs"


def interference(rows: Sequence[Row]) -> tuple[str, str]:
    """Return x of the longest interference runs, and whether it settles within 0.1 of the optimum."""
    found = select(rows, robot="interference")
    longest = max(int(row["generations"]) for row in found)
    values = [number(row, "x_settled") for row in found if int(row["generations"]) == longest]
    near = all(abs(value - OPTIMUM) < 0.1 for value in values)
    ends = dict.fromkeys(f"{value:.3f}" for value in (min(values), max(values)))
    shown = f"{' to '.join(ends)}: {len(values)} runs after {longest:,} generations"
    return shown, f"first plan: {HOLDS if near else FAILS}"


def seeding_runs(
    rows: Sequence[Row], rules: str, robot: str = "ant", size: str = "10000"
) -> dict[tuple[str, str], list[Row]]:
    """Return the runs of standard ES towards +x, by start and rule of the first steps."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in select(rows, robot=robot, kind="seeding", engine="mujoco", population=size):
        if row["rules"] == rules or (rules == "text" and row["changed"] == "trust"):
            first = "trust" if row["changed"] == "trust" else row["first_steps"]
            found.setdefault((row["start"], first), []).append(row)
    return found


NAMES = {"full": "plain Adam", "gentle": "gentle rule", "trust": "trust"}
STARTS = {"random": START, MAXVAR: MAXVAR, MAXENT: MAXENT, STANDARD: "control: standard ES, another direction"}


def seeding_words(rows: Sequence[Row], rules: str, first: str) -> str:
    """Return mean x after 20 updates by start, in one line."""
    found = seeding_runs(rows, rules)
    groups = [(STARTS[start], found.get((start, first), [])) for start in ("random", MAXVAR, MAXENT)]
    shown = means("x_20", *groups)
    return f"{shown} ({NAMES[first]})" if shown != "-" else "not run"


def seeding(rows: Sequence[Row]) -> str:
    """Return the table of seeding: mean x after so many updates, means over the seeds."""
    table = []
    for rules in ("text", "released"):
        found = seeding_runs(rows, rules)
        for start, words in STARTS.items():
            for first, way in NAMES.items():
                if chosen := found.get((start, first)):
                    cells = [f"{np.mean(column(chosen, f'x_{update}')):.2f}" for update in SHOWN]
                    table.append((rules, words, way, f"{len(chosen)}", *cells))
    return lines(("rules", "start", "first steps", "runs", *map(str, SHOWN)), table)


def adapted(runs: Sequence[Row]) -> list[float]:
    """Return the distance after adaptation of each run, the mean of left and right."""
    pairs_of = [(number(row, "adapt_left"), number(row, "adapt_right")) for row in runs]
    return [sum(pair) / 2 for pair in pairs_of if all(map(math.isfinite, pair))]


def adapting(rows: Sequence[Row], algorithm: str, rules: str) -> list[Row]:
    """Return the trainings of the cheetah that may have adaptations; MAML has 40 tasks and no rules of this kind."""
    if algorithm == "MAML":
        return (
            select(rows, robot="cheetah", algorithm="MAML", kind="training", engine="mujoco") if rules == "text" else []
        )
    return trained(rows, "cheetah", algorithm, rules)


def adaptation_groups(rows: Sequence[Row]) -> list[tuple[str, str, str, list[Row]]]:
    """Return the runs with adaptation: rules, algorithm, generations, runs."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for rules in ("text", "released"):
        for algorithm in (MAXVAR, MAXENT, STANDARD, "MAML"):
            for row in adapting(rows, algorithm, rules):
                if row.get("adapt_left"):
                    found.setdefault((rules, algorithm, row["generations"]), []).append(row)
    return [(*key, runs) for key, runs in found.items()]


def adaptation_words(rows: Sequence[Row], rules: str) -> str:
    """Return the distance after adaptation by algorithm, in one line: of the longest runs."""
    groups = [each for each in adaptation_groups(rows) if each[0] == rules and each[1] in (MAXVAR, MAXENT)]
    if not groups:
        return "-"
    longest = {name: max(int(each[2]) for each in groups if each[1] == name) for name in {each[1] for each in groups}}
    words = [
        f"{name} {np.mean(adapted(runs)):.1f} (n = {len(runs)}, {generations} generations)"
        for _, name, generations, runs in groups
        if int(generations) == longest[name]
    ]
    return ", ".join(words)


def adaptation(rows: Sequence[Row]) -> str:
    """Return the table of adaptation: the best of 40 mutations, from the start of training and from ten others."""
    table = []
    for rules, algorithm, generations, runs in adaptation_groups(rows):
        for way in ("left", "right"):
            if not (done := [row for row in runs if row.get(f"adapt_{way}")]):
                continue
            found = (np.mean(column(done, f"adapt_{way}{end}") or [math.nan]) for end in ("_best", ""))
            wanted = f"{sum(column(done, f'adapt_{way}_wanted')):.0f} of {10 * len(done)}"
            cells = ["-" if math.isnan(cell) else f"{cell:.1f}" for cell in found]
            shown = "-" if algorithm == "MAML" else rules
            table.append((shown, f"{algorithm}, {way}", generations, f"{len(done)}", *cells, wanted))
    head = ("rules", "", "generations", "runs", "best of 40, the start of training", "the same one, ten other starts")
    return lines((*head, "starts that end on the wanted side"), table)


def spread(values: Sequence[float], digits: int = 1, scale: float = 1.0, unit: str = "") -> str:
    """Return the mean of some values, and their range; a dash if there are none."""
    if not values:
        return "-"
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
    return f"{mean}{unit} ({low} to {high})" if len(values) > 1 else f"{mean}{unit}"


def generations(rows: Sequence[Row]) -> str:
    """Return the distances of the long runs of the cheetah, released rules, with the ratio to standard ES."""
    table = []
    long = {
        name: [row for row in trained(rows, "cheetah", name, "released") if int(row["generations"]) >= 95]
        for name in (STANDARD, MAXENT, MAXVAR)
    }
    for ending in ("_90_99", "_85_94"):
        beside = {row["seed"]: number(row, f"distance{ending}") for row in long[STANDARD]}
        for algorithm, all_runs in long.items():
            runs = [row for row in all_runs if ending == "_90_99" or not row.get("distance_90_99")]
            runs = [row for row in runs if row.get(f"distance{ending}")]
            if not runs:
                continue
            seeds = span([int(row["seed"]) for row in runs])
            ratios = [number(row, f"distance{ending}") / beside[row["seed"]] for row in runs if row["seed"] in beside]
            same = "-" if algorithm == STANDARD else spread(ratios, 2)
            cells = (spread(column(runs, f"distance{end}")) for end in ("_20_29", ending))
            left = spread(column(runs, f"left{ending}"), 0, 100, " %")
            table.append((algorithm, seeds, *cells, window(ending), same, left))
    head = ("cheetah, released rules", "seeds", "distance, 20 to 29", "distance at the end", "generations")
    return lines((*head, "over standard ES, same seed", "left"), table)


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


def one_rule(rows: Sequence[Row]) -> str:
    """Return the distance at generations 20 to 29, and the balance: one rule alone, and all of them."""
    table = []
    for words, (algorithm, rules, changed) in ONE_RULE.items():
        chosen = [row for row in early(rows, "cheetah", algorithm, rules) if row["changed"] == changed]
        cells = (spread(column(chosen, f"{name}_20_29"), digits) for name, digits in (("distance", 1), ("balance", 2)))
        table.append((words, f"{len(chosen)}", *cells))
    return lines(("cheetah, seeds 0 to 5, generations 20 to 29", "runs", "distance", "balance"), table)
