"""The extremes of the last generation of a run, replayed: behavior, comparison of bits, and a picture of each."""

import html
from dataclasses import dataclass, replace

from ees_mpi.analysis.offspring import extremes, has_positions, position_dim, positions
from ees_mpi.analysis.replay.choice import Choice
from ees_mpi.analysis.replay.replay import LOGGED, Replayed, evaluate, film
from ees_mpi.analysis.report import charts
from ees_mpi.contracts import View
from ees_mpi.errors import EesError, TrustError
from ees_mpi.store.reader import Run

SIZE = (320, 240)
SHOWN = 8  # individuals on a page without pictures


@dataclass(frozen=True)
class Extreme:
    """One individual at the end of its rollout."""

    choice: Choice
    behavior: tuple[float, ...]
    picture: str = ""  # a data: address
    bits: str = ""  # the comparison with the file


def heading(run: Run) -> str:
    """Return the heading of the section."""
    last = run.generations - 1
    return (
        f"Extremes of generation {last}"
        if run.config.population.has_individuals
        else f"The mean after generation {last}"
    )


def section(run: Run, count: int) -> str:
    """Return the section of the page on extremes."""
    shown, note = replay_extremes(run, count)
    if not run.config.population.has_individuals:
        note = f"The rows of this run are tasks, so the mean is shown, before it adapts to any task. {note}"
    if not shown:
        return "<p class='faint'>No individual of the last generation is valid.</p>"
    note = f"<p class='faint'>{html.escape(note)}</p>" if note else ""
    axes = ("x\u00a0", "y\u00a0") if has_positions(run) else ("",) * 4
    return f"{note}<div class='extremes'>{''.join(_figure(extreme, axes) for extreme in shown)}</div>"


def replay_extremes(run: Run, count: int) -> tuple[list[Extreme], str]:
    """Replay the extremes in front of a camera; if that is impossible, return the logged behaviors and the reason."""
    last = run.generations - 1
    logged = [Extreme(Choice(run.generations, None), ())]  # the mean
    if run.config.population.has_individuals:
        ends = positions(run, last)
        logged = [Extreme(Choice(last, i), tuple(ends[i].tolist())) for i in extremes(ends, count or SHOWN)]
    if not count:
        return logged, ""
    try:
        actor = film(run, View(*SIZE))
    except TrustError:
        raise
    except EesError as error:
        return logged, f"No pictures: {error}."
    replayed = []
    try:
        for extreme in logged:
            result = evaluate(run, actor, extreme.choice)
            behavior = extreme.behavior or tuple(result.again.evaluated[LOGGED:][-position_dim(run) :].tolist())
            picture = charts.png(actor.picture())
            replayed.append(replace(extreme, behavior=behavior, picture=picture, bits=_compare_bits(result)))
    finally:
        actor.close()
    return replayed, ""


def _compare_bits(result: Replayed) -> str:
    if not result.compared:
        return ""
    if result.again.same:
        return "same bits when replayed"
    expected = f", to be expected: {'; '.join(result.explained)}" if result.explained else ""
    return f"OTHER bits when replayed{expected}"


def _figure(extreme: Extreme, axes: tuple[str, ...]) -> str:
    name = html.escape(extreme.choice.name)
    image = f'<img src="{extreme.picture}" alt="{name} at the end of its rollout">' if extreme.picture else ""
    behavior = ", ".join(f"{axis}{value:.4g}" for axis, value in zip(axes, extreme.behavior, strict=False))
    more = ", ..." if len(extreme.behavior) > 4 else ""
    bits = f"<br><span class='faint'>{html.escape(extreme.bits)}</span>" if extreme.bits else ""
    colon = ": " if behavior else ""
    return f"<figure>{image}<figcaption><b>{name}</b>{colon}{behavior}{more}{bits}</figcaption></figure>"
