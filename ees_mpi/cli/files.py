"""The commands about files and configs: info, repair, export, config, plan, presets, jobs."""

import json
from pathlib import Path

import click

from ees_mpi import machine
from ees_mpi.cli.options import RUN, SET, SOURCE, TRUST, echo


@click.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(run: Path, as_json: bool) -> None:
    """Print a summary of a run file."""
    from ees_mpi.commands.info import summarize
    from ees_mpi.store.reader import open_run

    with open_run(run, allow_damaged_journal=True) as opened:
        facts = summarize(opened)
    if as_json:
        echo(json.dumps(facts))
        return
    for name, value in facts.items():
        echo(f"{name:20} {value}")


@click.command()
@RUN
def repair(run: Path) -> None:
    """Fold the journal of a killed run into its file."""
    from ees_mpi.store.reader import open_run
    from ees_mpi.store.repair import repair

    lost = repair(run)
    with open_run(run) as opened:
        echo(f"{run}: {opened.generations} generations, journal folded")
    if lost:
        echo(f"warning: {lost}")


@click.command()
@RUN
@click.option("--policy", is_flag=True, help="A policy with its normaliser as npz, and a loader in numpy.")
@click.option("--to", "kind", type=click.Choice(["csv", "npz"]), help="All arrays: two CSV tables, or one npz.")
@click.option("--generation", type=click.IntRange(min=0), help="Of a policy.  [default: the state after the last one]")
@click.option("--individual", type=click.IntRange(min=0), help="Of a policy.  [default: the mean]")
@click.option("--component", type=click.IntRange(min=0), help="The mean, of a mixture.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="[default: policy.npz; RUN.csv or RUN.npz]")
@TRUST
def export(run: Path, policy: bool, kind: str | None, out: Path | None, **choice: int | None) -> None:
    """Write a policy, or the arrays, of a run file for other programs."""
    if policy is (kind is not None):
        raise click.UsageError("expected either --policy or --to csv|npz")
    if kind and any(number is not None for number in choice.values()):
        raise click.UsageError("--generation, --individual and --component select a policy; --to exports all arrays")
    if choice["individual"] is not None and choice["component"] is not None:
        raise click.UsageError("--individual and --component exclude each other: an individual has one component")
    from ees_mpi.commands.export_arrays import export_arrays
    from ees_mpi.commands.export_policy import export_policy
    from ees_mpi.store.reader import open_run

    with open_run(run) as opened:
        if kind:
            written = export_arrays(opened, kind, out)
        else:
            written = export_policy(opened, out or Path("policy.npz"), **choice)
    for path in written:
        echo(f"{path}")


@click.command()
@click.argument("source", metavar="PRESET|FILE.toml|RUN.h5")
@SET
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def config(source: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Print the whole config of a preset, a config file or a run file, with all defaults."""
    from ees_mpi.commands.config import resolve

    resolved = resolve(source, settings)
    echo(json.dumps(resolved.sections()) if as_json else resolved.to_toml(), nl=as_json)


@click.command()
@SOURCE
@SET
@click.option("--ranks", type=click.IntRange(min=1), required=True, help="The number of ranks.")
@click.option("--ranks-per-node", type=click.IntRange(min=1), help="[default: all on one node]")
def plan(source: str, settings: tuple[str, ...], ranks: int, ranks_per_node: int | None) -> None:
    """Print the costs of a run before it is queued; times a few rollouts and an update on this machine."""
    from ees_mpi.commands.plan import describe, measure
    from ees_mpi.config import load

    machine.check_threads()
    loaded = load(source, settings)
    for line in describe(loaded, ranks, ranks_per_node or ranks, measure(loaded)):
        echo(line)


@click.command()
@click.argument("name", required=False)
def presets(name: str | None) -> None:
    """List the presets, or print the TOML of one."""
    from ees_mpi import config

    if name:
        echo(config.read_source(name), nl=False)
        return
    for preset in config.preset_names():
        about = config.read_source(preset).split("\n")[0].lstrip("# ")
        echo(f"{preset:32} {about}")


@click.command()
@click.option("--copy", "folder", type=click.Path(path_type=Path), metavar="FOLDER", help="Copy them into this folder.")
def jobs(folder: Path | None) -> None:
    """List the job scripts for clusters and single machines, or copy them."""
    from ees_mpi.commands.jobs import copy_jobs, describe, job_files

    if folder is None:
        for file in job_files():
            echo(f"{file.name:20} {describe(file)}")
        return
    copied = copy_jobs(folder)
    echo(f"{folder}: {len(copied)} files; begin with README.md")
