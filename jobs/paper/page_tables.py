"""The tables of heritability.md, and how a table and its cells are written."""

from collections.abc import Iterable, Sequence

import numpy as np
from groups import RING, Groups, Row, by_words, column, has_ring
from plan import ARMS


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    first, *others = (f"| {' | '.join(row)} |\n" for row in (head, *rows))
    return "".join((first, "|---" * len(head) + "|\n", *others))


def spread(values: Sequence[float], unit: str = "") -> str:
    """Return the mean of some values, and their range; a dash if there are none."""
    if not values:
        return "-"
    mean, low, high = (f"{value:.0f}" for value in (np.mean(values), min(values), max(values)))
    return f"{mean}{unit} ({low} to {high})" if len(values) > 1 else f"{mean}{unit}"


def percent(values: Sequence[float]) -> str:
    """Return the mean of some shares, and their range, in percent."""
    return spread([100 * value for value in values], unit=" %")


def seeds_of(runs: Sequence[Row]) -> str:
    """Return the seeds of some runs in words: 6 to 11, 15."""
    parts: list[list[int]] = []
    for seed in sorted(int(row["seed"]) for row in runs):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts)


def arms(groups: Groups, robot: str) -> str:
    """Return all arms with their seeds: what 200 mutations keep from unseen starts, and the rings of the ant."""
    head, table = [f"how the {robot} was trained", "seeds", "heritable variance", "share", "passed on"], []
    if robot == "ant":
        head += ["even rings", "even from other starts", "distance"]
    for words, runs in by_words(groups, (key for key in ARMS if key.startswith(robot))).items():
        cells = [words, seeds_of(runs), spread(column(runs, "heritable"))]
        cells += [percent(column(runs, "heritable_share")), percent(column(runs, "realised"))]
        if robot == "ant":
            there = sum(has_ring(run, "_last_10") for run in runs)
            elsewhere = sum(each >= RING for each in column(runs, "ring"))
            cells += [f"{there} of {len(runs)}", f"{elsewhere} of {len(runs)}"]
            cells += [spread(column(runs, "distance_last_10"))]
        table.append(cells)
    return lines(head, table)
