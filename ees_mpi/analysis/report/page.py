"""One self-contained web page of a run: what was run and how, what came of it, where the time went, how to go on."""

import html
import json
import math
import shlex
import time
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import label
from ees_mpi.analysis.offspring import has_offspring, walks
from ees_mpi.analysis.report import behaviors, charts, extremes
from ees_mpi.commands.info import summarize, task_name
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_writable, written
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run, open_run
from ees_mpi.tasks.locomotion import PolicyTask
from ees_mpi.terminal import clock

PHASES = {
    "evaluate": "rollouts",
    "gather": "waiting for all outcomes",
    "update": "weights, gradient, step, metrics",
    "commit": "writing the file",
}
SLOWEST = 5  # ranks that are named


def write_report(path: Path, out: Path | None, thumbnails: int) -> Path:
    """Write the page of a run file; returns where it is."""
    target = out or path.with_name(f"{path.stem}-report.html")
    if target.suffix != ".html" or target.is_dir() or not target.parent.is_dir():
        raise ConfigError(f"-o {target}: expected a name that ends in .html, in a folder that exists")
    check_writable(target)
    with open_run(path) as run:
        if run.generations == 0:
            raise RunFileError(f"{path} has no committed generation yet")
        page = render(run, thumbnails)
    with written(target, "w") as file:
        file.write(page)
    return target


def render(run: Run, thumbnails: int) -> str:
    """Return the page as text."""
    data, about = behaviors.behaviors(run)
    facts = summarize(run)
    parts = {
        "title": f"{'Sample of offspring: ' * (facts['kind'] == 'sample')}{label(run)} on {task_name(run.config)}",
        "status": "complete" if run.complete else f"{run.generations} of {run.config.run.generations} generations",
        "status_class": "" if run.complete else "unfinished",
        "subtitle": f"{run.path.name}, seed {run.config.run.seed}, begun {run.attributes['created']}",
        "behaviors_about": about,
        "extremes_title": extremes.heading(run),
        "config": run.config.to_toml(),
        "footer": f"Written by {run.attributes['program']}; state after the last generation {facts['state_sha256']}. "
        "This page needs nothing but itself.",
    }
    parts = {name: html.escape(text) for name, text in parts.items()}
    parts |= {
        "facts": _facts(run, facts),
        "curves": f"<div class='curves'>{''.join(_curves(run))}</div>",
        "extremes": extremes.section(run, thumbnails),
        "ledger": _ledger(run),
        "commands": _commands(run),
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
    }
    page = resources.files("ees_mpi").joinpath("analysis", "report", "page.html").read_text(encoding="utf-8")
    head, *pieces = page.split("{{")  # so that nothing in a part is taken for a place
    filled = [parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces)]
    return head + "".join(filled)


def _facts(run: Run, facts: dict[str, Any]) -> str:
    """List what was run, in a few numbers."""
    sessions = run.sessions()
    taken = sum(session["end"] - session["start"] for session in sessions)
    told = {
        f"{behaviors.rows_are(run)}s": f"{facts['population_size']:,}",
        "generations": f"{facts['generations']:,}",
        "parameters": f"{facts['parameters']:,}",
        "standard deviation": f"{run.config.population.std:g}",
        "rollouts": f"{facts['evaluations']:,}",
        "steps": f"{facts['steps']:,}",
        "time": clock(taken),
        "ranks, nodes": f"{facts['ranks']}, {facts['nodes']}",
        "sittings": str(len(sessions)),
        "invalid rollouts": f"{float(np.mean(run['invalid_share'][:])):.2%}",
    }
    start = facts["started_from"]
    if start:
        told["started from"] = f"{Path(start['path']).name}, generation {start['generation']}"
    return "".join(f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(v)}</dd></div>" for name, v in told.items())


def _curves(run: Run) -> Iterable[str]:
    """Draw the logged metrics over generations."""

    def series(name: str) -> Floats:
        return np.asarray(run[name][:], np.float64)

    variance = series("behavior_variance")
    axes = "xy" if walks(run) and variance.shape[1] <= 2 else [str(i) for i in range(variance.shape[1])]
    components = {str(axes[i]): variance[:, i] for i in range(min(variance.shape[1], len(charts.COLORS)))}
    yield charts.chart("Entropy of behavior", {"entropy": series("entropy")}, "nats")
    yield charts.chart("Variance of behavior", components)
    yield charts.chart("Distance from the origin", {"mean": series("distance_mean"), "max": series("distance_max")})
    yield charts.chart("Fitness", {"mean": series("fitness_mean"), "max": series("fitness_max")})
    mean_fitness = series("mean_fitness")
    if np.isfinite(mean_fitness).any():
        yield charts.chart("Fitness of the unperturbed mean", {"fitness": mean_fitness})
    norm = series("gradient_norm")
    if np.isfinite(norm).any():
        yield charts.chart("Norm of the gradient", {"norm": norm})
    if series("invalid_share").any():
        yield charts.chart("Share of invalid rollouts", {"share": series("invalid_share")})


