"""The comparison of optimizers at the paper's scale, from numbers.csv: results/optimizers.md.

The claims (a) to (d) and their measures stand above the tables, fixed before the runs. Left is x < 0, as in the
small runs; the page with the results counts only offspring beyond 1 unit. Both are shown: a claim holds if both agree.
"""

from collections.abc import Callable, Sequence

import numpy as np
from endpoints import UPDATES, Row, number

from ees_mpi.outcomes import Floats

STARTS = {  # claim (a): the runs, and the generation after the first step; trust makes none in its first generation
    "Adam": ("ant-maxent-further-fresh", 1),
    "Adam, first moment not corrected": ("ant-maxent-further", 1),
    "trust": ("ant-maxent-further-trust", 2),
}
TRAINING = {"Adam": "", "trust": "-trust"}


class Found:
    """The runs of numbers.csv, and the names of those that are missing or too short."""

    def __init__(self, rows: Sequence[Row]):
        self.rows, self.missing = {row["run"]: row for row in rows}, list[str]()

    def runs(self, name: str, seeds: int, generations: int) -> list[Row]:
        """Return the complete runs of a name, seeds 0 and up."""
        complete = []
        for key in (f"{name}-mujoco-seed{seed}" for seed in range(seeds)):
            run = self.rows.get(key)
            if run and int(run["generations"]) >= generations:
                complete.append(run)
            else:
                self.missing.append(f"{key} ({run['generations'] if run else 0} of {generations} generations)")
        return complete


def spread(values: Sequence[float] | Floats, digits: int = 2) -> str:
    """Return the mean of some values, and their range; a dash if there are none."""
    if not len(values):
        return "-"
    return f"{np.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratio_of(values: Sequence[float], others: Sequence[float]) -> str:
    """Return the ratio of two means, and the range of the ratios of single seeds."""
    if not values or len(values) != len(others):
        return "-"
    each = np.divide(values, others)
    return f"{np.mean(values) / np.mean(others):.2f} ({each.min():.2f} to {each.max():.2f})"


def average(runs: Sequence[Row], column: str) -> str:
    """Return the mean over runs of an endpoint."""
    return f"{np.mean(column_of(runs, column)):.1f}" if runs else "-"


def column_of(runs: Sequence[Row], column: str) -> list[float]:
    """Return an endpoint of each run."""
    return [number(run, column) for run in runs]


def starts(found: Found) -> list[str]:
    """Return the table of (a): standard ES towards +x from trained MaxEnt means of the ant."""
    lines = [f"| optimizer | runs | spread after the first step | {' | '.join(map(str, UPDATES))} |"]
    lines.append("|---" * (len(UPDATES) + 3) + "|")
    for optimizer, (name, first) in STARTS.items():
        runs = found.runs(name, 3, UPDATES[-1] + 1)
        kept = spread([number(run, f"distance_{first}") / number(run, "distance_0") for run in runs])
        cells = [f"{average(runs, f'x_{u}')} / {average(runs, f'distance_{u}')}" for u in UPDATES]
        lines.append(f"| {optimizer} | {len(runs)} | {kept} | {' | '.join(cells)} |")
    return lines


def training(found: Found) -> list[str]:
    """Return the table of (b) and (d): MaxEnt and standard ES of the cheetah."""
    heads = ["range of the left share, MaxEnt", "the same, x < -1", "smaller side at the end, MaxEnt"]
    heads += ["mean distance, MaxEnt", "mean distance, standard ES", "ratio"]
    lines = [f"| optimizer | runs | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for optimizer, ending in TRAINING.items():
        runs, standard = (found.runs(f"cheetah-{name}{ending}", 4, 30) for name in ("maxent", "es"))
        ranges = [spread(column_of(runs, f"{name}_range_20")) for name in ("left_of_zero", "left")]
        sides = spread([min(share, 1 - share) for share in column_of(runs, "left_of_zero_last")])
        far, beside = (column_of(each, "distance_15_29") for each in (runs, standard))
        cells = [*ranges, sides, spread(far, 1), spread(beside, 1), ratio_of(far, beside)]
        lines.append(f"| {optimizer} | {len(runs)}, {len(standard)} | {' | '.join(cells)} |")
    return lines


def small_population(found: Found) -> list[str]:
    """Return the table of (c): both sides of the cheetah with N = 600."""
    lines = ["| optimizer | runs | x < 0, % | both sides | x < -1 / x > 1, % | both sides | mean distance |"]
    lines.append("|---" * 7 + "|")
    for optimizer, ending in TRAINING.items():
        runs = found.runs(f"cheetah-maxent{ending}-n600", 5, 40)
        left = column_of(runs, "left_of_zero_last")
        beyond = list(zip(column_of(runs, "left_last"), column_of(runs, "right_last"), strict=True))
        both = [sum(min(each, 1 - each) >= 0.1 for each in left), sum(min(each) >= 0.1 for each in beyond)]
        all_left = ", ".join(f"{100 * each:.0f}" for each in left) or "-"
        far_sides = ", ".join(f"{100 * a:.0f} / {100 * b:.0f}" for a, b in beyond) or "-"
        distance = spread(column_of(runs, "distance_last"), 1)
        cells = [all_left, f"{both[0]} of {len(runs)}", far_sides, f"{both[1]} of {len(runs)}", distance]
        lines.append(f"| {optimizer} | {len(runs)} | {' | '.join(cells)} |")
    return lines


PARTS: dict[str, Callable[[Found], list[str]]] = {
    "large-a": starts,
    "large-bd": training,
    "large-c": small_population,
}


def tables(rows: Sequence[Row]) -> dict[str, str]:
    """Return the tables by name; the last line of each names the runs that are missing."""
    made: dict[str, str] = {}
    for name, part in PARTS.items():
        found = Found(rows)
        lines = part(found)
        if found.missing:
            lines += ["", f"Missing: {', '.join(found.missing)}."]
        made[name] = "\n".join(lines) + "\n"
    return made
