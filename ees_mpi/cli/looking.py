"""The commands that read run files offline: figure, replay, report, metrics, compare."""

from pathlib import Path
from typing import Annotated

import click

from ees_mpi import machine
from ees_mpi.cli import command, echo
from ees_mpi.commands import requests
from ees_mpi.commands.arguments import FILE, RUN_OR_POLICY, Option, path_of
from ees_mpi.errors import ConfigError
from ees_mpi.files import SHELF
from ees_mpi.terminal import say


@command()
def figure(
    request: requests.FigureRequest,
    name: Annotated[str, Option(usage="[NAME]")] = "",
    runs: requests.RunArguments = (),
    listing: Annotated[bool, Option("List the figures, and the runs that each needs.", usage="--list")] = False,
) -> None:
    from ees_mpi.analysis.figures.catalog import FIGURES, draw, listed

    if listing:
        echo("\n".join(listed()))
        return
    if name and name not in FIGURES and (name.endswith(".h5") or name.startswith(SHELF) or Path(name).exists()):
        runs, name = [path_of(name), *runs], ""
    echo(str(draw(name, runs, request)))


@command()
def replay(
    run: Annotated[Path, Option("", RUN_OR_POLICY, RUN_OR_POLICY.metavar)], request: requests.ReplayRequest
) -> None:
    from ees_mpi.analysis.replay import replay

    machine.check_threads()
    replay(run, request, say)


@command()
def report(
    runs: requests.RunArguments,
    out: Annotated[Path | None, Option("[default: RUN-report.html]", FILE, "-o, --out FILE.html")] = None,
    trust: requests.Trust = False,
) -> None:
    """Write a web page about a run, or about several.

    About one run: its config, results and costs. About several: a table, and all curves.
    """
    from ees_mpi.analysis.report import write_report

    machine.check_threads()
    echo(str(write_report(runs, out, trust)))


class Sides(click.Command):
    """A command whose option `--against` takes all names up to the next option, so that B*.h5 works."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `--against` before each of its names."""
        words: list[str] = []
        against = False
        for word in args:
            option = word.partition("=")[0]
            if word.startswith("-"):
                against = option == "--against"
                words += [] if word == "--against" else [word]
            else:
                words += ["--against", word] if against else [word]
        return super().parse_args(ctx, words)


@command()
def metrics(
    runs: requests.RunArguments,
    generation: requests.Generation = None,
    every: Annotated[bool, Option("Every generation, one line each.", usage="--all")] = False,
    radius: requests.Radius = None,
    cell: requests.Cell = None,
    as_json: requests.Json = False,
) -> None:
    """Print the metrics of the mutations in run and sample files."""
    from ees_mpi.analysis.numbers.selection import opened
    from ees_mpi.analysis.numbers.summaries import of_run
    from ees_mpi.analysis.numbers.tables import to_json

    if every and generation is not None:
        raise ConfigError("--all and --generation exclude each other")
    rows = []
    with opened(runs, generation, cell, radius) as chosen:
        for run, number, scale in chosen:
            facts, lines = of_run(run, None if every else number, scale)
            rows += facts
            for line in [] if as_json else lines:
                echo(line)
    if as_json:
        echo(to_json(rows))


@command(kind=Sides)
def compare(
    request: requests.CompareRequest,
    as_json: requests.Json = False,
    listing: Annotated[bool, Option("List the metrics.", usage="--list")] = False,
) -> None:
    from ees_mpi.analysis.numbers import comparison, tables

    if listing:
        for name, about in comparison.listed().items():
            echo(f"{name:26} {about}")
        return
    if not request.metric:
        raise ConfigError("expected --metric M; --list prints the metrics")
    found = comparison.compare_runs(request)
    echo(tables.to_json(found) if as_json else "\n\n".join(map(comparison.text, found)))