def _ledger(run: Run) -> str:
    """Tell where the time went: by phase, by rank, by sitting."""
    spent = {phase: float(np.nansum(run[f"seconds_{phase}"][:])) for phase in PHASES}
    total = sum(spent.values()) or 1.0
    pieces = "".join(
        f'<span style="flex:{max(part / total, 1e-4):.5f};background:{color}" title="{phase}"></span>'
        for (phase, part), color in zip(spent.items(), charts.COLORS, strict=True)
    )
    phases = [
        [
            charts.key(color) + phase,
            PHASES[phase],
            _seconds(part),
            f"{part / total:.1%}",
        ]
        for (phase, part), color in zip(spent.items(), charts.COLORS, strict=True)
    ]
    parts = {what: np.asarray(run[f"seconds_evaluate_{what}"][:]) for what in ("min", "mean", "max")}
    lines = {"slowest rank": parts["max"], "mean": parts["mean"], "quickest": parts["min"]}
    return (
        f'<div class="ledger">{pieces}</div>'
        + _table(["phase of rank 0", "", "time", "share"], phases)
        + f"<h3>By rank</h3><p>{html.escape(_balance(run, parts))}</p>"
        + f"<div class='curves'>{charts.chart('Rollouts of a generation', lines, 'seconds')}</div>"
        + "<h3>By sitting</h3>"
        + _table(["began", "took", "from generation", "ranks", "nodes", "host", "CPU", "MPI"], _sittings(run))
    )


def _balance(run: Run, parts: dict[str, Floats]) -> str:
    """Say how evenly the ranks worked, and which ones the others waited for."""
    ranks, counts = np.unique(run["seconds_slowest_rank"][:], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:SLOWEST]
    named = ", ".join(f"rank {ranks[i]} in {counts[i]}" for i in order)
    even = float(parts["mean"].sum() / parts["max"].sum()) if parts["max"].sum() > 0 else 1.0
    return f"On average a rank evaluated for {even:.1%} of the slowest rank's time. Slowest: {named} generations."


def _sittings(run: Run) -> list[list[str]]:
    rows = []
    for session in run.sessions():
        machine = session["machine"]
        rows.append(
            [
                time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(session["start"])),
                clock(session["end"] - session["start"]),
                *(str(session[key]) for key in ("first_generation", "ranks", "nodes", "host")),
                str(machine.get("cpu", "")),
                str(machine.get("mpi", "")).split(",")[0],
            ]
        )
    return [[html.escape(cell) for cell in row] for row in rows]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay rows of HTML out as a table that scrolls by itself where the screen is narrow."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='scroll'><table><tr>{top}</tr>{body}</table></div>"


def _seconds(value: float) -> str:
    return clock(value) if value >= 60 else f"{value:.3g} s" if math.isfinite(value) else ""


def _commands(run: Run) -> str:
    """List commands to go on with, only those that work on this file."""
    told: list[tuple[str, str]] = []
    walking, sample = walks(run), run.attributes.get("kind") == "sample"
    if not run.complete:
        told.append(("go on with the run", "mpirun -n 2 ees-mpi resume RUN"))
    elif not sample:
        told.append(("train it longer", f"mpirun -n 2 ees-mpi resume RUN --generations {2 * run.generations}"))
    if has_offspring(run):
        told.append(("evaluate individuals again and compare every bit", "ees-mpi verify RUN"))
    if walking and has_offspring(run):
        told.append(("see the two that got farthest", "ees-mpi replay RUN --best left --best right --video best.mp4"))
    if not sample:
        told.append(("evaluate 1,000 fresh offspring", "mpirun -n 2 ees-mpi sample RUN --count 1000"))
    if walking and run.config.task.heading is not None and not sample:
        told.append(("adapt it to a direction in one step", "ees-mpi adapt RUN --direction left"))
    if isinstance(run.config.task, PolicyTask):
        which = " --component 0" if run["mean"].shape[1] > 1 else ""
        told.append(("take the policy out", f"ees-mpi export RUN --policy{which}"))
    told.append(("take the arrays out", "ees-mpi export RUN --to csv"))
    name = shlex.quote(str(run.path))
    return "".join(
        f"<div><p class='faint'>{html.escape(why)}</p><pre>{html.escape(command.replace('RUN', name))}</pre></div>"
        for why, command in told
    )
