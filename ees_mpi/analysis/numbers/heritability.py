"""How much of the variety of behaviours belongs to the mutations: N mutations x K starts, an analysis of variance.

McGraw and Wong 1996 (Psychological Methods 1, 30 to 46), case 2A: mutations and starts are random samples, and each
mutation has one rollout from each start. MSR, MSC and MSE are the mean squares of mutations, starts and residuals.

    b_ms = mean + mutation_m + start_s + interaction_ms
    variances: mutation = (MSR - MSE) / K,  start = (MSC - MSE) / N,  interaction = MSE
    heritable_share = mutation / (mutation + start + interaction) = ICC(A,1)
    consistency = mutation / (mutation + interaction)   = ICC(C,1): the start's own effect does not count

These estimates have no bias, so that a variance near 0 may come out below 0. Several numbers of a behaviour: traces.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.analysis.labels import label, stds
from ees_mpi.analysis.numbers.selection import sample_of
from ees_mpi.analysis.numbers.tables import columns, number
from ees_mpi.arrays import Floats
from ees_mpi.errors import RunFileError, scipy_stats
from ees_mpi.metrics import BEST
from ees_mpi.run.arrays import BY_START
from ees_mpi.run.file import Run
from ees_mpi.spread import best_elsewhere, distance, share, variances

CONFIDENCE = 0.95
INTERVAL = "95 % interval"
SECTORS = 8  # of the plane
ROUNDING = 1e-12  # a smaller share of the variance is none
PLACED = ("distance_single", "best_elsewhere", "kept", "all_kept")  # numbers of behaviours that are places


def heritability(places: Floats) -> dict[str, float]:
    """Return the variances of places [N, K, B], and the share of the mutations with its interval of 95 percent."""
    (n, k), (heritable, start, rest) = places.shape[:2], variances(places)
    of_all = share(heritable, start, rest)
    low, high = interval(n, k, k * heritable + rest, n * start + rest, rest, of_all)
    parts = {"heritable": heritable, "start": start, "interaction": rest}
    shares = {"heritable_share": of_all, "low": low, "high": high, "consistency": share(heritable, 0.0, rest)}
    return {"mutations": n, "starts": k, **parts, **shares}


def of_places(places: Floats) -> dict[str, float]:
    """Return all numbers of final places [N, K, A]."""
    found = heritability(places)
    found |= {"distance_single": distance(places), "best_elsewhere": best_elsewhere(places, BEST)}
    if places.shape[2] <= 2:
        found["kept"], found["all_kept"] = kept_side(places)
    return found


def interval(n: int, k: int, of_rows: float, of_starts: float, rest: float, share: float) -> tuple[float, float]:
    """Return the interval of ICC(A,1) from the mean squares (McGraw and Wong 1996, table 7).

    The traces of several components count as one component here, so the interval is then rather too wide.
    """
    if not rest > 0 or math.isnan(share):
        return math.nan, math.nan
    f = scipy_stats().f
    odds = min(max(share, 0.0), 1 - 1e-9)
    odds /= 1 - odds
    a, b = k * odds / n, 1 + k * odds * (n - 1) / n
    v = (a * of_starts + b * rest) ** 2 / ((a * of_starts) ** 2 / (k - 1) + (b * rest) ** 2 / ((n - 1) * (k - 1)))
    upper = (1 + CONFIDENCE) / 2
    below, above, others = f.ppf(upper, n - 1, v), f.ppf(upper, v, n - 1), k * of_starts + (k * n - k - n) * rest
    low = n * (of_rows - below * rest) / (below * others + n * of_rows)
    high = n * (above * of_rows - rest) / (others + n * above * of_rows)
    return float(low), float(high)


def kept_side(places: Floats) -> tuple[float, float]:
    """Return how well mutations [N, K, 1 or 2] keep their side, or their sector of eight in the plane.

    The mean share of a mutation's rollouts that end on its most frequent side, and the share of mutations whose
    rollouts all end on one side.
    """
    counts = np.stack([(sectors(places) == sector).sum(axis=1) for sector in range(SECTORS)], axis=1).max(axis=1)
    return float(counts.mean() / places.shape[1]), float((counts == places.shape[1]).mean())


def sectors(places: Floats) -> NDArray[np.int64]:
    """Return the sector of each place [..., 1 or 2]: 0 right and 4 left on a line, 0 to 7 from +x on in the plane."""
    if places.shape[-1] == 1:
        return np.where(places[..., 0] < 0, SECTORS // 2, 0)
    turns = np.arctan2(places[..., 1], places[..., 0]) / (2 * math.pi)
    return np.floor(turns * SECTORS + 0.5).astype(np.int64) % SECTORS


def measured_stds(run: Run) -> list[float]:
    """Return the standard deviations of a file of `ees-mpi measure --starts`; raise a RunFileError for another file."""
    if BY_START not in run or not stds(run) or not run.config.task.common_starts:
        raise RunFileError(f"{run.path}: expected a file of ees-mpi measure --starts K: the same starts for all")
    return list(stds(run))


def places_of(run: Run, row: int) -> Floats:
    """Return final places [n, K, axes], or behaviours [n, K, B], of the mutations that are valid from all starts."""
    places = sample_of(run, row).by_start
    if len(places) < 2:
        raise RunFileError(f"{run.path}: row {row} has one valid mutation; expected two or more")
    return places


def facts(run: Run) -> list[dict[str, Any]]:
    """Return the numbers of each std of a file of `ees-mpi measure --starts`."""
    numbers = of_places if run.metric_settings.places else heritability
    none = dict.fromkeys(PLACED, math.nan)
    return [{"std": std, **none, **numbers(places_of(run, row))} for row, std in enumerate(measured_stds(run))]


# The columns of the table; `--json` and the file have all numbers.
HEADS = ("std", "heritable", "heritable_share", INTERVAL, "best_elsewhere", "distance_single")
LEGEND = {
    "heritable": "heritable: the variance that belongs to the mutation; heritable_share: its part of the whole",
    "best_elsewhere": f"best_elsewhere: how far the best of {BEST}, chosen from one start, goes from the others",
    "distance_single": "distance_single: of single rollouts; the mean of a mutation over its starts ends nearer",
}
NOISY = "these rollouts cannot be repeated bit by bit, so the part of the two together holds their noise, too"
ADVICE = (
    "If less than half belongs to the mutation, training from several starts may raise its part, for example with "
    "task.rollouts=4 and task.starts=common or own, or with more, if it was trained so: `ees-mpi docs heritability`."
)


def describe(run: Run) -> list[str]:
    """Return the lines that `ees-mpi measure --starts` prints: a table of all stds, and a sentence on each."""
    rows, task, on_gpu = facts(run), run.config.task, run.device(0) == "cuda"
    title = f"{label(run)}: {run.config.population.size} mutations x {task.rollouts} starts at each std"
    cells = [{name: number(row.get(name, math.nan)) for name in HEADS} for row in rows]
    for cell, row in zip(cells, rows, strict=True):
        cell["std"] = f"{row['std']:g}"
        cell[INTERVAL] = f"{row['low']:.2f} to {row['high']:.2f}" if math.isfinite(row["low"]) else "-"
    shown = [name for name in HEADS if any(cell[name] != "-" for cell in cells)]
    table = columns([tuple(shown), *(tuple(cell[name] for name in shown) for cell in cells)])
    legend = [text for name, text in LEGEND.items() if name in shown]
    repeats = task.deterministic and (task.repeats_on_gpu or not on_gpu)
    advice = [ADVICE] if any(row["heritable_share"] < 0.5 for row in rows) else []
    return [title, *table, *legend, "", *map(sentence, rows), *([] if repeats else [NOISY]), *advice]


def sentence(row: dict[str, Any]) -> str:
    """Return what the numbers of a std say, in words."""
    variances = [row[name] for name in ("heritable", "start", "interaction")]
    std, total = f"{row['std']:g}", sum(variances)
    if not total > 0:
        return f"std {std}: all rollouts behave alike, so there is no variance to divide."
    own, start, both = (_percent(variance / total) for variance in variances)
    interval = f" ({_percent(row['low'])} to {_percent(row['high'])})" if math.isfinite(row["low"]) else ""
    others = f"{start} % to the start, and {both} % to the two together"
    text = f"std {std}: {own} %{interval} of the variance belongs to the mutation, {others}."
    if max(map(abs, variances[1:])) < ROUNDING * total:
        return f"{text} All starts gave the same behaviours: does the environment use its seed?"
    return text


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.0f}"  # an estimate without bias may be below 0
