"""The verdicts of the first plan for docs/results.md; its claims and all tests for results/tests.md."""

import math
from collections.abc import Iterator, Sequence

from claims import Part, Result
from verdicts import Answer

from ees_mpi.analysis.numbers import tables


def table(found: Sequence[Result]) -> str:
    """Return the table of claims: one short line for each."""
    lines = ["| claim | paper | here | n | p | verdict |", "|---|---|---|---|---|---|"]
    for each in found:
        counts = ", ".join(dict.fromkeys(f"{len(group.values)}" for group in each.groups.values())) or "0"
        cells = (each.claim.text, each.claim.paper, _here(each), counts, _corrected(each), each.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def direction_table(found: Sequence[Result]) -> str:
    """Return the table of claims without a plan: means, p without correction, and whether they lie as in the paper."""
    lines = ["| claim | here | p | direction |", "|---|---|---|---|"]
    for each in found:
        if each.answers:
            p = " / ".join(f"{answer.test.p:.2g}" for answer in each.answers)
            lines.append(f"| {each.claim.text} | {_here(each)} | {p} | {_direction(each.answers)} |")
    return "\n".join(lines) + "\n"


def verdict_table(found: Sequence[Result]) -> str:
    """Return the table of verdicts, with p of the tests of each claim."""
    lines = ["| claim | p | verdict |", "|---|---|---|"]
    lines += [f"| {each.claim.text} | {_corrected(each)} | {each.verdict} |" for each in found]
    return "\n".join(lines) + "\n"


def _corrected(result: Result) -> str:
    """Return p of the tests of a claim; Holm's correction waits for all of them."""
    p = [answer.p_equal if answer.question.relation == "equal" else answer.p for answer in result.answers]
    return " / ".join(f"{number:.2g}" for number in p) if p and result.complete else "-"


def _here(result: Result) -> str:
    """Return the means of the groups, in a few words."""
    if not result.groups:
        return "-"
    by_metric: dict[str, list[str]] = {}
    for key, group in result.groups.items():
        metric = key.rsplit(" ", 1)[0]
        by_metric.setdefault(metric, []).append(f"{group.label} {tables.number(float(group.values.mean()))}")
    several = len(by_metric) > 1
    return "; ".join((f"{metric}: " if several else "") + ", ".join(parts) for metric, parts in by_metric.items())


def _direction(answers: Sequence[Answer]) -> str:
    """Return whether the groups lie as in the paper."""
    words = []
    for answer in answers:
        relation, effect = answer.question.relation, answer.test.effect
        agree = (effect > 0.5) == (relation == "above")
        words.append("-" if relation == "equal" else "as in the paper" if agree else "opposite")
    return ", ".join(dict.fromkeys(words))


SIGNS = {"above": ">", "below": "<", "equal": "="}


def details(found: Sequence[Result]) -> str:
    """Return the table of all tests: means, ratio with its interval, p of both tests, verdict."""
    head = ("claim", "test", "n", "ratio, 90 % interval", "p (Mann-Whitney)", "Holm", "TOST", "verdict")
    rows = [head, ("---",) * len(head)]
    for each in found:
        for (metric, *_), answer in zip(_asked(each), each.answers, strict=True):
            first, second = answer.question.first, answer.question.second
            test = f"{metric}: {first.label} {SIGNS[answer.question.relation]} {second.label}"
            sizes = f"{len(first.values)}, {len(second.values)}"
            p_equal = f"{answer.p_equal:.2g}" if answer.equivalence.is_ratio else "-"
            numbers = (_interval(answer), f"{answer.test.p:.2g}", f"{answer.p:.2g}", p_equal, answer.verdict)
            if not each.complete:
                numbers = (numbers[0], "-", "-", "-", each.verdict)
            rows.append((each.claim.name, test, sizes, *numbers))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _interval(answer: Answer) -> str:
    equal = answer.equivalence
    if math.isnan(equal.value):
        return "-"
    return f"{'' if equal.is_ratio else 'difference '}{equal.value:.3g} ({equal.low:.3g} to {equal.high:.3g})"


def _asked(result: Result) -> Iterator[Part]:
    """Yield the parts of a claim whose groups both have runs."""
    for part in result.claim.parts:
        if f"{part[0]} {part[1]}" in result.groups and f"{part[0]} {part[3]}" in result.groups:
            yield part
