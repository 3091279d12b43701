"""The command `ees-mpi`: parses, calls, prints."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from ees_mpi import machine
from ees_mpi.analysis import commands
from ees_mpi.errors import EesError, RunFileError, collective
from ees_mpi.speech import say, say_on_stderr
from ees_mpi.version import __version__

RUN = click.argument("run", type=click.Path(path_type=Path, readable=False))  # we say ourselves why not
SOURCE = click.argument("source", metavar="PRESET|FILE.toml")
SET = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key of the config; repeatable."
)
MAX_HOURS = click.option(
    "--max-hours",
    type=commands.POSITIVE,
    help="Stop after this time, as a signal would: state saved, exit code 75.",
)
FORCE = click.option("--force", is_flag=True, help="Take the file over where locks do not work.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ees-mpi")
def cli() -> None:
    """Evolvability ES under MPI: train, look, verify. Exit codes: 0 done; 2 wrong command line or config;
    3 the run file cannot be used; 75 interrupted, resume goes on."""


@cli.command()
@SOURCE
@SET
@click.option("--seed", type=click.IntRange(min=0), help="Short for --set run.seed=N.")
@click.option("--out", type=click.Path(path_type=Path), metavar="RUN.h5", help="[default: PRESET-seedN.h5]")
@click.option("--from", "start", metavar="RUN.h5[@G]", help="Start from the mean(s) of another run.")
@click.option("--resume", is_flag=True, help="Go on with an existing file, or start one.")
@click.option("--overwrite", is_flag=True, help="Begin anew in place of an existing file.")
@MAX_HOURS
@FORCE
def train(
    source: str,
    settings: tuple[str, ...],
    seed: int | None,
    out: Path | None,
    start: str | None,
    resume: bool,
    overwrite: bool,
    max_hours: float | None,
    force: bool,
) -> None:
    """Train a preset or a config file; alone or under mpirun."""
    if resume and overwrite:
        raise click.UsageError("--resume and --overwrite exclude each other")
    from ees_mpi import opening, session

    settings = tuple(session.seeded(settings, seed))
    _pin(lambda: session.portable_source(source, settings))
    request = opening.Request(source, settings, out, resume, overwrite, force, start)
    _together(lambda ranks: session.run_session(ranks, lambda: opening.begin(request), say, max_hours))


@cli.command()
@RUN
@click.option("--generations", type=click.IntRange(min=1), help="Train until this many, in place of the file's number.")
@MAX_HOURS
@FORCE
def resume(run: Path, generations: int | None, max_hours: float | None, force: bool) -> None:
    """Go on where a run file ends."""
    from ees_mpi import opening, session

    _pin(lambda: session.portable_run(run))
    find = lambda: opening.reopen(run, generations, force)  # noqa: E731
    _together(lambda ranks: session.run_session(ranks, find, say, max_hours))


@cli.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(run: Path, as_json: bool) -> None:
    """Tell what is in a run file."""
    from ees_mpi.info import summarize
    from ees_mpi.store.reader import open_run

    with open_run(run) as opened:
        facts = summarize(opened)
    if as_json:
        click.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        click.echo(f"{name:20} {value}")


@cli.command()
@RUN
def repair(run: Path) -> None:
    """Fold in what a killed run left behind."""
    from ees_mpi.store.reader import open_run
    from ees_mpi.store.writer import repair_alone

    repair_alone(run)
    with open_run(run) as opened:
        click.echo(f"{run}: {opened.generations} generations, whole")


@cli.command()
@RUN
@click.option("--generation", type=click.IntRange(min=0), help="[default: the first, the middle and the last]")
@click.option("--individuals", type=click.IntRange(min=1), help="How many of each generation.  [default: 32]")
def verify(run: Path, generation: int | None, individuals: int | None) -> None:
    """Evaluate individuals again and compare every bit; alone or under mpirun."""
    from ees_mpi import session, verify

    _pin(lambda: session.portable_run(run))

    def job(ranks: Any) -> None:
        check = verify.verify(ranks, run, generation, individuals)
        if ranks.first:
            where = ", ".join(map(str, check.generations))
            click.echo(f"{run}: {check.individuals} individuals of generations {where}: the same bits")

    _together(job)


@cli.command()
@RUN
@click.option("--count", type=click.IntRange(min=2), required=True, help="How many offspring.")
@click.option("--generation", type=click.IntRange(min=0), help="[default: the state after the last one]")
@click.option("--std", type=commands.POSITIVE, help="[default: the run's]")
@click.option("--component", type=click.IntRange(min=0), help="Of a mixture.  [default: all of them]")
@click.option("--out", type=click.Path(path_type=Path), metavar="S.h5", help="[default: RUN-sample.h5]")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def sample(
    run: Path,
    count: int,
    generation: int | None,
    std: float | None,
    component: int | None,
    out: Path | None,
    overwrite: bool,
) -> None:
    """Evaluate fresh offspring of a trained mean; alone or under mpirun."""
    from ees_mpi import sampling, session

    _pin(lambda: session.portable_run(run))
    wanted = sampling.Wanted(run, count, generation, std, component)
    target = out or run.with_name(f"{run.stem}-sample.h5")
    _together(lambda ranks: sampling.sample(ranks, wanted, target, overwrite, say))


@cli.command()
@RUN
@click.option("--direction", required=True, metavar="left|right|ANGLE", help="ANGLE: degrees from +x towards +y.")
@click.option("--mutations", type=click.IntRange(min=2), help="How many to choose from.  [default: 40]")
@click.option("--evaluations", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--generation", type=click.IntRange(min=0), help="[default: the state after the last one]")
@click.option("--std", type=commands.POSITIVE, help="[default: the run's]")
@click.option("--out", type=click.Path(path_type=Path), metavar="A.h5", help="[default: RUN-adapt-DIRECTION.h5]")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def adapt(
    run: Path,
    direction: str,
    mutations: int | None,
    evaluations: int,
    generation: int | None,
    std: float | None,
    out: Path | None,
    overwrite: bool,
) -> None:
    """Adapt to a direction: keep the best of some mutations of the mean, or take MAML's gradient step, and score
    what comes of it from other starts. Alone or under mpirun."""
    from ees_mpi import adaptation, session

    _pin(lambda: session.portable_run(run))
    request = adaptation.Request(run, direction, mutations, evaluations, generation, std)
    target = out or run.with_name(f"{run.stem}-adapt-{direction}.h5")
    _together(lambda ranks: adaptation.adapt(ranks, request, target, overwrite, say))


@cli.command()
@RUN
@click.option("--policy", is_flag=True, help="A policy with its normaliser as npz, and a loader that needs only numpy.")
@click.option("--to", "kind", type=click.Choice(["csv", "npz"]), help="The arrays: two CSV tables, or all in one npz.")
@click.option("--generation", type=click.IntRange(min=0), help="Of a policy.  [default: the state after the last one]")
@click.option("--individual", type=click.IntRange(min=0), help="Of a policy.  [default: the mean]")
@click.option("--component", type=click.IntRange(min=0), help="Which mean, of a mixture.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="[default: policy.npz; RUN.csv or RUN.npz]")
def export(
    run: Path,
    policy: bool,
    kind: str | None,
    generation: int | None,
    individual: int | None,
    component: int | None,
    out: Path | None,
) -> None:
    """Take a policy, or the arrays, out of a run file."""
    if policy is (kind is not None):
        raise click.UsageError("expected either --policy or --to csv|npz")
    if kind and (generation, individual, component) != (None, None, None):
        raise click.UsageError(
            "--generation, --individual and --component choose a policy; --to takes the arrays of all of them"
        )
    if individual is not None and component is not None:
        raise click.UsageError("--individual and --component exclude each other: an individual is of one component")
    from ees_mpi.analysis import arrays
    from ees_mpi.export import export_policy
    from ees_mpi.store.reader import open_run

    with open_run(run) as opened:
        written: Sequence[Path] = (
            arrays.export(opened, kind, out)
            if kind
            else export_policy(opened, out or Path("policy.npz"), generation, individual, component)
        )
    for path in written:
        click.echo(f"{path}")


@cli.command()
@SOURCE
@SET
@click.option("--ranks", type=click.IntRange(min=1), required=True, help="How many ranks the run would have.")
@click.option("--ranks-per-node", type=click.IntRange(min=1), help="[default: all on one node]")
def plan(source: str, settings: tuple[str, ...], ranks: int, ranks_per_node: int | None) -> None:
    """Tell what a run will cost, before queueing: times a few rollouts and an update here."""
    from ees_mpi import config, plan

    machine.check_threads()
    loaded = config.load(source, settings)
    for line in plan.describe(loaded, ranks, ranks_per_node or ranks, plan.measure(loaded)):
        click.echo(line)


@cli.command()
@click.argument("name", required=False)
def presets(name: str | None) -> None:
    """List the presets with a line each, or print one's TOML."""
    from ees_mpi import config

    if name:
        click.echo(config.read_source(name), nl=False)
        return
    for preset in config.preset_names():
        about = config.read_source(preset).split("\n")[0].lstrip("# ")
        click.echo(f"{preset:32} {about}")


