"""`ees-mpi report`: one self-contained web page of a run: config, results, times, next commands; or of several runs."""

import html
import json
import math
import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import PHASES, group_names, label, run_names
from ees_mpi.analysis.numbers.signals import LEGEND
from ees_mpi.analysis.numbers.signals import table as signal_table
from ees_mpi.analysis.offspring import check_committed, check_one_task, has_positions
from ees_mpi.analysis.report import behaviors, charts, extremes
from ees_mpi.analysis.series import series, titles
from ees_mpi.analysis.subject import subject
from ees_mpi.commands.info import read, summarize, table, task_name
from ees_mpi.commands.signal import SPLITS, choose, measure_signal
from ees_mpi.errors import EesError
from ees_mpi.files import check_writable, written
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run, open_run
from ees_mpi.tasks.locomotion import PolicyTask
from ees_mpi.terminal import clock

SLOWEST = 5  # ranks that are named
MOST = 2e9  # numbers of noise and of kernels that are added up for the signal, at most: a few seconds
Section = tuple[str, str, str]  # the name, the title and the content


def write_report(paths: Sequence[Path], out: Path | None, thumbnails: int) -> Path:
    """Write the page of one or several run files; return its path."""
    target = out or paths[0].with_name(f"{paths[0].stem if len(paths) == 1 else 'runs'}-report.html")
    check_writable(target, "-o", (".html",), paths)
    with ExitStack() as stack:
        runs = [stack.enter_context(open_run(path)) for path in paths]
        for run in runs:
            check_committed(run)
            run.check_all()
        page = render(runs, thumbnails)
    with written(target, "w") as file:
        file.write(page)
    return target


def render(runs: Sequence[Run], thumbnails: int) -> str:
    """Return the page as text."""
    check_one_task(runs)
    run, names = runs[0], run_names(runs)
    data, caption = behaviors.behaviors(runs, names)
    done = sum(member.complete for member in runs)
    labels = "; ".join(dict.fromkeys(map(label, runs)))
    parts = {
        "title": f"{'' if subject(run).trained else 'Sample of offspring: '}{labels} on {task_name(run.config)}",
        "status_class": "" if done == len(runs) else "unfinished",
        "behaviors_caption": caption,
    }
    if len(runs) == 1:
        facts = summarize(run)
        unfinished = f"{run.generations} of {run.config.run.generations} generations"
        state = f"; state after the last generation {facts['state_sha256']}"
        parts["subtitle"] = f"{run.path.name}, seed {run.config.run.seed}, begun {run.attributes['created']}"
        summary = _facts(run, facts)
    else:
        unfinished, state = f"{done} of {len(runs)} runs are complete", ""
        parts["subtitle"] = f"{len(runs)} runs"
        summary = _table_of(runs)
    parts["status"] = unfinished if parts["status_class"] else "complete"
    parts["footer"] = f"Written by {run.attributes['program']}{state}. This page needs no other file."
    parts = {name: html.escape(text) for name, text in parts.items()}
    parts |= {
        "summary": summary,
        "sections": "".join(
            f'<section id="{name}"><h2>{html.escape(title)}</h2>{content}</section>\n'
            for name, title, content in _sections(runs, thumbnails)
        ),
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
    }
    page = resources.files("ees_mpi").joinpath("analysis", "report", "page.html").read_text(encoding="utf-8")
    head, *pieces = page.split("{{")  # in one pass, so that "{{" inside a part is not a placeholder
    filled = [parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces)]
    return head + "".join(filled)


def _sections(runs: Sequence[Run], thumbnails: int) -> list[Section]:
    run, curves = runs[0], ("curves", "Over generations", _curves(runs))
    config = f"<pre>{html.escape(run.config.to_toml())}</pre>"
    if len(runs) > 1:
        return [curves, ("config", f"Config of {run.path.name}", config)]
    return [
        curves,
        ("signal", "How much of a step is signal", _signal(run)),
        ("extremes", extremes.heading(run), extremes.section(run, thumbnails)),
        ("time", "Time", _times(run)),
        ("commands", "Next commands", f"<div class='commands'>{_commands(run)}</div>"),
        ("config", "Config", config),
    ]


