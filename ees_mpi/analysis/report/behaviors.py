"""The behaviours of a run as counts in cells, generation by generation: what the report's slider moves through."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.analysis.offspring import has_offspring, places, walks
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

LINE, PLANE = 96, 41  # cells along an axis, of one and of two numbers; odd: the origin lies in the middle of one
FRAMES = {1: 240, 2: 120}  # generations that are kept, at most
TAIL = 0.25  # percent at either end of a generation that does not stretch the axes
FACTS = {
    "mean distance": "distance_mean",
    "farthest": "distance_max",
    "entropy (nats)": "entropy",
    "mean fitness": "fitness_mean",
}


@dataclass(frozen=True)
class Axes:
    """Which numbers of a behaviour are shown, and between which limits."""

    columns: tuple[int, ...]  # of what `places` returns
    names: tuple[str, ...]
    limits: tuple[tuple[float, float], ...]

    @property
    def bins(self) -> int:
        """Cells along an axis."""
        return LINE if len(self.columns) == 1 else PLANE


def behaviors(run: Run) -> tuple[dict[str, Any], str]:
    """Return the data of the page's map, and a sentence on what it shows."""
    last = run.generations - 1
    width = min(2, _width(run))
    kept = np.unique(np.linspace(0, last, min(run.generations, FRAMES[width])).round().astype(int)).tolist()
    axes = _axes(run, kept)
    series = {name: np.asarray(run[source][:], np.float64) for name, source in FACTS.items()}
    frames, beyond = [], 0
    for generation in kept:
        cells, valid, outside = _counts(run, generation, axes)
        facts = {f"{rows_are(run)}s": valid, **{name: _finite(values[generation]) for name, values in series.items()}}
        frames.append({"g": generation, "cells": cells, "facts": facts})
        beyond += outside
    most = max((max(pairs[1::2], default=0) for frame in frames for pairs in frame["cells"]), default=1)
    data = {
        "dims": width,
        "bins": axes.bins,
        "names": axes.names,
        "limits": axes.limits,
        "frames": frames,
        "components": run.config.population.components,
        "most": max(1, int(most)),
        "last": last,
        "row": rows_are(run),
    }
    return data, _about(run, axes, kept, beyond)


def rows_are(run: Run) -> str:
    """Return what a row of a generation is called."""
    return "individual" if has_offspring(run) else "task"


def _width(run: Run) -> int:
    return int(places(run, 0).shape[1])


def _axes(run: Run, kept: list[int]) -> Axes:
    """Choose the numbers to show and the limits that hold nearly all of them in all generations."""
    width = _width(run)
    columns: tuple[int, ...] = tuple(range(width))
    if width > 2:
        last = places(run, run.generations - 1)
        spread = last[np.isfinite(last).all(axis=1)].std(axis=0) if np.isfinite(last).any() else np.zeros(width)
        columns = tuple(sorted(int(c) for c in np.argsort(-spread, kind="stable")[:2]))
    rows: list[Floats] = []
    for generation in kept:
        found = places(run, generation)[:, list(columns)]
        found = found[np.isfinite(found).all(axis=1)]
        if len(found):
            rows.append(np.percentile(found, (TAIL, 100 - TAIL), axis=0))
    ends = np.array(rows) if rows else np.zeros((1, 2, len(columns)))
    low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    walking = walks(run)
    if len(columns) == 2 and walking:  # equal axes around the start
        reach = float(max(np.abs(low).max(), np.abs(high).max())) or 1.0
        limits = [(-reach, reach)] * 2
    else:
        limits = [_padded(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    names = tuple("xy"[c] if walking else f"behavior {c}" if width > 1 else "behavior" for c in columns)
    return Axes(columns, names, tuple(limits))


def _padded(low: float, high: float) -> tuple[float, float]:
    pad = 0.01 * (high - low) or 0.5 * (abs(high) or 1.0)
    return low - pad, high + pad


def _counts(run: Run, generation: int, axes: Axes) -> tuple[list[list[int]], int, int]:
    """Count the individuals of each component by cell, as cell, count, cell, count...; also how many there are in all,
    and how many lie beyond the limits (they count in the nearest cell)."""
    found = places(run, generation)[:, list(axes.columns)]
    parent = np.asarray(run["parent"][generation])
    valid = np.isfinite(found).all(axis=1)
    low, high = np.array(axes.limits).T
    share = (found[valid] - low) / (high - low)
    outside = int(((share < 0) | (share > 1)).any(axis=1).sum())
    place: NDArray[np.int64] = np.clip((share * axes.bins).astype(np.int64), 0, axes.bins - 1)
    cell = place[:, 0] if len(axes.columns) == 1 else place[:, 1] * axes.bins + place[:, 0]
    cells = []
    for component in range(run.config.population.components):
        index, count = np.unique(cell[parent[valid] == component], return_counts=True)
        cells.append(np.stack([index, count], axis=1).ravel().tolist())
    return cells, int(valid.sum()), outside


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _about(run: Run, axes: Axes, kept: list[int], beyond: int) -> str:
    what = "where the individuals ended" if walks(run) else "the behaviors of the individuals"
    if not has_offspring(run):
        what = "where the rollouts of each task ended on average, after its gradient step"
    if len(axes.columns) == 1:
        text = f"Each column is a generation and shows {what}; the darker, the more (logarithmic)."
        text += " Below, the chosen generation."
    else:
        text = f"The map shows {what} in the chosen generation; the darker, the more (logarithmic)."
    if len(kept) < run.generations:
        text += f" {len(kept)} of {run.generations} generations are kept here."
    if _width(run) > 2:
        text += f" Of {_width(run)} numbers, the two that vary most in the last generation."
    if beyond:
        one = rows_are(run)
        who = f"One {one} lies" if beyond == 1 else f"{beyond} {one}s lie"
        text += f" {who} beyond the edges, counted in the nearest cell."
    return text
