"""`ees-mpi metrics`: all measures of a generation, as data and as text; and the table of `ees-mpi measure`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import label, stds, subject
from ees_mpi.analysis.numbers import measures
from ees_mpi.analysis.numbers.measures import BEST_OF, DIRECTED, ENOUGH, MEASURES, SECTORS
from ees_mpi.analysis.numbers.scale import Scale
from ees_mpi.analysis.numbers.tables import columns, number
from ees_mpi.analysis.offspring import check_generation, read_offspring, valid_generations
from ees_mpi.errors import RunFileError
from ees_mpi.run.file import Run

AT_STDS = {  # the measures of `ees-mpi measure`: the heading of a column, and the label of an axis
    "entropy_fixed": ("fixed entropy", "fixed entropy, nats"),
    "covariance_trace": ("variance", "variance"),
    "coverage": ("coverage", "coverage, {cells}"),
    "distance_mean": ("distance", "mean distance"),
    "best_of_40": ("best of 40", "distance of the best of 40"),
}
BEST = (
    f"best of {BEST_OF}: how far the best of {BEST_OF} mutations goes in a direction, averaged over all directions, so "
    "that it may be below the mean distance"
)
FEW = f"; -: fewer than {BEST_OF} valid mutations (--count)"
Facts = dict[str, Any]  # the measures of one generation, by name


def read_measures(run: Run, generation: int | None, every: bool, scale: Scale) -> tuple[list[Facts], list[str]]:
    """Measure a generation of a file, or `every` one; return the results as data and as lines of text."""
    if not every:
        facts = summarize(run, check_generation(run, generation), scale)
        return [facts], text(facts, scale)
    valid, empty = valid_generations(run), {"individuals": 0, "invalid": run["behavior"].shape[1]}
    which = {"file": str(run.path), "label": label(run)}
    rows = [
        summarize(run, g, scale) if g in valid else {**which, "generation": g, **empty} for g in range(run.generations)
    ]
    return rows, table(rows, scale)


def summarize(run: Run, generation: int, scale: Scale) -> Facts:
    """Return all measures of one generation, its warnings, and the lengths that they use."""
    offspring = read_offspring(run, generation)
    facts: Facts = {
        "file": str(run.path),
        "label": label(run),
        "generation": generation,
        "sample_of": subject(run).generation,
        **({"std": float(np.median(run["std"][generation]))} if "std" in run.names else {}),
        "individuals": len(offspring.position),
        "invalid": len(offspring.outcomes.valid) - len(offspring.position),
        "moved": int(measures.beyond_radius(offspring, scale).sum()),
    }
    for name, measure in MEASURES.items():
        if measure.fits(offspring):
            facts[name] = measure.compute(offspring, scale)
    if offspring.position.shape[1] == 1:
        facts["left_share"], facts["right_share"] = measures.sides(offspring, scale)
    if offspring.position.shape[1] == 2:
        facts["direction_histogram"] = measures.directions(offspring, scale).tolist() if facts["moved"] else None
    warnings = [measures.saturation(offspring, scale)]
    if any(name in facts for name in DIRECTED) and 0 < facts["moved"] < ENOUGH:
        warnings.append(f"directions of {facts['moved']} mutations beyond the radius say little; {ENOUGH} are enough")
    lengths = {"cell": scale.cell.tolist(), "radius": scale.radius}
    return facts | {"lengths": lengths, "warnings": [warning for warning in warnings if warning]}


def text(facts: Facts, scale: Scale) -> list[str]:
    """Return the measures of one generation, one per line, each with its meaning."""
    invalid = f", {facts['invalid']} invalid" if facts["invalid"] else ""
    sampled = facts["sample_of"] is not None
    rows = f"sample of generation {facts['sample_of']}" if sampled else f"generation {facts['generation']}"
    rows += f", std {facts['std']:.3g}" if sampled and "std" in facts else ""
    lines = [f"{facts['file']}: {facts['label']}, {rows}, {facts['individuals']} individuals{invalid}; {scale}"]
    details = dict.fromkeys(DIRECTED, f" (of {facts['moved']} beyond the radius)")
    for name, measure in MEASURES.items():
        if name in facts:
            lines.append(f"{name:26} {number(facts[name]):>10}  {measure.about}{details.get(name, '')}")
    if "left_share" in facts:
        left, right = number(facts["left_share"]), number(facts["right_share"])
        lines.append(f"{'left, right':26} {left:>10}  and {right}: shares beyond the radius on either side")
    if "direction_histogram" in facts:
        shares = " ".join(f"{share:.2f}" for share in facts["direction_histogram"] or ()) or f"{'-':>10}"
        lines.append(f"{'directions':26} {shares}  shares by sectors of {360 // SECTORS} degrees, from +x towards +y")
    return lines + [f"warning: {warning}" for warning in facts["warnings"]]


def table(rows: Sequence[Facts], scale: Scale) -> list[str]:
    """Return the measures of several generations, one generation per line."""
    full = next(row for row in rows if "warnings" in row)
    names = [key for key, value in full.items() if isinstance(value, (int, float)) and key != "invalid"]
    cells = [tuple(names), *(tuple(number(row.get(name, math.nan)) for name in names) for row in rows)]
    lines = [f"{rows[0]['file']}: {rows[0]['label']}; {scale}", *columns(cells)]
    warned = [row for row in rows if row.get("warnings")]
    if warned:
        first, where = warned[0]["warnings"][0], f"generation {warned[0]['generation']}"
        lines.append(f"warning: {first} ({where}; {len(warned)} of {len(rows)} generations)")
    return lines


def at_stds(run: Run, scale: Scale) -> list[Facts]:
    """Return some measures of each row of a study."""
    if not stds(run):
        raise RunFileError(f"{run.path} is not a file of ees-mpi measure")
    rows = []
    for row, std in enumerate(stds(run)):
        offspring = read_offspring(run, row)
        facts: Facts = {"std": std, "invalid": int((~offspring.outcomes.valid).sum())}
        rows.append(facts | {name: MEASURES[name].compute(offspring, scale) for name in AT_STDS})
    return rows


def table_of_stds(run: Run, scale: Scale) -> list[str]:
    """Return the table of `ees-mpi measure` as lines of text: the measures against the standard deviation."""
    rows, size, mean = at_stds(run, scale), run.config.population.size, run["mean_behavior"][0].tolist()
    starts = run.config.task.rollouts
    end = f"({', '.join(map(number, mean[:4]))}{', ...' if len(mean) > 4 else ''})"
    if starts > 1:
        end += f", the mean over its {starts} starts"
    title = f"{label(run)}: {size} mutations at each std; the policy itself ends at {end}; {scale.cells}"
    cells = [("std", *(heading for heading, _ in AT_STDS.values()), "invalid")]
    cells += [(f"{row['std']:g}", *(number(row[name]) for name in AT_STDS), str(row["invalid"])) for row in rows]
    few = min(size - row["invalid"] for row in rows) < BEST_OF
    means = [f"all columns: of the mean behaviour of each mutation over its {starts} starts"] if starts > 1 else []
    return [title, *columns(cells), BEST + (FEW if few else ""), *means]
