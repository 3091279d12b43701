"""`ees-mpi report`: one self-contained web page of a run: config, results and times; or of several runs."""

import html
import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ees_mpi import metrics
from ees_mpi.analysis import offspring
from ees_mpi.analysis import report_charts as charts
from ees_mpi.analysis.figures.style import drawing
from ees_mpi.analysis.labels import PHASES, differing, group_names, label, run_names, settings, stds
from ees_mpi.analysis.numbers.heritability import describe
from ees_mpi.analysis.numbers.selection import open_runs, scales, series, titles
from ees_mpi.analysis.numbers.tables import number
from ees_mpi.analysis.replay import Choice, Player, Replayed, film, scene
from ees_mpi.arrays import Floats
from ees_mpi.commands.arguments import check_committed
from ees_mpi.commands.info import MAX_KEYS, summarize, task_name
from ees_mpi.errors import EesError, MissingExtra, RunFileError
from ees_mpi.files import check_writable, written
from ees_mpi.run.file import Run, is_study
from ees_mpi.tasks.base import Drawable, Limbed, View
from ees_mpi.tasks.interference import OPTIMUM, Interference
from ees_mpi.terminal import clock

SIZE = (320, 240)  # of a picture that an environment draws
SCENE = (1000, 560)  # of the picture of all robots
TRAIL = 200  # points of a trail, about
SHOWN = 8  # individuals
SEEDS = "Thin lines are runs, which differ in their seed. A thick one is their mean, with its interval of 95 % (t)."
JUDGES = (
    "The entropy with the objective's kernel is what MaxEnt climbs. The entropy with a kernel of one cell and the "
    "coverage judge it: they have the same cells in all generations and runs, and they fall if the middle empties."
)


def write_report(paths: Sequence[Path], out: Path | None, trust: bool = False) -> Path:
    """Write the page of one or several run files; return its path.

    Code that a file names does not run without `trust`: the page then has no pictures, and says why.
    """
    target = out or paths[0].with_name(f"{paths[0].stem if len(paths) == 1 else 'runs'}-report.html")
    check_writable(target, "-o", (".html",), paths)
    place = target.absolute()  # code of the user, which draws individuals, may change the present folder
    with open_runs(paths, trust) as runs:
        for run in runs:
            check_committed(run)
            run.check_all()
        page = render(runs)
    with written(place, "w") as file:
        file.write(page)
    return target


