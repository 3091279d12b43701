"""The behaviors of a run as counts in cells, generation by generation, for the map and slider of the report."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ees_mpi.analysis.limits import limits
from ees_mpi.analysis.offspring import axis_names, has_positions, position_dim, positions
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

BINS = {1: 96, 2: 41}  # cells along an axis, for one and for two numbers; 41 is odd: the origin is inside a cell
FRAMES = {1: 240, 2: 120}  # the largest number of generations on the page
FEWEST = 20  # of them for each of several runs
TAIL = 0.25  # percent at either end of a generation that may lie beyond the limits
FACTS = {
    "mean distance": "distance_mean",
    "farthest": "distance_max",
    "entropy (nats)": "entropy",
    "mean fitness": "fitness_mean",
}


class Axes(NamedTuple):
    """The one or two shown numbers of a behavior, their cells and limits."""

    columns: list[int]  # of `positions`
    bins: int  # cells along an axis
    names: list[str]
    limits: list[tuple[float, float]]


def behaviors(runs: Sequence[Run], names: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Return the data of the map, for all runs with the same cells and colors, and its caption."""
    most = FRAMES[min(2, position_dim(runs[0]))] // len(runs)
    counts = [(run.generations, min(run.generations, max(most, FEWEST))) for run in runs]
    kept = [np.unique(np.linspace(0, count - 1, few).round()).astype(int).tolist() for count, few in counts]
    axes = _axes(runs, kept)
    shown: list[dict[str, Any]] = []
    beyond = 0
    for run, generations, name in zip(runs, kept, names, strict=True):
        frames, outside = _frames(run, generations, axes)
        about = {"name": name, "components": run.config.population.components, "last": run.generations - 1}
        shown.append({**about, "frames": frames})
        beyond += outside
    cells = [pairs[1::2] for about_run in shown for frame in about_run["frames"] for pairs in frame["cells"]]
    data = {"dims": len(axes.columns), "bins": axes.bins, "names": axes.names, "limits": axes.limits, "runs": shown}
    data |= {
        "most": max((max(counted, default=1) for counted in cells), default=1),
        "row": runs[0].config.population.row_name,
    }
    return data, _caption(runs[0], axes, kept[0], beyond)


def _frames(run: Run, kept: Sequence[int], axes: Axes) -> tuple[list[dict[str, Any]], int]:
    """Return the cells and facts of some generations, and the number of individuals beyond the limits."""
    series = {name: np.asarray(run[source][:], np.float64) for name, source in FACTS.items()}
    frames, beyond = [], 0
    for g in kept:
        cells, valid, outside = _counts(run, g, axes)
        facts = {name: float(values[g]) if math.isfinite(values[g]) else None for name, values in series.items()}
        frames.append({"g": g, "cells": cells, "facts": {f"{run.config.population.row_name}s": valid, **facts}})
        beyond += outside
    return frames, beyond


def _axes(runs: Sequence[Run], kept: Sequence[list[int]]) -> Axes:
    """Choose the shown numbers, and limits for nearly all their values in all generations of all runs."""
    run = runs[0]
    width = position_dim(run)
    columns = list(range(width))
    if width > 2:
        last = _finite(positions(run, run.generations - 1))
        spread = last.std(axis=0) if len(last) else np.zeros(width)
        columns = sorted(np.argsort(-spread, kind="stable")[:2].tolist())
    pairs = [(member, g) for member, generations in zip(runs, kept, strict=True) for g in generations]
    rows = (_finite(positions(member, g)[:, columns]) for member, g in pairs)
    ends = np.array([np.percentile(part, (TAIL, 100 - TAIL), axis=0) for part in rows if len(part)])
    if not len(ends):
        ends = np.zeros((1, 2, len(columns)))
    low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    names = axis_names(run)
    return Axes(columns, BINS[len(columns)], [names[column] for column in columns], limits(run, low, high))


def _finite(rows: Floats) -> Floats:
    return rows[np.isfinite(rows).all(axis=1)]


def _counts(run: Run, generation: int, axes: Axes) -> tuple[list[list[int]], int, int]:
    """Count the individuals of each component by cell, as [cell, count, cell, count, ...].

    Return also the number of valid individuals, and of those beyond the limits, which count in the nearest cell.
    """
    ends = positions(run, generation)[:, axes.columns]
    valid = np.isfinite(ends).all(axis=1)
    parent = np.asarray(run["parent"][generation])[valid]
    low, high = np.array(axes.limits).T
    share = (ends[valid] - low) / (high - low)
    outside = int(((share < 0) | (share > 1)).any(axis=1).sum())
    place: NDArray[np.int64] = np.clip((share * axes.bins).astype(np.int64), 0, axes.bins - 1)
    cell = place[:, 0] if len(axes.columns) == 1 else place[:, 1] * axes.bins + place[:, 0]
    cells = []
    for component in range(run.config.population.components):
        index, count = np.unique(cell[parent == component], return_counts=True)
        cells.append(np.stack([index, count], axis=1).ravel().tolist())
    return cells, int(valid.sum()), outside


def _caption(run: Run, axes: Axes, kept: list[int], beyond: int) -> str:
    shown = "the final positions of the individuals" if has_positions(run) else "the behaviors of the individuals"
    if not run.config.population.has_individuals:
        shown = "the mean final position of the rollouts of each task, after its gradient step"
    if len(axes.columns) == 1:
        text = f"Each column shows {shown} in one generation; darker cells hold more (logarithmic scale)."
        text += " The histogram below shows the chosen generation."
    else:
        text = f"The map shows {shown} in the chosen generation; darker cells hold more (logarithmic scale)."
    if len(kept) < run.generations:
        text += f" {len(kept)} of {run.generations} generations are kept here."
    if position_dim(run) > 2:
        text += f" Of {position_dim(run)} numbers, the map shows the two that vary most in the last generation."
    if beyond:
        name = run.config.population.row_name
        rows = f"One {name} lies" if beyond == 1 else f"{beyond} {name}s lie"
        text += f" {rows} beyond the edges and counts in the nearest cell."
    return text