@cli.command()
def doctor() -> None:
    """Tell what works here; alone or under mpirun."""

    def job(ranks: Any) -> None:
        from ees_mpi import doctor

        findings = doctor.examine(ranks)
        if ranks.first:
            for finding in findings:
                click.echo(f"{finding.verdict:5} {finding.what:15} {finding.how}")
        if any(finding.verdict == "bad" for finding in findings):
            raise collective(EesError("something does not work here: see the lines marked bad"))

    _together(job)


@cli.command()
@click.argument("name", required=False)
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="RUN.h5 ...")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="PNG, PDF or SVG.  [default: NAME.png]")
@click.option("--generation", multiple=True, type=click.IntRange(min=0), help="Which to show, of those that show some.")
@click.option("--list", "listing", is_flag=True, help="Say what figures there are and what each needs.")
def figure(
    name: str | None, runs: tuple[Path, ...], out: Path | None, generation: tuple[int, ...], listing: bool
) -> None:
    """Draw one of the paper's figures from run files."""
    from ees_mpi.analysis import figures

    if listing:
        for known, recipe in figures.FIGURES.items():
            click.echo(f"{known:20} {recipe.paper:8} {recipe.needs}")
        return
    if not name:
        raise click.UsageError("expected NAME RUN.h5 ...; --list says what there is")
    click.echo(f"{figures.draw(name, runs, out, generation)}")