def render(runs: Sequence[Run]) -> str:
    """Return the page as text."""
    offspring.check_one_task(runs)
    _check_rows(runs)
    run, done = runs[0], sum(member.complete for member in runs)
    study, row = is_study(run), "std" if is_study(run) else "generation"
    with drawing(charts.LOOK):
        frames, maps, three, caption = charts.behaviors(runs, run_names(runs))
        curves = Curves.of(runs)
        sections = {"By std" if study else "Over generations": _curves(runs, curves, row)}
        if len(runs) == 1:
            facts = summarize(run)
            summary, state = (
                _facts(run, facts) + _moments(run, curves),
                f"; state after the last generation {facts['state_sha256']}",
            )
            written_at = str(run.attributes["created"]).replace("T", " ").replace("Z", " UTC")
            created = f"{'written' if study else 'begun'} {written_at}"
            subtitle = f"{run.path.name}, seed {run.config.run.seed}, {created}"
            unfinished = f"{run.generations} of {run.config.run.generations} generations"
            acting = "Extremes of" if run.config.population.has_individuals else "The mean after"
            last = f"Extremes at std {stds(run)[-1]:g}" if study else f"{acting} generation {run.generations - 1}"
            sections[last] = _extremes(run)
            sections["Time"] = _times(run)
            with suppress(RunFileError, MissingExtra):  # not a file of `measure --starts`; no scipy
                sections["Heritability"] = _columns(describe(run))
        else:
            summary, state = _groups(runs, curves), ""
            sections["Runs"] = _each(runs)
            subtitle, unfinished = f"{len(runs)} runs", f"{done} of {len(runs)} runs are complete"
    sections[f"Config of {run.path.name}"] = f"<pre>{html.escape(run.config.to_toml())}</pre>"
    labels = "; ".join(dict.fromkeys(map(label, runs)))
    texts = {
        "title": f"{'Mutations: ' * study}{labels} on {task_name(run.config)}",
        "status": "complete" if done == len(runs) else unfinished,
        "status_class": "" if done == len(runs) else "unfinished",
        "subtitle": subtitle,
        "caption": caption,
        "row": row,
        "footer": f"Written by {run.attributes['program']}{state}. This page needs no other file.",
    }
    page = Template(resources.files("ees_mpi").joinpath("analysis", "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        {name: html.escape(text) for name, text in texts.items()},
        summary=summary,
        maps=maps,
        moments=three,
        sections="".join(
            f"<section><h2>{html.escape(title)}</h2>{content}</section>\n" for title, content in sections.items()
        ),
        data=json.dumps(frames, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
    )


def _check_rows(runs: Sequence[Run]) -> None:
    """Raise a RunFileError if the rows of files are not the same: generations, or stds; samples have one row each."""
    first = stds(runs[0])
    for run in runs:
        if stds(run) != first and not len(stds(run)) == len(first) == 1:
            rows = [
                f"{each.path} has {'stds ' + ', '.join(map(str, stds(each))) if is_study(each) else 'generations'}"
                for each in (runs[0], run)
            ]
            raise RunFileError(f"{' and '.join(rows)}, so their rows do not belong together; give a report to each")


def groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs that have a color in common: the seeds of a setting."""
    members_of: dict[str, list[Run]] = {}
    for run, name in zip(runs, group_names(runs), strict=True):
        members_of.setdefault(name, []).append(run)
    return members_of


def _each(runs: Sequence[Run]) -> str:
    """Return a table of single runs: their files, the keys in which they differ, and the end of each."""
    configs = {run.path: settings(run.config.sections()) for run in runs}
    keys = differing(list(configs.values()))[:MAX_KEYS]
    place = {run.path: color for color, members in enumerate(groups(runs).values()) for run in members}
    rows = []
    for run in runs:
        values = [str(configs[run.path].get(key, "-")) for key in keys]
        done = f"{run.generations} of {run.config.run.generations}"
        rows.append([run.path.name, *values, str(run.config.run.seed), done])
    return _table(["file", *keys, "seed", "generations"], rows, [charts.key(place[run.path]) for run in runs])


@dataclass(frozen=True)
class Curves:
    """The metrics of runs over generations: of each the title, and the series of all runs by group."""

    titles: dict[str, str]
    lines: dict[str, dict[str, list[Floats]]]  # metric -> group -> a series for each run
    main: tuple[str, ...]  # what the objective climbs, what judges it, how far and how well

    @classmethod
    def of(cls, runs: Sequence[Run]) -> "Curves":
        scale, members_of = scales(runs)[0], groups(runs)
        settings = runs[0].metric_settings
        first = {*settings.own_names, *metrics.in_file(settings), *metrics.in_table("curves", settings)}
        known = {name: title for name, title in titles(runs, scale).items() if name in first}
        lines = {
            name: {group: [series(run, name, scale) for run in members] for group, members in members_of.items()}
            for name in known
        }
        main = dict.fromkeys((settings.headline, *metrics.in_table("curves", settings)))
        if all(isinstance(run.config.task, Interference) for run in runs):
            several = any(run["mean"].shape[1] > 1 for run in runs)
            known["x"] = f"x of the {'first ' * several}mean, and the optimum"
            for group, members in members_of.items():
                lines.setdefault("x", {})[group] = [run["mean"][:, 0, 0].astype(np.float64) for run in members]
            main = dict.fromkeys(("x", *main))
        shown = [name for name in main if name in known and _is_known(lines[name])]
        return cls(known, lines, tuple(shown))


def _is_known(lines: Mapping[str, Sequence[Floats]]) -> bool:
    """Return whether a metric is a number other than 0 anywhere."""
    return any((np.isfinite(values) & (values != 0)).any() for members in lines.values() for values in members)


def _curves(runs: Sequence[Run], curves: Curves, row: str) -> str:
    """Return charts of the metrics, of all runs over each other, or a sentence if there is nothing to draw."""
    drawn = {}
    for name in (*curves.main, *(name for name in curves.titles if name not in curves.main)):
        level = OPTIMUM if name == "x" else None
        title = curves.titles[name][0].upper() + curves.titles[name][1:]
        drawn[name] = charts.chart(title, curves.lines[name], at=stds(runs[0]), level=level)
    if not any(drawn.values()):
        return f"<p class='faint'>One {row} has no curves; the numbers above describe it.</p>"
    members_of = groups(runs)
    keys = [f"{charts.key(place)}{html.escape(name)}" for place, name in enumerate(members_of)]
    legend = f"<p>{' '.join(keys)}</p>" if len(keys) > 1 else ""
    if any(len(members) > 1 for members in members_of.values()):
        legend += f"<p class='faint'>{SEEDS}</p>"
    if {"entropy", "entropy_fixed"} <= {*curves.main}:
        legend += f"<p class='faint'>{JUDGES}</p>"
    main, more = (
        "".join(drawn[name] for name in curves.main),
        "".join(drawn[name] for name in drawn if name not in curves.main),
    )
    rest = f"<details><summary>More curves</summary><div class='curves'>{more}</div></details>" if more else ""
    return f"{legend}<div class='curves'>{main}</div>{rest}"


def _moments(run: Run, curves: Curves) -> str:
    """Return a table of the main metrics of a run in the first, a middle and the last generation."""
    chosen = sorted({0, run.generations // 2, run.generations - 1})
    head = [f"std {stds(run)[g]:g}" if is_study(run) else f"generation {g}" for g in chosen]
    rows = []
    for name in curves.main:
        ((values,),) = curves.lines[name].values()
        rows.append([curves.titles[name], *(number(_near(values, g)) for g in chosen)])
    return _table(["", *head], rows)


def _groups(runs: Sequence[Run], curves: Curves) -> str:
    """Return a table of the main metrics in the last row: a row for each group, with intervals over seeds."""
    names = list(next(iter(curves.lines.values())))
    rows = []
    for name in names:
        cells = []
        for metric in curves.main:
            last = np.array([_near(values, len(values) - 1) for values in curves.lines[metric][name]])
            text = number(float(last.mean()))
            if len(last) > 1:
                low, high = (number(float(end)) for end in charts.interval_of_mean(last))
                text += f" ({low} to {high})"
            cells.append(text)
        rows.append([name, str(len(curves.lines[curves.main[0]][name])), *cells])
    where = {f"std {stds(run)[-1]:g}" if is_study(run) else "last generation" for run in runs}
    head = [", ".join(sorted(where)), "runs", *(curves.titles[name] for name in curves.main)]
    several = any(int(row[1]) > 1 for row in rows)
    note = "<p class='faint'>Means over runs; in brackets: their interval of 95 % (t).</p>" if several else ""
    return note + _table(head, rows, [charts.key(place) for place in range(len(names))])


def _near(values: Floats, generation: int) -> float:
    """Return a value of a series, or the last one before it that is known."""
    known = np.flatnonzero(np.isfinite(values[: generation + 1]))
    return float(values[known[-1]]) if len(known) else math.nan


def _facts(run: Run, facts: dict[str, Any]) -> str:
    """Return the main numbers of a run; `facts`: those of `info`."""
    sessions = run.sessions()
    std = np.asarray(run["std"][-1] if "std" in run else run.std(-1))
    learned = f" (learned; {std.min():.3g} to {std.max():.3g})" if std.min() < std.max() else ""
    shown = {
        f"{run.config.population.row_name}s": f"{facts['population_size']:,}",
        **({} if is_study(run) else {"generations": f"{facts['generations']:,}"}),
        "parameters": f"{facts['parameters']:,}",
        "standard deviation": ", ".join(f"{each:.3g}" for each in stds(run) or [np.median(std)]) + learned,
        "rollouts": f"{facts['evaluations']:,}",
        "steps": f"{facts['steps']:,}",
        "time": clock(sum(session["end"] - session["start"] for session in sessions)),
        "ranks, nodes": f"{facts['ranks']}, {facts['nodes']}",
        "sessions": str(len(sessions)),
        "invalid rollouts": f"{float(np.mean(run['invalid_share'][:])):.2%}",
    }
    if start := facts["started_from"]:
        shown["started from"] = f"{Path(start['path']).name}, generation {start['generation']}"
    pairs = "".join(f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(v)}</dd></div>" for name, v in shown.items())
    return f"<dl>{pairs}</dl>"


def _extremes(run: Run) -> str:
    """Return individuals of the last generation that differ most, with pictures if they can act again here."""
    last, note = run.generations - 1, "The individuals whose behaviours differ most. "
    choices = [Choice(run.generations)]  # the mean
    if run.config.population.has_individuals:
        choices = [Choice(last, index) for index in offspring.extremes(offspring.positions(run, last), SHOWN)]
    else:
        note = "The rows of this run are tasks, so the mean is shown, before it adapts to any task. "
    if not choices:
        return "<p class='faint'>No individual of the last generation is valid.</p>"
    if (starts := run.config.task.rollouts) > 1:
        note += f"The numbers are means over {starts} starts. "
    pictures, figures = "", ""
    try:
        with closing(film(run, View(*SIZE))) as actor:
            if hasattr(actor, "limbs"):
                pictures, figures = _scene(run, actor, choices)
            else:
                pictures, figures = _pictures(run, actor, choices)
    except EesError as error:  # nothing to draw, code that does not run here, a population that has changed
        note += f"No pictures: {error}. "
    figures = figures or "".join(_figure(run, choice) for choice in choices)
    return f"<p class='faint'>{html.escape(note)}</p>{pictures}<div class='extremes'>{figures}</div>"


def _scene(run: Run, actor: Limbed, choices: Sequence[Choice]) -> tuple[str, str]:
    """Return a picture of all robots at their ends, with their trails, and the numbers of each."""
    every = max(1, run.config.task.steps // TRAIL)
    player = Player(run, actor)
    recorded = [player.record(choice, every, in_scene=True) for choice in choices]
    image = charts.png(scene(run, recorded, every * actor.step_seconds, SCENE).last())
    figures = [_figure(run, choice, result) for choice, (_, result) in zip(choices, recorded, strict=True)]
    return f'<img class="scene" src="{image}" alt="the robots and their trails">', "".join(figures)


def _pictures(run: Run, actor: Drawable, choices: Sequence[Choice]) -> tuple[str, str]:
    """Return the picture of each at the end of its (last) rollout, with its numbers."""
    figures, player = "", Player(run, actor)
    for choice in choices:
        result = player.evaluate(choice)
        figures += _figure(run, choice, result, charts.png(actor.picture()))
    several = run.config.task.rollouts > 1
    return "<p class='faint'>The pictures show the end of the last of these starts.</p>" * several, figures


def _figure(run: Run, choice: Choice, result: Replayed | None = None, image: str = "") -> str:
    """Return the numbers of one individual; `result`: of its replay; `image`: the address of its picture."""
    bits, behavior = "", []
    if choice.individual is not None:
        behavior = offspring.positions(run, choice.generation)[choice.individual].tolist()
    if result is not None:
        behavior = behavior or result.again.behavior[0, -run.metric_settings.axes :].tolist()
        expected = f", to be expected: {'; '.join(result.explained)}" if result.explained else ""
        bits = "same bits when replayed" if result.same else f"OTHER bits when replayed{expected}"
        bits = f"<br><span class='faint'>{html.escape(bits)}</span>" if result.logged is not None else ""
    picture = f'<img src="{image}" alt="{choice.name} at the end of its rollout">' if image else ""
    axes = ("x\u00a0", "y\u00a0") if offspring.has_positions(run) else ("",) * 4
    shown = ", ".join(f"{axis}{value:.4g}" for axis, value in zip(axes, behavior, strict=False))
    return f"<figure>{picture}<b>{html.escape(choice.name)}</b>{': ' if shown else ''}{shown}{bits}</figure>"


def _times(run: Run) -> str:
    spent = {phase: float(np.nansum(run[f"seconds_{phase}"][:])) for phase in PHASES}
    total = sum(spent.values()) or 1.0
    phases = [
        [phase, f"{spent[phase]:,.{3 if spent[phase] < 100 else 0}f} s", f"{spent[phase] / total:.1%}", PHASES[phase]]
        for phase in PHASES
    ]
    low, mean, high = (np.asarray(run[f"seconds_evaluate_{name}"][:]) for name in ("min", "mean", "max"))
    title, lines = "Rollouts of a generation, seconds", {"slowest rank": [high], "mean": [mean], "quickest": [low]}
    ranks, counts = np.unique(run["slowest_rank"][:], return_counts=True)
    even = float(mean.sum() / high.sum()) if high.sum() > 0 else 1.0
    sessions = []
    for session in run.sessions():
        began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(session["start"]))
        facts = [str(session[key]) for key in ("first_generation", "ranks", "nodes", "host")]
        cpu, mpi = (str(session["machine"].get(name, "")) for name in ("cpu", "mpi"))
        sessions.append([began, clock(session["end"] - session["start"]), *facts, cpu, mpi.split(",")[0]])
    return (
        _table(["phase of rank 0", "time", "share", ""], phases)
        + f"<h3>By rank</h3><p>On average a rank evaluated for {even:.1%} of the slowest rank's time. Rank "
        + f"{ranks[counts.argmax()]} was the slowest in {counts.max()} of {counts.sum()} generations.</p>"
        + (f"<div class='curves'>{charts.chart(title, lines, legend=True)}</div>" if (high > low).any() else "")
        + "<h3>By session</h3>"
        + _table(["began", "took", "from generation", "ranks", "nodes", "host", "CPU", "MPI"], sessions)
    )


def _columns(lines: Sequence[str]) -> str:
    """Return lines of text: those in columns scroll on a narrow screen, and sentences wrap."""
    parts = ""
    for aligned, some in groupby(filter(None, lines), lambda line: "  " in line):
        text = [html.escape(line) for line in some]
        parts += "<pre class='scroll' tabindex='0'>{}</pre>".format("\n".join(text)) if aligned else ""
        parts += "" if aligned else "".join(f"<p>{line}</p>" for line in text)
    return parts


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], keys: Sequence[str] = ()) -> str:
    """Return a table that scrolls on a narrow screen; `keys`: HTML in front of each row."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = ""
    for row, key in zip(rows, keys or [""] * len(rows), strict=True):
        body += f"<tr><td>{key}" + "<td>".join(f"{html.escape(cell)}</td>" for cell in row) + "</tr>"
    return f"<div class='scroll' tabindex='0'><table><tr>{top}</tr>{body}</table></div>"
