"""The commands that compute numbers from run files: `ees-mpi metrics` and `ees-mpi compare`."""

import json
from pathlib import Path
from typing import Annotated

import click

from ees_mpi.cli.options import command, echo
from ees_mpi.commands.arguments import POSITIVE, Option
from ees_mpi.commands.requests import CompareRequest, Generation, Json, RunArguments
from ees_mpi.errors import ConfigError

Radius = Annotated[
    float,
    Option("Offspring that end nearer to the origin count for near_origin, not for balance and directions.", POSITIVE),
]
Cell = Annotated[float, Option("Side of a grid cell, for coverage.", POSITIVE)]


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
    generation: Generation = None,
    every: Annotated[bool, Option("Every generation, one line each.", usage="--all")] = False,
    radius: Radius = 5.0,
    cell: Cell = 1.0,
    bandwidth: Annotated[
        str | None,
        Option("Of the kernel: numbers, scott, silverman.  [default: silverman]", usage="--bandwidth H[,H...]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute measures of the offspring in run and sample files."""
    from ees_mpi.analysis.numbers import measures, summaries
    from ees_mpi.analysis.numbers.tables import for_json

    if every and generation is not None:
        raise ConfigError("--all and --generation exclude each other")
    settings, bandwidths = measures.Settings(radius, cell), measures.bandwidths(bandwidth)
    rows = []
    for path in runs:
        facts, lines = summaries.read_measures(Path(path), generation, every, settings, bandwidths)
        rows += facts
        for line in [] if as_json else lines:
            echo(line)
    if as_json:
        echo(json.dumps(for_json(rows)))


@command(trusts=True, kind=Sides)
def compare(
    request: CompareRequest,
    radius: Radius = 5.0,
    cell: Cell = 1.0,
    bandwidth: Annotated[str, Option("Of entropy: a number, scott, silverman.", usage="--bandwidth H")] = "silverman",
    as_json: Json = False,
    listing: Annotated[bool, Option("List the metrics.", usage="--list")] = False,
) -> None:
    from ees_mpi.analysis.numbers import comparison, measures, run_values, tables

    if listing:
        for name, about in run_values.METRICS.items():
            echo(f"{name:26} {about}")
        return
    if not request.metric:
        raise ConfigError("expected --metric M; --list prints the metrics")
    settings = measures.Settings(radius, cell, measures.bandwidth(bandwidth))
    comparisons = comparison.compare_runs(request, settings)
    echo(json.dumps([tables.data(each) for each in comparisons]) if as_json else tables.text(comparisons))
