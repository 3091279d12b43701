"""`ees-mpi metrics`: all measures of a generation, as data and as text; and the table of `ees-mpi measure`."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import label, stds, subject
from ees_mpi.analysis.numbers import measures
from ees_mpi.analysis.numbers.measures import BEST_OF, DIRECTED, ENOUGH, MEASURES, SECTORS, Settings
from ees_mpi.analysis.numbers.tables import columns, number
from ees_mpi.analysis.offspring import check_generation, read_offspring, valid_generations
from ees_mpi.errors import RunFileError
from ees_mpi.store.reader import Run, open_run

AT_STDS = {  # the measures of `ees-mpi measure`: the heading of a column, and the label of an axis
    "kernel_entropy": ("kernel entropy", "kernel entropy, nats"),
    "covariance_trace": ("variance", "variance"),
    "coverage": ("coverage", "coverage, cells of side {cell:g}"),
    "distance_mean": ("distance", "mean distance"),
    "best_of_40": ("best of 40", "distance of the best of 40"),
}
ENTROPY = "kernel_entropy"
BEST = (
    f"best of {BEST_OF}: how far the best of {BEST_OF} mutations goes in a direction, averaged over all directions, so "
    "that it may be below the mean distance"
)
FEW = f"; -: fewer than {BEST_OF} valid mutations (--count)"
Facts = dict[str, Any]  # the measures of one generation, by name


def read_measures(
    path: Path, generation: int | None, every: bool, settings: Sequence[Settings], trust: bool = False
) -> tuple[list[Facts], list[str]]:
    """Measure a generation of a file, or `every` one; return the results as data and as lines of text.

    settings: one for each bandwidth; trust: the code that the file names may run
    """
    with open_run(path, trust) as run:
        if not every:
            facts = summarize(run, check_generation(run, generation), settings)
            return [facts], text(facts, settings[0])
        valid, empty = valid_generations(run), {"individuals": 0, "invalid": run["behavior"].shape[1]}
        which = {"file": str(run.path), "label": label(run)}
        rows = [
            summarize(run, g, settings) if g in valid else {**which, "generation": g, **empty}
            for g in range(run.generations)
        ]
    return rows, table(rows, settings[0])


def summarize(run: Run, generation: int, settings: Sequence[Settings]) -> Facts:
    """Return all measures of one generation, with the entropy at each bandwidth."""
    offspring = read_offspring(run, generation)
    facts: Facts = {
        "file": str(run.path),
        "label": label(run),
        "generation": generation,
        "sample_of": subject(run).generation,
        **({"std": float(np.median(run["std"][generation]))} if "std" in run.names else {}),
        "individuals": len(offspring.position),
        "invalid": len(offspring.outcomes.valid) - len(offspring.position),
        "moved": int(measures.beyond_radius(offspring, settings[0]).sum()),
    }
    for name, measure in MEASURES.items():
        if name != ENTROPY and measure.fits(offspring):
            facts[name] = measure.compute(offspring, settings[0])
    if offspring.position.shape[1] == 1:
        facts["left_share"], facts["right_share"] = measures.sides(offspring, settings[0])
    if offspring.position.shape[1] == 2:
        facts["direction_histogram"] = measures.directions(offspring, settings[0]).tolist() if facts["moved"] else None
    facts[ENTROPY] = []
    for kernel in settings:
        value, warning = measures.entropy(offspring, kernel), measures.saturation(offspring, kernel)
        facts[ENTROPY].append({"bandwidth": kernel.kernel(offspring), "value": value, "warning": warning})
    return facts


def text(facts: Facts, settings: Settings) -> list[str]:
    """Return the measures of one generation, one per line, each with its meaning."""
    invalid = f", {facts['invalid']} invalid" if facts["invalid"] else ""
    sampled = facts["sample_of"] is not None
    rows = f"sample of generation {facts['sample_of']}" if sampled else f"generation {facts['generation']}"
    rows += f", std {facts['std']:.3g}" if sampled and "std" in facts else ""
    lines = [f"{facts['file']}: {facts['label']}, {rows}, {facts['individuals']} individuals{invalid}"]
    details = {"near_origin": f"radius {settings.radius:g}", "coverage": f"cells of side {settings.cell:g}"}
    details |= dict.fromkeys(DIRECTED, f"of {facts['moved']} beyond radius {settings.radius:g}")
    for name, measure in MEASURES.items():
        if name != ENTROPY and name in facts:
            detail = f" ({details[name]})" if name in details else ""
            lines.append(f"{name:26} {number(facts[name]):>10}  {measure.about}{detail}")
    for entropy in facts[ENTROPY]:
        about = f"{MEASURES[ENTROPY].about} (bandwidth {entropy['bandwidth']:.3g})"
        lines.append(f"{ENTROPY:26} {number(entropy['value']):>10}  {about}")
    if "left_share" in facts:
        left, right = number(facts["left_share"]), number(facts["right_share"])
        lines.append(f"{'left, right':26} {left:>10}  and {right}: shares beyond the radius on either side")
    if "direction_histogram" in facts:
        shares = " ".join(f"{share:.2f}" for share in facts["direction_histogram"] or ()) or f"{'-':>10}"
        lines.append(f"{'directions':26} {shares}  shares by sectors of {360 // SECTORS} degrees, from +x towards +y")
    return lines + _saturated(facts) + _few(facts)


def table(rows: Sequence[Facts], settings: Settings) -> list[str]:
    """Return the measures of several generations, one generation per line."""
    full = next(row for row in rows if ENTROPY in row)
    names = [key for key, value in full.items() if isinstance(value, (int, float)) and key != "invalid"]
    heads = [f"{ENTROPY}({entropy['bandwidth']:.3g})" for entropy in full[ENTROPY]]
    cells = [(*names, *heads)]
    for row in rows:
        entropies = [entropy["value"] for entropy in row[ENTROPY]] if ENTROPY in row else [math.nan] * len(heads)
        cells.append((*(number(row.get(name, math.nan)) for name in names), *map(number, entropies)))
    units = f"radius {settings.radius:g}, cells of side {settings.cell:g}"
    lines = [f"{rows[0]['file']}: {rows[0]['label']}; {units}", *columns(cells)]
    for warnings in (_saturated, _few):
        if found := [row for row in rows if warnings(row)]:
            first, where = warnings(found[0])[0], f"generation {found[0]['generation']}"
            lines.append(f"{first} ({where}; {len(found)} of {len(rows)} generations)")
    return lines


def _saturated(facts: Facts) -> list[str]:
    return [f"warning: {entropy['warning']}" for entropy in facts.get(ENTROPY, []) if entropy["warning"]]


def _few(facts: Facts) -> list[str]:
    """Return a warning if directions are measured over few offspring."""
    if not any(name in facts for name in DIRECTED) or not 0 < facts["moved"] < ENOUGH:
        return []
    return [f"warning: directions of {facts['moved']} mutations beyond the radius say little; {ENOUGH} are enough"]


def at_stds(run: Run, cell: float) -> list[Facts]:
    """Return some measures of each row of a study; `cell`: the side of a grid cell, for coverage."""
    if not stds(run):
        raise RunFileError(f"{run.path} is not a file of ees-mpi measure")
    rows = []
    for row, std in enumerate(stds(run)):
        offspring = read_offspring(run, row)
        facts: Facts = {"std": std, "invalid": int((~offspring.outcomes.valid).sum())}
        rows.append(facts | {name: MEASURES[name].compute(offspring, Settings(cell=cell)) for name in AT_STDS})
    return rows


def table_of_stds(run: Run, cell: float) -> list[str]:
    """Return the table of `ees-mpi measure` as lines of text: the measures against the standard deviation."""
    rows, size, mean = at_stds(run, cell), run.config.population.size, run["mean_behavior"][0].tolist()
    starts = run.config.task.rollouts
    end = f"({', '.join(map(number, mean[:4]))}{', ...' if len(mean) > 4 else ''})"
    if starts > 1:
        end += f", the mean over its {starts} starts"
    title = f"{label(run)}: {size} mutations at each std; the policy itself ends at {end}; cells of side {cell:g}"
    cells = [("std", *(heading for heading, _ in AT_STDS.values()), "invalid")]
    cells += [(f"{row['std']:g}", *(number(row[name]) for name in AT_STDS), str(row["invalid"])) for row in rows]
    few = min(size - row["invalid"] for row in rows) < BEST_OF
    means = [f"all columns: of the mean behaviour of each mutation over its {starts} starts"] if starts > 1 else []
    return [title, *columns(cells), BEST + (FEW if few else ""), *means]
