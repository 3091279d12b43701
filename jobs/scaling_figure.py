#!/usr/bin/env python3
"""Draw the scaling that jobs/scaling.py has measured; print it as a table.

scaling_figure.py FILE.json       draws FILE.png
"""

import json
import statistics
import sys
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ees_mpi.analysis.figures.style import COLUMN, Figure, drawing, explain, grid
from ees_mpi.errors import MissingExtra

STRONG, WEAK = KINDS = ("strong", "weak")
NAMES = {"bullet": "Bullet", "mujoco": "MuJoCo on CPUs"}
LOOKS = {
    STRONG: ("#0072b2", "o", "strong: the same work in all"),
    WEAK: ("#d55e00", "s", "weak: the same work per rank"),
}
Data = dict[str, Any]


def rate(point: Data) -> float:
    """Return the steps per second of a point: the median over its generations."""
    return statistics.median(steps / taken for steps, taken in zip(point["steps"], point["seconds"], strict=True))


def summarize(found: Data) -> list[Data]:
    """Return a row for each number of ranks: median, lowest and highest steps per second, and the efficiency."""
    rows: list[Data] = []
    key = itemgetter("engine", "kind", "ranks")
    for (engine, kind, ranks), points in groupby(sorted(found["points"], key=key), key):
        here = list(points)
        rates = [rate(point) for point in here]
        row = {"engine": engine, "kind": kind, "ranks": ranks, "nodes": here[0]["nodes"], "repetitions": len(rates)}
        row |= {"rate": statistics.median(rates), "lowest": min(rates), "highest": max(rates)}
        first = next((each for each in rows if (each["engine"], each["kind"]) == (engine, kind)), row)
        row["efficiency"] = row["rate"] / ranks / (first["rate"] / first["ranks"])
        rows.append(row)
    return rows


def table(rows: Sequence[Data]) -> list[str]:
    """Return the summary as lines of text: steps per second, with the lowest and highest of some repetitions."""
    lines = ["engine  kind    ranks  nodes    steps/s (lowest to highest, repetitions)  efficiency"]
    for row in rows:
        spread = f"{row['rate']:>9,.0f} ({row['lowest']:,.0f} to {row['highest']:,.0f}, {row['repetitions']})"
        place = f"{row['engine']:8}{row['kind']:8}{row['ranks']:>5}  {row['nodes']:>5}"
        lines.append(f"{place}  {spread:42}{row['efficiency']:>9.0%}")
    return lines


def draw(found: Data) -> Figure:
    """Draw rates and efficiencies against the number of ranks, for each engine."""
    rows = summarize(found)
    engines = sorted({row["engine"] for row in rows})
    figure, panels = grid(2 * len(engines), 2, 0.8 * COLUMN)
    for place, engine in enumerate(engines):
        left, right = panels[2 * place : 2 * place + 2]
        counts = sorted({each["ranks"] for each in rows if each["engine"] == engine})
        best = max(row["rate"] / row["ranks"] / row["efficiency"] for row in rows if row["engine"] == engine)
        left.plot(counts, [best * count / 1000 for count in counts], color="0.6", linestyle=":", label="ideal")
        for kind in KINDS:
            mine = [row for row in rows if (row["engine"], row["kind"]) == (engine, kind)]
            if mine:
                draw_kind(left, right, kind, mine)
        left.set(title=f"{NAMES.get(engine, engine)}: thousand steps per second", xlabel="ranks", yscale="log")
        right.set(title="efficiency: rate per rank, the fewest ranks being 1", xlabel="ranks", ylim=(0, None))
        for panel in (left, right):
            panel.set_xscale("log")
            panel.set_xticks(shown := counts[:: -(-len(counts) // 8)], [str(count) for count in shown])
            panel.minorticks_off()
        low, high = left.get_ylim()
        ticks = [tick for power in range(-3, 6) for digit in (1, 2, 5) if low <= (tick := digit * 10**power) <= high]
        left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    explain(figure, panels[:1])
    return figure


def draw_kind(left: Any, right: Any, kind: str, rows: Sequence[Data]) -> None:
    """Draw one kind of scaling: points with bars from the lowest to the highest repetition."""
    color, marker, label = LOOKS[kind]
    ranks = [row["ranks"] for row in rows]
    beside = [count * (0.97 if kind == STRONG else 1.03) for count in ranks]  # the bars would hide each other
    unit = rows[0]["rate"] / ranks[0]
    for panel, scales in ((left, [1000.0] * len(rows)), (right, [unit * count for count in ranks])):
        middle = [row["rate"] / scale for row, scale in zip(rows, scales, strict=True)]
        spread = [
            [abs(row[end] - row["rate"]) / scale for row, scale in zip(rows, scales, strict=True)]
            for end in ("lowest", "highest")
        ]
        panel.errorbar(beside, middle, spread, color=color, marker=marker, markersize=3, capsize=2, label=label)


def save_figure(found: Data, path: Path) -> None:
    """Draw the figure into a file, or say how to draw it elsewhere."""
    try:
        with drawing():
            draw(found).savefig(path.with_suffix(".png"), metadata={"Software": None}, bbox_inches="tight")
    except MissingExtra as missing:
        print(f"scaling: no figure here: {missing}; elsewhere: python3 jobs/scaling_figure.py {path}")


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    print(*table(summarize(found)), sep="\n")
    save_figure(found, Path(sys.argv[1]))
