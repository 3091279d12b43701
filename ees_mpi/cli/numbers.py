"""The commands that compute numbers from run files: `ees-mpi metrics`, `ees-mpi compare` and `ees-mpi signal`."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from ees_mpi import ranks
from ees_mpi.cli.options import POSITIVE, RUN, RUNS, START_MINUTES, TRUST, AtLeastOne, RunFile, echo, run_on_ranks


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


RADIUS = click.option(
    "--radius",
    type=POSITIVE,
    default=5.0,
    show_default=True,
    help="Offspring that end nearer to the origin count for near_origin, and not for balance and directions.",
)
CELL = click.option("--cell", type=POSITIVE, default=1.0, help="Side of a grid cell, for coverage.  [default: 1.0]")


@click.command()
@RUNS
@click.option("--generation", type=click.IntRange(min=0), help="[default: the last one]")
@click.option("--all", "every", is_flag=True, help="Every generation, one line each.")
@RADIUS
@CELL
@click.option("--bandwidth", metavar="H[,H...]", help="Of the kernel: numbers, scott, silverman.  [default: silverman]")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
@TRUST
def metrics(
    runs: tuple[Path, ...], generation: int | None, every: bool, bandwidth: str | None, as_json: bool, **lengths: float
) -> None:
    """Compute measures of the offspring in run and sample files, without new rollouts."""
    from ees_mpi.analysis.numbers import measures as metrics
    from ees_mpi.analysis.numbers import summaries
    from ees_mpi.analysis.numbers.tables import plain

    if every and generation is not None:
        raise click.UsageError("--all and --generation exclude each other")
    settings = metrics.Settings(**lengths)
    wanted = summaries.MetricsRequest(generation, every, settings, metrics.bandwidths(bandwidth))
    rows = []
    for path in runs:
        facts, lines = summaries.read_measures(path, wanted)
        rows += facts
        for line in [] if as_json else lines:
            echo(line)
    if as_json:
        echo(json.dumps(plain(rows)))


@click.command(cls=Sides)
@click.argument("first", nargs=-1, type=RunFile(), metavar="RUN.h5 ...")
@click.option("--metric", "metrics", multiple=True, metavar="M", help="The metric to compare; repeatable. See --list.")
@click.option("--against", "second", multiple=True, type=RunFile(), metavar="RUN.h5 ...", help="The other set of runs.")
@click.option("--by", metavar="KEY", help="Compare the values of a key with each other, in place of --against.")
@click.option("--generation", type=click.IntRange(min=0), help="[default: the last one of each]")
@RADIUS
@CELL
@click.option(
    "--bandwidth", default="silverman", show_default=True, metavar="H", help="Of entropy: a number, scott, silverman."
)
@click.option("--latex", is_flag=True, help="Tables for a paper.")
@click.option("--json", "as_json", is_flag=True, help="One JSON list, an object for each metric.")
@click.option("--list", "listing", is_flag=True, help="List the metrics.")
@TRUST
def compare(listing: bool, latex: bool, as_json: bool, radius: float, cell: float, bandwidth: str, **sets: Any) -> None:
    """Test one set of runs against another: Mann-Whitney U test with one number per run."""
    from ees_mpi.analysis.numbers import comparison as comparing
    from ees_mpi.analysis.numbers import measures as metrics
    from ees_mpi.analysis.numbers import run_values as values
    from ees_mpi.analysis.numbers import tables

    if listing:
        for name, about in values.METRICS.items():
            echo(f"{name:26} {about}")
        return
    if not sets["metrics"]:
        raise click.UsageError("expected --metric M; --list prints the metrics")
    settings = metrics.Settings(radius, cell, metrics.bandwidth(bandwidth))
    comparisons = comparing.compare_runs(comparing.CompareRequest(settings=settings, **sets))
    if as_json:
        echo(json.dumps([tables.data(comparison) for comparison in comparisons]))
    else:
        echo((tables.latex if latex else tables.text)(comparisons))


@click.command()
@RUN
@click.option("--generation", type=click.IntRange(min=0), help="[default: five, from the first to the last]")
@click.option("--every", type=AtLeastOne(), help="Measure each so many-th generation.")
@click.option("--splits", type=AtLeastOne(10**6), default=2, help="Into halves; each costs a gradient.  [default: 2]")
@click.option("--objective", metavar="NAME", help="Of the gradient, on the same rollouts.  [default: the run's]")
@click.option("--json", "as_json", is_flag=True, help="One JSON list, an object for each generation.")
@TRUST
@START_MINUTES
def signal(
    run: Path, generation: int | None, every: int | None, splits: int, objective: str | None, as_json: bool
) -> None:
    """Measure how much of a gradient is signal, and how long the steps are; with or without mpirun.

    Is the population large enough? Is the step too long? See `ees-mpi docs signal`.
    """
    if generation is not None and every is not None:
        raise click.UsageError("--generation and --every exclude each other")
    run_on_ranks(partial(_signal, as_json=as_json, of=(run, generation, every, splits, objective)))


def _signal(world: "ranks.Ranks", as_json: bool, of: tuple[Path, int | None, int | None, int, str | None]) -> None:
    from ees_mpi.analysis.numbers import tables
    from ees_mpi.commands.signal import signal_on

    rows = signal_on(world, *of)
    if world.is_root:
        lines = [*tables.columns(tables.signal_rows(rows)), "", tables.SIGNAL_LEGEND]
        echo(json.dumps(tables.plain([asdict(row) for row in rows])) if as_json else "\n".join(lines))
