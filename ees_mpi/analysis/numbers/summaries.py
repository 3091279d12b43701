"""`ees-mpi metrics`: all metrics of a generation, as data and as text; and the table of `ees-mpi measure`."""

import math
from collections.abc import Sequence
from typing import Any

from ees_mpi import metrics
from ees_mpi.analysis.labels import label, stds, subject
from ees_mpi.analysis.numbers.selection import sample_of, valid_generations
from ees_mpi.analysis.numbers.tables import columns, number
from ees_mpi.errors import RunFileError
from ees_mpi.metrics import BEST
from ees_mpi.run.file import Run
from ees_mpi.spread import SECTORS, Scale, directions, saturation

BEST_ABOUT = (
    f"best_of_{BEST}: how far the best of {BEST} mutations goes in a direction, averaged over all directions, so that "
    "it may be below the mean distance"
)
FEW = f"; -: fewer than {BEST} valid mutations (--count)"
Facts = dict[str, Any]  # the metrics of one generation, by name


def of_run(run: Run, generation: int | None, scale: Scale) -> tuple[list[Facts], list[str]]:
    """Return the metrics of a generation, or of every one, as data and as lines of text."""
    if generation is not None:
        facts = summarize(run, generation, scale)
        return [facts], text(run, facts, scale)
    valid, empty = valid_generations(run), {"individuals": 0, "invalid": run["behavior"].shape[1]}
    which = {"file": str(run.path), "label": label(run)}
    rows = [
        summarize(run, g, scale) if g in valid else {**which, "generation": g, **empty} for g in range(run.generations)
    ]
    return rows, table(rows, scale)


def summarize(run: Run, generation: int, scale: Scale) -> Facts:
    """Return all metrics of one generation, warnings, and the lengths that they use."""
    sample = sample_of(run, generation, scale)
    far = sample.place[sample.far]
    facts: Facts = {
        "file": str(run.path),
        "label": label(run),
        "generation": generation,
        "sample_of": subject(run).generation,
        **({"std": run.std(generation)} if "std" in run else {}),
        "individuals": len(sample.place),
        "invalid": len(sample.outcomes.valid) - len(sample.place),
        **metrics.measured(sample, run.metrics(generation)),
    }
    if sample.settings.meets(metrics.PLANE):
        facts["direction_histogram"] = directions(far).tolist() if len(far) else None
    lengths = {"cell": scale.cell.tolist(), "radius": scale.radius}
    return facts | {"lengths": lengths, "warning": saturation(sample.neighbours)}


def text(run: Run, facts: Facts, scale: Scale) -> list[str]:
    """Return the metrics of one generation, one per line, each with its meaning."""
    invalid = f", {facts['invalid']} invalid" if facts["invalid"] else ""
    sampled = facts["sample_of"] is not None
    rows = f"sample of generation {facts['sample_of']}" if sampled else f"generation {facts['generation']}"
    rows += f", std {facts['std']:.3g}" if sampled and "std" in facts else ""
    lines = [f"{facts['file']}: {facts['label']}, {rows}, {facts['individuals']} individuals{invalid}; {scale}"]
    for name in (*run.metric_settings.own_names, *metrics.METRICS):
        if name in facts:
            lines.append(f"{name:26} {number(facts[name]):>10}  {metrics.title(name)}")
    if "direction_histogram" in facts:
        shares = " ".join(f"{share:.2f}" for share in facts["direction_histogram"] or ()) or f"{'-':>10}"
        lines.append(f"{'directions':26} {shares}  shares by sectors of {360 // SECTORS} degrees, from +x towards +y")
    return [*lines, f"warning: {facts['warning']}"] if facts["warning"] else lines


def table(rows: Sequence[Facts], scale: Scale) -> list[str]:
    """Return the metrics of several generations, one generation per line."""
    full = next(row for row in rows if "lengths" in row)
    names = [key for key, value in full.items() if isinstance(value, (int, float)) and key != "invalid"]
    cells = [tuple(names), *(tuple(number(row.get(name, math.nan)) for name in names) for row in rows)]
    lines = [f"{rows[0]['file']}: {rows[0]['label']}; {scale}", *columns(cells)]
    warned = [row for row in rows if row.get("warning")]
    if warned:
        first, where = warned[0]["warning"], f"generation {warned[0]['generation']}"
        lines.append(f"warning: {first} ({where}; {len(warned)} of {len(rows)} generations)")
    return lines


def at_stds(run: Run, scale: Scale) -> list[Facts]:
    """Return the metrics of `ees-mpi measure` for each row of its file."""
    if not stds(run):
        raise RunFileError(f"{run.path} is not a file of ees-mpi measure")
    rows, names = [], metrics.in_table("measure", run.metric_settings)
    for row, std in enumerate(stds(run)):
        sample = sample_of(run, row, scale)
        found = metrics.measured(sample, run.metrics(row))
        invalid = int((~sample.outcomes.valid).sum())
        rows.append({"std": std, "invalid": invalid, **{name: found[name] for name in names}})
    return rows


def table_of_stds(run: Run, scale: Scale) -> list[str]:
    """Return the table of `ees-mpi measure` as lines of text: the metrics against the standard deviation."""
    rows, size, starts = at_stds(run, scale), run.config.population.size, run.config.task.rollouts
    mean = run["behavior_of_mean"][0][-run.metric_settings.axes :].tolist()  # earlier steps may stand in front
    end = f"({', '.join(map(number, mean[:4]))}{', ...' if len(mean) > 4 else ''})"
    if starts > 1:
        end += f", the mean over its {starts} starts"
    title = f"{label(run)}: {size} mutations at each std; the policy itself ends at {end}; {scale.words('cell')}"
    names = metrics.in_table("measure", run.metric_settings)
    cells = [("std", *names, "invalid")]
    cells += [(f"{row['std']:g}", *(number(row[name]) for name in names), str(row["invalid"])) for row in rows]
    few = min(size - row["invalid"] for row in rows) < BEST
    means = [f"all columns: of the mean behaviour of each mutation over its {starts} starts"] if starts > 1 else []
    return [title, *columns(cells), BEST_ABOUT + (FEW if few else ""), *means]