def _curves(runs: Sequence[Run]) -> str:
    """Return charts of the logged metrics, of all runs over each other, or a sentence if there is nothing to draw."""
    members_of, drawn = groups(runs), ""
    for name, title in titles(runs).items():
        lines = {group: [series(run, name) for run in members] for group, members in members_of.items()}
        drawn += charts.chart(title[0].upper() + title[1:], lines, legend=False)
    if not drawn:
        return "<p class='faint'>One generation has no curves; the numbers above describe it.</p>"
    legend = f"<p>{charts.keys_of(members_of)}</p>" if len(members_of) > 1 else ""
    return f"{legend}<div class='curves'>{drawn}</div>"


def groups(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs that have a color in common: the seeds of a setting; if there is one setting, each run alone."""
    names = group_names(runs)
    members_of: dict[str, list[Run]] = {}
    for run, name in zip(runs, names if len(set(names)) > 1 else run_names(runs), strict=True):
        members_of.setdefault(name, []).append(run)
    return members_of


def _table_of(runs: Sequence[Run]) -> str:
    """Return a table of the runs, their last numbers, and the keys in which they differ."""
    head, *rows = table([read(run.path) for run in runs])
    place = {run.path: color for color, members in enumerate(groups(runs).values()) for run in members}
    keys = [charts.key(charts.color(place[run.path])) for run in runs]
    cells = [[html.escape(cell) for cell in row] for row in rows]
    return _table(head, [[key + first, *rest] for key, (first, *rest) in zip(keys, cells, strict=True)])


def _facts(run: Run, facts: dict[str, Any]) -> str:
    """Return the main numbers of the run."""
    sessions = run.sessions()
    shown = {
        f"{run.config.population.row_name}s": f"{facts['population_size']:,}",
        "generations": f"{facts['generations']:,}",
        "parameters": f"{facts['parameters']:,}",
        "standard deviation": _std(run),
        "rollouts": f"{facts['evaluations']:,}",
        "steps": f"{facts['steps']:,}",
        "time": clock(sum(session["end"] - session["start"] for session in sessions)),
        "ranks, nodes": f"{facts['ranks']}, {facts['nodes']}",
        "sessions": str(len(sessions)),
        "invalid rollouts": f"{float(np.mean(run['invalid_share'][:])):.2%}",
    }
    start = facts["started_from"]
    if start:
        shown["started from"] = f"{Path(start['path']).name}, generation {start['generation']}"
    pairs = "".join(f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(v)}</dd></div>" for name, v in shown.items())
    return f'<dl class="facts">{pairs}</dl>'


def _std(run: Run) -> str:
    """Return the standard deviation of the population; the median of a learned one."""
    if "std" not in run.names or not run.generations:
        return f"{run.config.population.std:g}"
    std = np.asarray(run["std"][run.generations - 1])
    return f"{np.median(std):.3g} (learned; {std.min():.3g} to {std.max():.3g})"


def _signal(run: Run) -> str:
    """Return the signal of some gradients, if it is quick to compute; otherwise the command, or the reason."""
    table, about = "", LEGEND
    try:
        generations, size = choose(run, None, None), run.config.population.size
        work = size * (run["mean"][0].size + size) * SPLITS * len(generations) + run.config.noise.size
        if work > MOST:
            about = f"It takes some time to compute: ees-mpi signal {run.path.name}"
        else:
            head, *rows = signal_table(list(measure_signal(Ranks(), run, generations)))
            table = _table(head, [[html.escape(cell) for cell in row] for row in rows])
    except EesError as error:
        about = f"Not measured: {error}"
    return f"{table}<p class='faint'>{html.escape(about)}</p>"


def _times(run: Run) -> str:
    """Return the times by phase, by rank and by session."""
    spent = [float(np.nansum(run[f"seconds_{phase}"][:])) for phase in PHASES]
    total = sum(spent) or 1.0
    bar, phases = "", []
    for (phase, about), seconds, color in zip(PHASES.items(), spent, charts.COLORS, strict=False):
        share = seconds / total
        bar += f'<span style="flex:{max(share, 1e-4):.5f};background:{color}" title="{phase}"></span>'
        duration = clock(seconds) if seconds >= 60 else f"{seconds:.3g} s" if math.isfinite(seconds) else ""
        phases.append([charts.key(color) + phase, duration, f"{share:.1%}", about])
    low, mean, high = (np.asarray(run[f"seconds_evaluate_{name}"][:]) for name in ("min", "mean", "max"))
    lines = {"slowest rank": [high], "mean": [mean], "quickest": [low]}
    ranks, counts = np.unique(run["seconds_slowest_rank"][:], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:SLOWEST]
    slowest = ", ".join(f"rank {ranks[i]} in {counts[i]}" for i in order)
    even = float(mean.sum() / high.sum()) if high.sum() > 0 else 1.0
    return (
        f'<div class="phases">{bar}</div>'
        + _table(["phase of rank 0", "time", "share", ""], phases)
        + f"<h3>By rank</h3><p>On average a rank evaluated for {even:.1%} of the slowest rank's time. "
        + f"Slowest: {slowest} generations.</p>"
        + f"<div class='curves'>{charts.chart('Rollouts of a generation', lines, 'seconds')}</div>"
        + "<h3>By session</h3>"
        + _table(["began", "took", "from generation", "ranks", "nodes", "host", "CPU", "MPI"], _sessions(run))
    )


def _sessions(run: Run) -> list[list[str]]:
    rows = []
    for session in run.sessions():
        began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(session["start"]))
        facts = [session[key] for key in ("first_generation", "ranks", "nodes", "host")]
        cpu, mpi = (str(session["machine"].get(name, "")) for name in ("cpu", "mpi"))
        rows.append([began, clock(session["end"] - session["start"]), *map(str, facts), cpu, mpi.split(",")[0]])
    return [[html.escape(cell) for cell in row] for row in rows]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of HTML as a table that scrolls on a narrow screen."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='scroll' tabindex='0'><table><tr>{top}</tr>{body}</table></div>"


def _commands(run: Run) -> str:
    """Return the commands that work on this file."""
    trained, individuals, walking = subject(run).trained, run.config.population.has_individuals, has_positions(run)
    updates = trained and individuals
    alone = not run.config.task.in_program  # otherwise no command can evaluate individuals
    trained, offspring = alone and trained, alone and individuals
    directed = trained and walking and run.config.task.heading is not None
    component = " --component 0" if run["mean"].shape[1] > 1 else ""
    longer = f"mpirun -n 2 ees-mpi resume RUN --generations {2 * run.generations}"
    film = "ees-mpi replay RUN --toward left --toward right --video farthest.mp4"
    commands = [
        (alone and not run.complete, "continue the run", "mpirun -n 2 ees-mpi resume RUN"),
        (run.complete and trained, "train longer", longer),
        (offspring, "evaluate individuals again and compare every bit", "ees-mpi verify RUN"),
        (updates, "measure how much of a step is signal", "ees-mpi signal RUN"),
        (offspring and walking, "film the two that went farthest", film),
        (trained, "evaluate 1,000 new offspring", "mpirun -n 2 ees-mpi sample RUN --count 1000"),
        (directed, "adapt to a direction in one step", "ees-mpi adapt RUN --direction left"),
        (isinstance(run.config.task, PolicyTask), "export the policy", f"ees-mpi export RUN --policy{component}"),
        (True, "export the arrays", "ees-mpi export RUN --to csv"),
    ]
    name = shlex.quote(str(run.path))
    return "".join(
        f"<div><p class='faint'>{html.escape(about)}</p><pre>{html.escape(command.replace('RUN', name))}</pre></div>"
        for works, about, command in commands
        if works
    )
