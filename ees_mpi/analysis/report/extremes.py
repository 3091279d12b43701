"""The extremes of the last generation of a run, replayed: behavior, comparison of bits, and a picture of each."""

import html
from contextlib import closing, nullcontext

from ees_mpi.analysis.offspring import extremes, has_positions, position_dim, positions
from ees_mpi.analysis.replay.choice import Choice
from ees_mpi.analysis.replay.replay import LOGGED, Replayed, evaluate, film
from ees_mpi.analysis.report import charts
from ees_mpi.contracts import Drawable, View
from ees_mpi.errors import EesError, TrustError
from ees_mpi.store.reader import Run

SIZE = (320, 240)
SHOWN = 8  # individuals on a page without pictures


def heading(run: Run) -> str:
    """Return the heading of the section."""
    last = run.generations - 1
    return (
        f"Extremes of generation {last}"
        if run.config.population.has_individuals
        else f"The mean after generation {last}"
    )


def section(run: Run, count: int) -> str:
    """Return the section of the page: so many extremes act again in front of a camera; if they cannot, as logged."""
    individuals, last = run.config.population.has_individuals, run.generations - 1
    choices = [Choice(run.generations)]  # the mean
    if individuals:
        choices = [Choice(last, index) for index in extremes(positions(run, last), count or SHOWN)]
    actor, note = _actor(run) if count else (None, "")
    with closing(actor) if actor else nullcontext():
        figures = [_figure(run, choice, actor) for choice in choices]
    if not figures:
        return "<p class='faint'>No individual of the last generation is valid.</p>"
    if not individuals:
        note = f"The rows of this run are tasks, so the mean is shown, before it adapts to any task. {note}"
    note = f"<p class='faint'>{html.escape(note)}</p>" if note else ""
    return f"{note}<div class='extremes'>{''.join(figures)}</div>"


def _actor(run: Run) -> tuple[Drawable | None, str]:
    """Return the task in front of a camera, or the reason why it cannot be drawn."""
    try:
        return film(run, View(*SIZE)), ""
    except TrustError:
        raise
    except EesError as error:
        return None, f"No pictures: {error}."


def _figure(run: Run, choice: Choice, actor: Drawable | None) -> str:
    """Return one individual at the end of its rollout; an actor repeats the rollout in front of a camera."""
    name, image, bits, behavior = html.escape(choice.name), "", "", []
    if choice.individual is not None:
        behavior = positions(run, choice.generation)[choice.individual].tolist()
    if actor is not None:
        result = evaluate(run, actor, choice)
        behavior = behavior or result.again.evaluated[LOGGED:][-position_dim(run) :].tolist()
        image = f'<img src="{charts.png(actor.picture())}" alt="{name} at the end of its rollout">'
        bits = _compare_bits(result)
    axes = ("x\u00a0", "y\u00a0") if has_positions(run) else ("",) * 4
    shown = ", ".join(f"{axis}{value:.4g}" for axis, value in zip(axes, behavior, strict=False))
    more = ", ..." if len(behavior) > 4 else ""
    colon = ": " if shown else ""
    return f"<figure>{image}<figcaption><b>{name}</b>{colon}{shown}{more}{bits}</figcaption></figure>"


def _compare_bits(result: Replayed) -> str:
    """Return a line about the bits of a rollout; empty if the file has none to compare with."""
    if not result.compared:
        return ""
    expected = f", to be expected: {'; '.join(result.explained)}" if result.explained else ""
    text = "same bits when replayed" if result.again.same else f"OTHER bits when replayed{expected}"
    return f"<br><span class='faint'>{html.escape(text)}</span>"
