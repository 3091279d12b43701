"""The commands about files and configs: info, repair, export, config, sweep, plan, presets, docs, jobs."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ees_mpi import machine, ranks
from ees_mpi.cli.options import RUN, RUNS, SEEDS, SET, SOURCE, TRUST, echo
from ees_mpi.errors import RunFileError
from ees_mpi.terminal import say_on_stderr


@click.command()
@RUNS
@click.option(
    "--sort", metavar="KEY", help="Of a table: a column, a key such as population.std, or -KEY: largest first."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object; a list for several files.")
def info(runs: tuple[Path, ...], sort: str | None, as_json: bool) -> None:
    """Print a summary of a run, sample or adaptation file, or a table of several."""
    from ees_mpi.commands import info

    summaries, failed = [], []
    for run in runs:
        try:
            summaries.append(info.read(run))
        except RunFileError as error:
            if len(runs) == 1:
                raise
            failed.append(error)
    summaries = info.in_order(summaries, sort)
    if as_json:
        echo(json.dumps(summaries[0] if len(runs) == 1 else summaries))
    elif len(runs) == 1:
        echo("\n".join(info.lines(summaries[0])))
    elif summaries:
        from ees_mpi.analysis.numbers.tables import columns

        echo("\n".join(columns(info.table(summaries))))
    if failed:
        raise RunFileError(f"{len(failed)} of {len(runs)} files cannot be read; the first: {failed[0]}")


@click.command()
@RUN
def repair(run: Path) -> None:
    """Fold the journal of a killed run into its file; rewrite a damaged file without its damaged parts."""
    from ees_mpi.store import journal
    from ees_mpi.store.reader import open_run
    from ees_mpi.store.repair import repair

    done = "journal folded" if journal.path_of(run).exists() else "no journal to fold"
    lost = repair(run)
    with open_run(run) as opened:
        echo(f"{run}: {opened.generations} generations, {done}")
    if lost:
        echo(f"warning: {lost}")


@click.command()
@RUN
@click.option("--policy", is_flag=True, help="A policy with its normaliser as npz, and a loader in numpy.")
@click.option("--csv", "table", is_flag=True, help="The metrics as a table, one row per generation.")
@click.option("--generation", type=click.IntRange(min=0), help="Of a policy.  [default: the final state]")
@click.option("--individual", type=click.IntRange(min=0), help="Of a policy.  [default: the mean]")
@click.option("--component", type=click.IntRange(min=0), help="The mean, of a mixture.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="[default: policy.npz or RUN.csv]")
@TRUST
def export(run: Path, policy: bool, table: bool, out: Path | None, **choice: Any) -> None:
    """Write a policy or the metrics of a run file for other programs. Arrays: see `ees-mpi docs python`."""
    given = {name: value for name, value in choice.items() if value is not None}
    if policy is table:
        raise click.UsageError("expected either --policy or --csv")
    if table and given:
        raise click.UsageError(f"--{next(iter(given))} does not belong to --csv")
    if {"individual", "component"} <= given.keys():
        raise click.UsageError("--individual and --component exclude each other: an individual has one component")
    from ees_mpi.commands.export_csv import export_csv
    from ees_mpi.commands.export_policy import export_policy
    from ees_mpi.store.reader import open_run

    with open_run(run) as opened:
        written = [export_csv(opened, out)] if table else export_policy(opened, out or Path("policy.npz"), **given)
    for path in written:
        echo(f"{path}")


@click.command()
@click.argument("source", required=False, metavar="PRESET|FILE.toml|RUN.h5")
@SET
@click.option(
    "--keys", is_flag=True, help="Every key with its type, unit and meaning; without a source, all there are."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object; --keys: a list.")
def config(source: str | None, settings: tuple[str, ...], keys: bool, as_json: bool) -> None:
    """Print the whole config of a preset, a config file or a run file, with all defaults."""
    from ees_mpi.commands import config
    from ees_mpi.commands.arguments import source_of
    from ees_mpi.runs.start import load

    if keys:
        echo("\n".join(config.keys(source, settings, as_json)))
    elif source is None:
        raise click.UsageError("expected PRESET, FILE.toml or RUN.h5; or --keys for a list of all keys")
    else:
        resolved = load(source_of(source), settings)
        _print_notes(resolved.notes)
        echo(json.dumps(resolved.sections()) if as_json else resolved.to_toml(), nl=as_json)


@click.command()
@SOURCE
@SET
@SEEDS
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="The folder of the run files.")
def sweep(source: str, settings: tuple[str, ...], seeds: Sequence[int], out: Path | None) -> None:
    """Print one `ees-mpi train` command for each combination of values and seeds, each with its own file.

    --set population.std=0.01,0.02 has two values. The lines are for jobs/array.slurm, jobs/run_list.py, xargs or bash.
    """
    from ees_mpi.commands.sweep import sweep

    echo("\n".join(sweep(source, settings, seeds, out)))


def _print_notes(notes: Sequence[str]) -> None:
    """Print notes on the changes by `--set`, on stderr: stdout is for the config."""
    for note in notes:
        say_on_stderr(f"ees-mpi: note: {note}\n")


@click.command()
@SOURCE
@SET
@click.option("--ranks", type=click.IntRange(min=1), help="[default: the cores of this machine]")
@click.option("--ranks-per-node", type=click.IntRange(min=1), help="[default: all on one node]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, in seconds and bytes.")
def plan(source: str, settings: tuple[str, ...], ranks: int | None, ranks_per_node: int | None, as_json: bool) -> None:
    """Print the costs of a run before it is queued: memory, hours, core-hours.

    A few rollouts, an update and a commit are timed on this machine; the rest is computed.
    """
    from ees_mpi.commands.plan import describe, estimate, measured_costs
    from ees_mpi.config import load

    machine.check_threads()
    ranks = ranks or len(os.sched_getaffinity(0))
    loaded = load(source, settings)
    _print_notes(loaded.notes)
    costs = measured_costs(loaded)
    facts = estimate(loaded, ranks, ranks_per_node or ranks, costs)
    echo(json.dumps(facts) if as_json else "\n".join(describe(facts, costs)))


@click.command()
@click.argument("name", required=False)
def presets(name: str | None) -> None:
    """List the presets, or print the TOML of one."""
    from ees_mpi import config
    from ees_mpi.commands import api

    if name:
        echo(config.read_source(name), nl=False)
        return
    for preset, about in api.presets().items():
        echo(f"{preset:32} {about}")


@click.command()
@click.argument("topic", required=False)
def docs(topic: str | None) -> None:
    """Print a page of the documentation, or the list of pages."""
    from ees_mpi.commands.docs import page, pages, wrapped

    if topic:
        text = page(topic).text
        if sys.stdout.isatty() and not ranks.launched()[0]:
            click.echo_via_pager(wrapped(text, shutil.get_terminal_size().columns))
        else:
            echo(text, nl=False)
        return
    for listed in pages():
        echo(f"{listed.topic:14} {listed.title}")
    echo("\n`ees-mpi docs TOPIC` prints a page.")


@click.command()
@click.option("--copy", "folder", type=click.Path(path_type=Path), metavar="FOLDER", help="Copy them into this folder.")
def jobs(folder: Path | None) -> None:
    """List the job scripts for clusters and single machines, and the examples; or copy them."""
    from ees_mpi.commands.jobs import copy_jobs, describe, job_files, name_of

    if folder is None:
        for file in job_files():
            echo(f"{name_of(file):28} {describe(file)}")
        return
    copied = copy_jobs(folder)
    echo(f"{folder}: {len(copied)} files; begin with README.md")
