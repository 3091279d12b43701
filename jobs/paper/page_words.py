"""The sentences of docs/results.md and README.md that have numbers, and the table of means in Bullet."""

import textwrap
from collections.abc import Sequence

import numpy as np
import second_plan
from endpoints import Row, number, select
from page_tables import MAXENT, MAXVAR, STARTS, column, early, late, lines, over_standard, seeding_runs, sides


def answer(rows: Sequence[Row]) -> str:
    """Return the first paragraph of the page: does the paper reproduce, with which rules, with which number."""
    plan = second_plan.examine(rows)
    main, sides_of, ring_of = plan["distance"], plan["sides"], plan["ring"]
    text = over_standard(rows, "cheetah", MAXENT, "text", "_20_29")
    planned = any(main.runs)
    number_of = f"{main.found}; generations 90 to 99, n = {', '.join(map(str, main.runs))}" if planned else ""
    number_of = number_of or over_standard(rows, "cheetah", MAXENT, "released")
    maxent, ending = late(rows, "cheetah", MAXENT)
    value = float(number_of.split()[0].rstrip(";"))
    close = second_plan.PAPER[0] <= value <= second_plan.PAPER[1]
    robots = "with" if any(ring_of.runs) else "on the cheetah (the ant waits for its runs), with"
    heads = {
        second_plan.AGREES: f"Yes, {robots} the rules of the authors' released program.",
        second_plan.NOT: "No, not with the rules of the authors' released program.",
        second_plan.UNDECIDED: "Not decided, with the rules of the authors' released program.",
    }
    almost = "It comes close" if close else "It does not come close"
    head = heads.get(
        main.verdict, f"{almost}, with the rules of the authors' released program; the planned runs are not complete."
    )
    head += " With the rules of the paper's text, which ran for 30 generations only, it does not."
    words = [
        f"**Does the paper reproduce? {head}**",
        "The number: how far MaxEnt's offspring go, over standard ES, on the paper's cheetah. The paper has 0.94;",
        f"with the released rules it is {number_of}; with the text's rules {text}.",
        f"With the released rules offspring run to both sides in {sides(maxent, ending)}.",
    ]
    if any(ring_of.runs):
        words.append(f"The ant's offspring form a ring in {ring_of.found}.")
    words.append(
        f"Verdicts of the [second plan](reproduce.md): distance {main.verdict}; both sides {sides_of.verdict}; "
    )
    words[-1] += f"the ant's ring {ring_of.verdict}."
    return "\n".join(words) + "\n"


def seeding_ratio(rows: Sequence[Row]) -> str:
    """Return how much further standard ES is from MaxEnt than from a random mean, with each rule of the first steps."""
    words = []
    for rules in ("released", "text"):
        found = seeding_runs(rows, rules)
        for first, way in (("full", "plain Adam"), ("gentle", "the gentle rule")):
            if (MAXENT, first) in found and ("random", first) in found:
                far, base = (np.mean(column(found[start, first], "x_20")) for start in (MAXENT, "random"))
                words.append(f"{far / base:.1f} times with {way} on both sides ({rules} rules)")
    return f"After 20 updates standard ES from MaxEnt is ahead of a random mean: {', '.join(words)}.\n"


def gymnasium_seeding(rows: Sequence[Row]) -> str:
    """Return mean x of standard ES on Gymnasium's cheetah after 5 and 20 updates, from different starts."""
    found = seeding_runs(rows, "text", "gymnasium-cheetah", "200")
    ways = []
    for first, way in (("full", "plain Adam"), ("gentle", "gentle rule")):
        words = []
        for start in ("random", MAXVAR, MAXENT):
            values = [f"{np.mean(column(found[start, first], f'x_{update}')):.1f}" for update in (5, 20)]
            words.append(f"{STARTS[start]} {' and '.join(values)}")
        ways.append(f"{way}: {', '.join(words)}")
    return f"Seeding of the cheetah, N = 200, mean x of standard ES after 5 and 20 updates; {'; '.join(ways)}.\n"


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
        if row["robot"] == "cheetah":
            cells += [
                f"{100 * number(each, 'left_last'):.0f} / {100 * number(each, 'right_last'):.0f} %"
                for each in (row, home)
            ]
        else:
            cells += [f"{number(each, 'ring_last') / number(each, 'distance_last'):.2f}" for each in (row, home)]
        name = f"{row['robot']}, {home['algorithm']}, {home['rules']} rules, seed {home['seed']}"
        name += f", {home['generations']} generations"
        table.append((name, *cells))
    head = ("mean (trained in the replica)", "distance in Bullet", "in the replica")
    return lines((*head, "left / right or ring over distance, Bullet", "the same, replica"), table)


def laptop(rows: Sequence[Row]) -> str:
    """Return in how many small runs in Bullet with the released rules both sides are there."""
    runs = select(rows, robot="cheetah", algorithm=MAXENT, engine="bullet", population="200", rules="released")
    runs = [row for row in runs if row["kind"] == "training"]
    preset = [row for row in runs if row["config"] == "cheetah-maxent-authors-laptop"]
    own = [row for row in runs if row not in preset]
    return (
        "With the released rules and N = 200 in Bullet, a quarter or more on each side: "
        f"{sides(preset, '_last')} from one common start (preset `cheetah-maxent-authors-laptop`), "
        f"{sides(own, '_last')} if each run has its own start."
    )


def short_answer(rows: Sequence[Row]) -> str:
    """Return the answer for the README, in lines of less than 120 characters."""
    main = second_plan.examine(rows)["distance"]
    head = "On the cheetah, yes. " if main.verdict == second_plan.AGREES else ""
    verdict = "" if head else f"; {main.verdict}"
    released = f"{main.found}, n = {main.runs[0]}, 100 generations{verdict}" if any(main.runs) else "not run"
    text = over_standard(rows, "cheetah", MAXENT, "text", "_20_29").replace("; generations 20 to 29", "")
    maxent, ending = late(rows, "cheetah", MAXENT)
    words = (
        f"**Does the paper reproduce?** {head}The mutations of its MaxEnt network go 0.94 times as far as those of "
        "standard ES, to both sides. With the rules of the authors' released program we find "
        f"{released}, and both sides in {sides(maxent, ending)}; the runs of the ant are still to come. With the "
        f"rules of the paper's text it is {text}, 30 generations. [All claims](ees_mpi/docs/results.md)."
    )
    return textwrap.fill(words, 118, break_long_words=False, break_on_hyphens=False) + "\n"


def sides_words(rows: Sequence[Row]) -> str:
    """Return in how many runs both sides are there: N = 10,000 after 30 generations, and N = 600."""
    words = []
    for rules in ("text", "released"):
        found = [f"{name} {sides(early(rows, 'cheetah', name, rules), '_20_29')}" for name in (MAXENT, MAXVAR)]
        words.append(f"{rules} rules: {', '.join(found)}")
    small = []
    for engine, name in (("bullet", "Bullet"), ("mujoco", "the replica")):
        runs = select(rows, robot="cheetah", algorithm=MAXENT, engine=engine, population="600", rules="text")
        there = [min(number(row, "left_last"), number(row, "right_last")) >= 0.1 for row in runs]
        small.append(f"{name} {sum(there)} of {len(there)} runs")
    return (
        "- **Both sides are not certain.** A quarter of the offspring or more on each side, generations 20 to 29, "
        f"{'; '.join(words)}. With N = 600 they are a matter of luck (text rules, MaxEnt, last generation, a tenth or "
        f"more on each side): {', '.join(small)}. {laptop(rows)}\n"
    )
