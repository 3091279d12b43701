"""All measures of a generation, as `ees-mpi metrics` shows them."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ees_mpi.analysis.labels import label
from ees_mpi.analysis.numbers import objective_values as posthoc
from ees_mpi.analysis.numbers.measures import (
    DIRECTED,
    MEASURES,
    SECTORS,
    Settings,
    directions,
    moved,
    saturation,
    sides,
)
from ees_mpi.analysis.numbers.objective_values import Point
from ees_mpi.analysis.numbers.tables import columns, number
from ees_mpi.analysis.offspring import Cloud, cloud, has_cloud, source, which
from ees_mpi.errors import RunFileError
from ees_mpi.store.reader import Run, open_run

Bandwidths = Sequence[float | str]


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for; `objective` and `changes`: of an objective, in place of the measures."""

    generation: int | None
    every: bool
    settings: Settings
    bandwidths: Bandwidths
    objective: str | None
    changes: Sequence[str]


def measure(path: Path, wanted: Wanted) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure a file, a generation at a time; return what came of it as data and as lines of text."""
    with open_run(path) as run:
        last = which(run, None)
        chosen = range(last + 1) if wanted.every else [which(run, wanted.generation)]
        if wanted.objective or wanted.changes:
            parts = posthoc.objectives(run, wanted.objective, wanted.changes)
            points = list(posthoc.points(run, parts, chosen, wanted.bandwidths))
            return [{"file": str(path), **asdict(point)} for point in points], objective_table(path, points)
        if wanted.every and not any(has_cloud(run, g) for g in chosen):
            raise RunFileError(f"{path} has no finite behavior in any generation")
        rows = [
            summarize(run, g, wanted.settings, wanted.bandwidths)
            if has_cloud(run, g) or not wanted.every
            else nothing(run, g)
            for g in chosen
        ]
    return rows, table(rows) if wanted.every else text(rows[0], wanted.settings)


def summarize(run: Run, generation: int, settings: Settings, bandwidths: Bandwidths) -> dict[str, Any]:
    """Return all that can be measured of one generation; the entropy with each bandwidth, the run's own where none."""
    seen = cloud(run, generation)
    facts: dict[str, Any] = {
        "file": str(run.path),
        "label": label(run),
        "generation": generation,
        "sample_of": source(run, generation)[1] if run.attributes.get("kind") == "sample" else None,
        "individuals": len(seen.place),
        "invalid": len(seen.outcomes.valid) - len(seen.place),
        "moved": int(moved(seen, settings).sum()),
    }
    for name, measure in MEASURES.items():
        if name != "entropy" and measure.fits(seen):
            facts[name.replace("-", "_")] = measure.of(seen, settings)
    if seen.place.shape[1] == 1:
        facts["left_share"], facts["right_share"] = sides(seen, settings)
    if seen.place.shape[1] == 2:
        facts["direction_histogram"] = directions(seen, settings).tolist()
    own = run.config.method.bandwidth
    facts["entropy"] = [_entropy(seen, each) for each in bandwidths or (own,)]
    return facts


def nothing(run: Run, generation: int) -> dict[str, Any]:
    """Return a generation of which nothing can be measured, because no rollout is valid."""
    size = run["behavior"].shape[1]
    return {"file": str(run.path), "label": label(run), "generation": generation, "individuals": 0, "invalid": size}


def _entropy(seen: Cloud, bandwidth: float | str) -> dict[str, Any]:
    settings = Settings(bandwidth=bandwidth)
    value = MEASURES["entropy"].of(seen, settings)
    return {"bandwidth": settings.kernel(seen), "value": value, "warning": saturation(seen, settings)}


def text(facts: dict[str, Any], settings: Settings) -> list[str]:
    """Return the measures of one generation, one a line, with what each is."""
    invalid = f", {facts['invalid']} invalid" if facts["invalid"] else ""
    of = (
        f"generation {facts['generation']}"
        if facts["sample_of"] is None
        else f"sample of generation {facts['sample_of']}"
    )
    lines = [f"{facts['file']}: {facts['label']}, {of}, {facts['individuals']} individuals{invalid}"]
    told = {"near-origin": f"radius {settings.radius:g}", "coverage": f"cells of {settings.cell:g}"}
    told |= dict.fromkeys(DIRECTED, f"of {facts['moved']} beyond radius {settings.radius:g}")
    for name, measure in MEASURES.items():
        key = name.replace("-", "_")
        if name != "entropy" and key in facts:
            more = f" ({told[name]})" if name in told else ""
            lines.append(f"{name:26} {number(facts[key]):>10}  {measure.about}{more}")
    for each in facts["entropy"]:
        about = f"{MEASURES['entropy'].about} (bandwidth {each['bandwidth']:.3g})"
        lines.append(f"{'entropy':26} {number(each['value']):>10}  {about}")
    if "left_share" in facts:
        left, right = number(facts["left_share"]), number(facts["right_share"])
        lines.append(f"{'left, right':26} {left:>10}  and {right}: shares beyond the radius on either side")
    if "direction_histogram" in facts:
        shares = " ".join(f"{share:.2f}" for share in facts["direction_histogram"]) if facts["moved"] else f"{'-':>10}"
        lines.append(f"{'directions':26} {shares}  shares by sectors of {360 // SECTORS} degrees, from +x towards +y")
    return lines + _warnings(facts)


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the measures of several generations, a line each."""
    full = next(row for row in rows if "entropy" in row)
    names = [key for key, value in full.items() if isinstance(value, (int, float)) and key != "invalid"]
    heads = [f"entropy({each['bandwidth']:.3g})" for each in full["entropy"]]
    blank = [{"value": math.nan, "warning": ""}] * len(heads)
    cells = [
        (
            *(number(row.get(name, math.nan)) for name in names),
            *(number(each["value"]) for each in row.get("entropy", blank)),
        )
        for row in rows
    ]
    saturated = [row for row in rows if any(each["warning"] for each in row.get("entropy", blank))]
    lines = [f"{rows[0]['file']}: {rows[0]['label']}", *columns([(*names, *heads), *cells])]
    if saturated:
        first = _warnings(saturated[0])[0]
        lines.append(f"{first} (generation {saturated[0]['generation']}; {len(saturated)} of {len(rows)} generations)")
    return lines


def _warnings(facts: dict[str, Any]) -> list[str]:
    return [f"warning: {each['warning']}" for each in facts["entropy"] if each["warning"]]


def objective_table(path: Path, points: Sequence[Point]) -> list[str]:
    """Return values of objectives after the fact, a line for each generation and bandwidth."""
    heads = ("objective", "generation", "bandwidth", "J", "entropy, nats")
    rows = [
        (
            each.objective,
            str(each.generation),
            "-" if each.bandwidth is None else f"{each.bandwidth:.3g}",
            number(each.value),
            "-" if each.entropy is None else number(each.entropy),
        )
        for each in points
    ]
    warnings = {each.warning: each for each in reversed(points) if each.warning}
    return [
        f"{path}",
        *columns([heads, *rows]),
        *(f"warning: generation {each.generation}: {warning}" for warning, each in warnings.items()),
    ]
