"""The commands that compute numbers from run files: `ees-mpi metrics` and `ees-mpi compare`."""

import json
from pathlib import Path
from typing import Annotated

import click

from ees_mpi.cli.options import Json, command, echo
from ees_mpi.commands.arguments import POSITIVE, Option, Whole
from ees_mpi.commands.requests import CompareRequest, RunArguments

Radius = Annotated[
    float,
    Option(
        "--radius X",
        "Offspring that end nearer to the origin count for near_origin, and not for balance and directions.",
        POSITIVE,
    ),
]
Cell = Annotated[float, Option("--cell X", "Side of a grid cell, for coverage.", POSITIVE)]


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


@command(trusts=True)
def metrics(
    runs: RunArguments,
    generation: Annotated[int | None, Option("--generation N", "[default: the last one]", Whole())] = None,
    every: Annotated[bool, Option("--all", "Every generation, one line each.")] = False,
    radius: Radius = 5.0,
    cell: Cell = 1.0,
    bandwidth: Annotated[
        str | None,
        Option("--bandwidth H[,H...]", "Of the kernel: numbers, scott, silverman.  [default: silverman]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute measures of the offspring in run and sample files."""
    from ees_mpi.analysis.numbers import measures, summaries
    from ees_mpi.analysis.numbers.tables import plain

    if every and generation is not None:
        raise click.UsageError("--all and --generation exclude each other")
    settings, bandwidths = measures.Settings(radius, cell), measures.bandwidths(bandwidth)
    rows = []
    for path in runs:
        facts, lines = summaries.read_measures(Path(path), generation, every, settings, bandwidths)
        rows += facts
        for line in [] if as_json else lines:
            echo(line)
    if as_json:
        echo(json.dumps(plain(rows)))


@command(trusts=True, kind=Sides)
def compare(
    request: CompareRequest,
    radius: Radius = 5.0,
    cell: Cell = 1.0,
    bandwidth: Annotated[str, Option("--bandwidth H", "Of entropy: a number, scott, silverman.")] = "silverman",
    latex: Annotated[bool, Option("--latex", "Tables for a paper.")] = False,
    as_json: Json = False,
    listing: Annotated[bool, Option("--list", "List the metrics.")] = False,
) -> None:
    from ees_mpi.analysis.numbers import comparison, measures, run_values, tables

    if listing:
        for name, about in run_values.METRICS.items():
            echo(f"{name:26} {about}")
        return
    if not request.metrics:
        raise click.UsageError("expected --metric M; --list prints the metrics")
    settings = measures.Settings(radius, cell, measures.bandwidth(bandwidth))
    comparisons = comparison.compare_runs(request, settings)
    if as_json:
        echo(json.dumps([tables.data(each) for each in comparisons]))
    else:
        echo((tables.latex if latex else tables.text)(comparisons))
