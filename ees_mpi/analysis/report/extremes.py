"""The extremes of a run's last generation, replayed: what each did, whether its bits are right, and a picture."""

import html
from dataclasses import dataclass, replace

from ees_mpi.analysis.offspring import extremes, has_offspring, places, walks
from ees_mpi.analysis.replay.choice import Choice
from ees_mpi.analysis.replay.replay import LOGGED, Replayed, evaluate, film
from ees_mpi.analysis.report import charts
from ees_mpi.contracts import View
from ees_mpi.errors import EesError
from ees_mpi.store.reader import Run

SIZE = (320, 240)


@dataclass(frozen=True)
class Portrait:
    """One individual: how it ended, as a picture where there is one, and what replaying it showed."""

    choice: Choice
    behavior: tuple[float, ...]
    axes: tuple[str, ...]
    picture: str = ""  # a data: address
    verdict: str = ""


def heading(run: Run) -> str:
    """Return what the section shows, and of when."""
    last = run.generations - 1
    return f"Extremes of generation {last}" if has_offspring(run) else f"The mean after generation {last}"


def section(run: Run, count: int) -> str:
    """Return the page's section on extremes."""
    portraits, why_not = portray(run, count)
    if not has_offspring(run):
        why_not = f"The individuals of this run are tasks, so the mean is shown, before it adapts to any. {why_not}"
    if not portraits:
        return "<p class='faint'>No individual of the last generation is valid.</p>"
    note = f"<p class='faint'>{html.escape(why_not)}</p>" if why_not else ""
    return f"{note}<div class='extremes'>{''.join(map(_figure, portraits))}</div>"


def portray(run: Run, count: int) -> tuple[list[Portrait], str]:
    """Replay the extremes before a camera; where that cannot be, say why and tell what the file has of them."""
    axes = ("x\u00a0", "y\u00a0") if walks(run) else ("",) * 4
    last = run.generations - 1
    if has_offspring(run):
        found = places(run, last)
        plain = [Portrait(Choice(last, i), tuple(found[i].tolist()), axes) for i in extremes(found, count or 8)]
    else:
        plain = [Portrait(Choice(run.generations, None), (), axes)]
    if not count:
        return plain, ""
    try:
        actor = film(run, View(*SIZE))
    except EesError as error:
        return plain, f"No pictures: {error}."
    ends = places(run, last).shape[1]
    try:
        portraits = []
        for each in plain:
            replayed = evaluate(run, actor, each.choice)
            behavior = each.behavior or tuple(replayed.again.found[LOGGED:][-ends:].tolist())  # of a mean: as seen now
            picture = charts.png(actor.picture())
            portraits.append(replace(each, behavior=behavior, picture=picture, verdict=_verdict(replayed)))
    finally:
        actor.close()
    return portraits, ""


def _verdict(replayed: Replayed) -> str:
    if not replayed.compared:
        return ""
    if replayed.again.same:
        return "same bits when replayed"
    expected = f", to be expected: {'; '.join(replayed.explained)}" if replayed.explained else ""
    return f"OTHER bits when replayed{expected}"


def _figure(portrait: Portrait) -> str:
    name = html.escape(portrait.choice.name)
    image = f'<img src="{portrait.picture}" alt="{name} at the end of its rollout">' if portrait.picture else ""
    behavior = ", ".join(f"{axis}{value:.4g}" for axis, value in zip(portrait.axes, portrait.behavior, strict=False))
    more = ", ..." if len(portrait.behavior) > 4 else ""
    verdict = f"<br><span class='faint'>{html.escape(portrait.verdict)}</span>" if portrait.verdict else ""
    colon = ": " if behavior else ""
    return f"<figure>{image}<figcaption><b>{name}</b>{colon}{behavior}{more}{verdict}</figcaption></figure>"
