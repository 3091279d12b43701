"""The commands that show a run: figure, replay, report, watch."""

import sys
from pathlib import Path
from typing import Annotated

from ees_mpi import machine
from ees_mpi.cli.options import command, echo
from ees_mpi.commands.arguments import FILE, RUN_FILE, Name, Option, number, whole
from ees_mpi.commands.requests import FigureRequest, ReplayRequest, RunArguments
from ees_mpi.errors import ConfigError
from ees_mpi.terminal import say


@command(trusts=True)
def figure(
    request: FigureRequest,
    name: Annotated[str, Option(usage="[NAME]")] = "",
    runs: RunArguments = (),
    listing: Annotated[bool, Option("List the figures, and the runs that each needs.", usage="--list")] = False,
) -> None:
    from ees_mpi.analysis.figures.catalog import FIGURES, draw

    if listing:
        for known, recipe in FIGURES.items():
            echo(f"{known:20} {recipe.paper:8} {recipe.needs}")
        return
    if not name:
        raise ConfigError("expected NAME RUN.h5 ...; --list prints the names")
    echo(f"{draw(name, [Path(run) for run in runs], request)}")


@command(trusts=True)
def replay(run: Annotated[Name, Option("", RUN_FILE, "RUN.h5|POLICY.npz")], request: ReplayRequest) -> None:
    from ees_mpi.analysis.replay import replay
    from ees_mpi.runs.progress import Counter

    machine.check_threads()
    replay(Path(run), request, say, Counter)


@command(trusts=True)
def report(
    runs: RunArguments,
    out: Annotated[Name | None, Option("[default: RUN-report.html]", FILE, "-o, --out FILE.html")] = None,
    thumbnails: Annotated[int, Option("Extremes to show.", whole(0, 64))] = 8,
) -> None:
    """Write a web page about a run, or about several.

    About one run: its config, results and costs. About several: a table, and all curves.
    """
    from ees_mpi.analysis.report import write_report

    machine.check_threads()
    echo(f"{write_report([Path(run) for run in runs], Path(out) if out else None, thumbnails)}")


@command(trusts=True)
def watch(
    runs: RunArguments,
    every: Annotated[
        float, Option("Seconds between updates.", number(0.05, expected="a number of at least 0.05"))
    ] = 2.0,
    once: Annotated[bool, Option("Print the current state and exit.")] = False,
) -> None:
    """Show the progress of runs as a table, until all are complete."""
    from ees_mpi.analysis.watch import watch

    watch([Path(run) for run in runs], sys.stdout, every, once)
