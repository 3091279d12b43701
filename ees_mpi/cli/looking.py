"""The commands that show a run: figure, replay, report, watch."""

import sys
from pathlib import Path
from typing import Any

import click

from ees_mpi import machine
from ees_mpi.cli.options import ENGINE, POSITIVE, RUNS, TRUST, Finite, RunFile, echo
from ees_mpi.terminal import say


@click.command()
@click.argument("name", required=False)
@click.argument("runs", nargs=-1, type=RunFile(), metavar="RUN.h5 ...")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="PNG, PDF or SVG.  [default: NAME.png]")
@click.option(
    "--generation", multiple=True, type=click.IntRange(min=0), help="For figures of single generations; repeatable."
)
@click.option("--by", metavar="KEY", help="For sweep: a curve for each value of this key, such as population.std.")
@click.option("--metric", metavar="M", help="For sweep: what is drawn.  [default: the metric of progress lines]")
@click.option("--label", multiple=True, help="The name of a run in the figure; one for each file, in their order.")
@click.option("--title", default="", help="Of the whole figure.")
@click.option("--list", "listing", is_flag=True, help="List the figures, and the runs that each needs.")
@TRUST
def figure(
    name: str | None, runs: tuple[Path, ...], generation: tuple[int, ...], label: tuple[str, ...], **options: Any
) -> None:
    """Draw one of the paper's figures from run files."""
    from ees_mpi.analysis.figures.catalog import FIGURES, FigureRequest, draw

    if options.pop("listing"):
        for known, recipe in FIGURES.items():
            echo(f"{known:20} {recipe.paper:8} {recipe.needs}")
        return
    if not name:
        raise click.UsageError("expected NAME RUN.h5 ...; --list prints the names")
    echo(f"{draw(name, runs, FigureRequest(generations=generation, labels=label, **options))}")


@click.command()
@click.argument("run", type=RunFile(), metavar="RUN.h5|POLICY.npz")
@click.option("--individual", "individuals", type=click.IntRange(min=0), multiple=True, help="By number; repeatable.")
@click.option("--generation", type=click.IntRange(min=0), help="[default: the last]")
@click.option("--toward", multiple=True, metavar="left|right|45deg", help="The farthest in a direction; repeatable.")
@click.option("--extremes", type=click.IntRange(min=1, max=64), help="So many individuals that differ most.")
@click.option("--mean", is_flag=True, help="The unperturbed mean(s); by default those after the last generation.")
@click.option("--mutations", type=click.IntRange(min=2), help="So many new ones of the mean; of a policy 8 by default.")
@click.option("--std", type=Finite(min=1e-30, max=1e30), help="Of these mutations.  [default: that of the config]")
@ENGINE
@click.option("-o", "--video", type=click.Path(path_type=Path), metavar="FILE.mp4|gif", help="Film them, side by side.")
@click.option("--together", is_flag=True, help="Draw them in one scene, with their trails; each is rolled out alone.")
@click.option("--size", metavar="320x240", help="Of one panel of the video, or of the scene.")
@click.option("--speed", type=Finite(min=0.05, max=50), default=1.0, show_default=True, help="Of the video.")
@click.option("--seconds", type=POSITIVE, help="Film only so many simulated seconds.")
@TRUST
def replay(run: Path, extremes: int | None, size: str | None, **options: Any) -> None:
    """Evaluate individuals of a run again, compare every bit with the file, and film them; or film new mutations."""
    from ees_mpi.analysis.replay import ReplayRequest, panel_size, replay
    from ees_mpi.runs.progress import Counter

    machine.check_threads()
    panel = panel_size(size) if options["video"] else None
    request = ReplayRequest(extremes=extremes or 0, size=panel, **options)
    replay(run, request, say, Counter)


@click.command()
@RUNS
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE.html", help="[default: RUN-report.html]")
@click.option("--thumbnails", type=click.IntRange(min=0, max=64), default=8, help="Extremes to show.  [default: 8]")
@TRUST
def report(runs: tuple[Path, ...], out: Path | None, thumbnails: int) -> None:
    """Write a web page about a run: its config, results and costs; or about several runs: a table, and all curves."""
    from ees_mpi.analysis.report import write_report

    machine.check_threads()
    echo(f"{write_report(runs, out, thumbnails)}")


@click.command()
@RUNS
@click.option("--every", type=Finite(min=0.05), default=2.0, show_default=True, help="Seconds between updates.")
@click.option("--once", is_flag=True, help="Print the current state and exit.")
@TRUST
def watch(runs: tuple[Path, ...], every: float, once: bool) -> None:
    """Show the progress of runs as a table in the terminal, until all are complete."""
    from ees_mpi.analysis.watch import watch

    watch(runs, sys.stdout, every, once)
