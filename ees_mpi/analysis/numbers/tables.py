"""Comparisons as text for the terminal, as LaTeX for a paper, and as plain data."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ees_mpi.analysis.numbers.comparison import Comparison, Kind
from ees_mpi.analysis.numbers.statistics import Test

GROUPS = ("group", "runs", "median", "95 % interval", "mean", "sd")
STEPS = ("training steps", "adaptation steps")
TESTS = ("test", "U", "p", "effect", "ratio of means")
LEGEND = "p: Mann-Whitney U, {}; effect: the chance that a run of the first beats one of the second"


def number(value: float) -> str:
    """Write a number with four digits, as a person would."""
    if not math.isfinite(value):
        return "-"
    if value == round(value) and abs(value) < 1e5:
        return f"{value:.0f}"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:#.4g}".rstrip(".")
    return f"{value:.3e}"


def probability(test: Test) -> str:
    """Write a p value; one that rests on the normal approximation says so."""
    text = f"{test.p:.3g}" if test.p < 0.001 else f"{test.p:.3f}"
    return text if test.exact else f"{text}*"


def text(comparisons: Sequence[Comparison], alternative: str) -> str:
    """Return tables for the terminal."""
    return "\n\n".join("\n".join(_lines(comparison, alternative)) for comparison in comparisons)


def _lines(comparison: Comparison, alternative: str) -> list[str]:
    groups, tests = _rows(comparison)
    notes = [f"note: {note}" for note in comparison.notes]
    legend = LEGEND.format(alternative)
    if not all(test.exact for test in comparison.tests):
        legend += "; *: normal approximation"
    return [
        f"{comparison.metric}: {comparison.about}",
        "",
        *columns(groups),
        "",
        *columns(tests),
        "",
        legend,
        *notes,
    ]


def _rows(comparison: Comparison) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the cells of the two tables, headings first."""
    budget = any(value.training_steps for kind in comparison.kinds for value in kind.members)
    several = len(comparison.tests) > 1
    groups = [(*GROUPS, *(STEPS if budget else ())), *(_group(kind, budget) for kind in comparison.kinds)]
    tests = [(*TESTS, *(("p (Holm)",) if several else ()))]
    for test in comparison.tests:
        ratio = "-" if math.isnan(test.ratio) else f"{100 * test.ratio:.1f} %"
        cells = (f"{test.first} against {test.second}", f"{test.u:g}", probability(test), f"{test.effect:.2f}", ratio)
        tests.append((*cells, *((f"{test.holm:.3g}",) if several else ())))
    return groups, tests


def _group(kind: Kind, budget: bool) -> tuple[str, ...]:
    of = kind.summary
    interval = "-" if math.isnan(of.low) else f"{number(of.low)} to {number(of.high)}"
    cells = (of.label, str(of.runs), number(of.median), interval, number(of.mean), number(of.std))
    if not budget:
        return cells
    training = sum(value.training_steps for value in kind.members) / len(kind.members)
    adaptation = sum(value.adaptation_steps for value in kind.members) / len(kind.members)
    return (*cells, f"{training:,.0f}", f"{adaptation:,.0f}")


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lay rows of cells out in columns, the first to the left, numbers to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        rest = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([f"{row[0]:{widths[0]}}", *rest]).rstrip())
    return lines


def latex(comparisons: Sequence[Comparison], alternative: str) -> str:
    """Return booktabs tables, to be pasted into a paper."""
    parts = []
    for comparison in comparisons:
        parts.append(f"% {comparison.metric}: {comparison.about}")
        parts += [_tabular(rows) for rows in _rows(comparison)]
        parts.append(f"% {LEGEND.format(alternative)}")
        parts += [f"% note: {note}" for note in comparison.notes]
    return "\n".join(parts)


def _tabular(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [" & ".join(cell.replace("%", r"\%").replace("*", "$^*$") for cell in row) + r" \\" for row in rows]
    head = r"\begin{tabular}{l" + "r" * (len(rows[0]) - 1) + "}\n\\toprule"
    return "\n".join([head, lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"])


def data(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as what JSON can hold; numbers that are not finite become null."""
    groups = [
        {
            **asdict(kind.summary),
            "values": {str(value.path): value.value for value in kind.members},
            **_steps(kind),
        }
        for kind in comparison.kinds
    ]
    tests = [asdict(test) for test in comparison.tests]
    found: dict[str, Any] = plain(
        {
            "metric": comparison.metric,
            "about": comparison.about,
            "groups": groups,
            "tests": tests,
            "notes": comparison.notes,
        }
    )
    return found


def _steps(kind: Kind) -> dict[str, Any]:
    """Return the budgets, where the metric has any."""
    if not any(value.training_steps for value in kind.members):
        return {}
    names = ("training_steps", "adaptation_steps")
    return {name: {str(value.path): getattr(value, name) for value in kind.members} for name in names}


def plain(value: Any) -> Any:
    """Replace what JSON has no name for (NaN, infinities) by null, at any depth."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