cli.add_command(commands.metrics)
cli.add_command(commands.compare)


@cli.command()
@RUN
@click.option("--individual", "individuals", type=click.IntRange(min=0), multiple=True, help="Repeatable.")
@click.option("--generation", type=click.IntRange(min=0), help="[default: the last]")
@click.option("--best", type=click.Choice(["left", "right"]), multiple=True, help="The one farthest on a side.")
@click.option("--toward", multiple=True, metavar="45deg", help="The one farthest in a direction, from +x towards +y.")
@click.option("--extremes", type=click.IntRange(min=1, max=64), help="This many that differ most.")
@click.option("--mean", is_flag=True, help="The unperturbed mean(s); by default those after the last generation.")
@click.option("--video", type=click.Path(path_type=Path), metavar="FILE.mp4", help="Film them, side by side.")
@click.option("--size", metavar="320x240", help="Of one panel of the video.")
@click.option("--speed", type=commands.Finite(min=0.05, max=50), default=1.0, show_default=True, help="Of the video.")
@click.option(
    "--camera",
    type=click.Choice(["follow", "still"]),
    default="follow",
    show_default=True,
    help="Follow each robot, from the same angle and distance; or stay at one place that sees start and ends.",
)
def replay(
    run: Path,
    individuals: tuple[int, ...],
    generation: int | None,
    best: tuple[str, ...],
    toward: tuple[str, ...],
    extremes: int | None,
    mean: bool,
    video: Path | None,
    size: str | None,
    speed: float,
    camera: str,
) -> None:
    """Let individuals of a run act again, compare every bit with the file, and film them."""
    from ees_mpi import session
    from ees_mpi.analysis import choosing, replay
    from ees_mpi.progress import on_terminal

    _pin(lambda: session.portable_run(run))
    machine.check_threads()
    wish = choosing.Wish(individuals, best, toward, extremes or 0, mean, generation)
    filming = replay.Filming(video, replay.panel_size(size), speed, camera == "still") if video else None
    replay.replay(run, wish, filming, say, progress=on_terminal(sys.stdout))


@cli.command()
@RUN
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FILE.html", help="[default: RUN-report.html]")
@click.option(
    "--thumbnails",
    type=click.IntRange(min=0, max=64),
    default=8,
    show_default=True,
    help="How many extremes are replayed and shown.",
)
def report(run: Path, out: Path | None, thumbnails: int) -> None:
    """Write one web page of a run: what was run, what came of it, where the time went."""
    from ees_mpi import session
    from ees_mpi.analysis import report

    _pin(lambda: session.portable_run(run))
    machine.check_threads()
    click.echo(f"{report.write_report(run, out, thumbnails)}")


@cli.command()
@RUN
@click.option("--every", type=commands.Finite(min=0.05), default=2.0, show_default=True, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Look once, and leave.")
def watch(run: Path, every: float, once: bool) -> None:
    """Follow a running file in the terminal until it is complete."""
    from ees_mpi.analysis import watch

    watch.watch(run, sys.stdout, every, once)


def _pin(wants_portable: Any) -> None:
    if wants_portable():
        machine.pin_portable()


def _together(job: Any) -> NoReturn:
    from ees_mpi import ranks

    ranks.run(job)


def main() -> NoReturn:
    """Run the command line; an error of ours, or of the command line, is told once, by one rank."""
    machine.pin_threads()
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        _leave(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _leave("interrupted", 130)
    except EesError as error:
        _leave(str(error), error.exit_code)
    except OSError as error:
        _leave(str(error), RunFileError.exit_code)
    sys.exit(0)


def _leave(message: str, code: int) -> NoReturn:
    from ees_mpi.ranks import launched

    if launched()[1] != 0:
        sys.exit(0)
    say_on_stderr(f"ees-mpi: {message}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
