"""The commands that run on all ranks: train, resume, verify, sample, adapt, measure, doctor."""

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from ees_mpi import ranks
from ees_mpi.cli.options import (
    ENGINE,
    FORCE,
    MAX_HOURS,
    RUN,
    SET,
    SOURCE,
    START_MINUTES,
    TENSORBOARD,
    TRUST,
    AtLeastOne,
    Finite,
    echo,
    policy_of,
    policy_options,
    run_on_ranks,
)
from ees_mpi.errors import ConfigError, EesError, MissingExtra, collective
from ees_mpi.registry import beside
from ees_mpi.terminal import say


@click.command()
@SOURCE
@SET
@click.option("--seed", type=click.IntRange(min=0), help="Short for --set run.seed=N.")
@click.option("--generations", type=AtLeastOne(), help="Short for --set run.generations=N.")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="RUN.h5", help="[default: PRESET-KEYS-seedN.h5]")
@click.option(
    "--from",
    "start",
    metavar="RUN.h5[@G]|POLICY",
    help="Start from the mean(s) of another run, or a policy (see `measure`). If the first step destroys what it has "
    "learned: --set optimizer.correct_first=false.",
)
@policy_options
@click.option("--resume", is_flag=True, help="Continue an existing file, or start one.")
@click.option("--overwrite", is_flag=True, help="Start again in place of an existing file.")
@MAX_HOURS
@TENSORBOARD
@FORCE
@START_MINUTES
def train(
    source: str,
    settings: tuple[str, ...],
    seed: int | None,
    generations: int | None,
    out: Path | None,
    max_hours: float | None,
    tensorboard: Path | None,
    **options: Any,
) -> None:
    """Train a preset or a config file; with or without mpirun.

    One run. `ees-mpi sweep` prints the commands of many.
    """
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume and --overwrite exclude each other")
    ranks.note_stop_signals()
    from ees_mpi.config.sweeps import choice

    for setting in settings:
        if len(choice(setting)) > 1:
            raise click.UsageError(
                f"--set {setting:.200}: train takes one value; `ees-mpi sweep` prints a command for each value; "
                "quotes keep a comma"
            )
    settings += () if generations is None else (f"run.generations={generations}",)
    settings += () if seed is None else (f"run.seed={seed}",)
    if source.endswith(".toml"):
        beside(source)  # on every rank: rank 0 alone reads the file
    options["start"] = policy_of(options["start"], options)
    from ees_mpi.runs.session import run_session
    from ees_mpi.runs.start import TrainRequest

    request = TrainRequest(source, settings, out, **options)
    run_on_ranks(partial(run_session, request=request.prepare, say=say, max_hours=max_hours, curves=tensorboard))


@click.command()
@RUN
@click.option("--generations", type=AtLeastOne(), help="Train until this many.  [default: as in the file]")
@MAX_HOURS
@TENSORBOARD
@FORCE
@TRUST
@START_MINUTES
def resume(run: Path, generations: int | None, max_hours: float | None, tensorboard: Path | None, force: bool) -> None:
    """Continue a run from its last committed generation."""
    ranks.note_stop_signals()
    from ees_mpi.runs.session import run_session
    from ees_mpi.runs.start import reopen

    request = partial(reopen, run, generations, force)
    run_on_ranks(partial(run_session, request=request, say=say, max_hours=max_hours, curves=tensorboard))


@click.command()
@RUN
@click.option("--generation", type=click.IntRange(min=0), help="[default: the first, the middle and the last]")
@click.option("--individuals", type=click.IntRange(min=1), help="The number in each generation.  [default: 32]")
@click.option("--updates", is_flag=True, help="Compute all updates again from the logged outcomes; no rollouts.")
@TRUST
@START_MINUTES
def verify(run: Path, generation: int | None, individuals: int | None, updates: bool) -> None:
    """Evaluate individuals again and compare every bit; with or without mpirun.

    Outcomes of a GPU, except those of the paper's robots, and of a task with task.deterministic = false cannot be
    repeated bit by bit: the behaviours of 1,000 individuals are compared as distributions.
    """
    if updates and (generation, individuals) != (None, None):
        raise click.UsageError("--updates checks all generations; leave out --generation and --individuals")

    def job(world: "ranks.Ranks") -> None:
        from ees_mpi.commands.verify import verify, verify_updates

        lines = verify_updates(world, run) if updates else verify(world, run, generation, individuals)
        if world.is_root:
            echo("\n".join(lines))

    run_on_ranks(job)


@click.command()
@RUN
@click.option("--count", type=click.IntRange(min=2), required=True, help="The number of offspring.")
@click.option("--generation", type=click.IntRange(min=0), help="Of the mean.  [default: the state after the last one]")
@click.option("--std", type=Finite(min=1e-30, max=1e30), help="Of the mutations.  [default: the run's]")
@click.option("--component", type=click.IntRange(min=0), help="Of a mixture.  [default: all of them]")
@ENGINE
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="S.h5", help="[default: RUN-sample.h5]")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@TRUST
@START_MINUTES
def sample(run: Path, **options: Any) -> None:
    """Evaluate new offspring of a trained mean; with or without mpirun."""
    from ees_mpi.commands.offspring import SampleRequest, sample

    run_on_ranks(partial(sample, request=SampleRequest(run, **options), say=say))


@click.command()
@RUN
@click.option("--direction", required=True, metavar="left|right|45deg", help="Degrees are from +x towards +y.")
@click.option("--mutations", type=click.IntRange(min=2), help="The number of mutations.  [default: 40]")
@click.option("--evaluations", type=AtLeastOne(10**6), default=10, help="From other starts.  [default: 10]")
@click.option("--generation", type=click.IntRange(min=0), help="Of the mean.  [default: the state after the last one]")
@click.option("--std", type=Finite(min=1e-30, max=1e30), help="Of the mutations.  [default: the run's]")
@ENGINE
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="A.h5", help="[default: RUN-adapt-DIRECTION.h5]")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@TRUST
@START_MINUTES
def adapt(run: Path, **options: Any) -> None:
    """Adapt a run to a direction, and score the result from other starts; with or without mpirun.

    An evolution run takes the best of some mutations of its mean; a MAML run takes a gradient step.
    """
    from ees_mpi.commands.adapt import AdaptRequest, adapt

    run_on_ranks(partial(adapt, request=AdaptRequest(run, **options), say=say))


@click.command()
@click.argument("policy", metavar="POLICY")
@click.option("--task", metavar="PRESET|FILE.toml", help="The task.  [default: that of a run or an exported policy]")
@click.option("--std", "stds", default="0.01,0.02,0.05", show_default=True, metavar="S[,S...]", help="Of mutations.")
@click.option("--count", type=click.IntRange(min=2), default=1000, show_default=True, help="Offspring at each std.")
@click.option("--starts", type=click.IntRange(min=2), help="Unseen starts of each: is the variety heritable?")
@click.option("--json", "as_json", is_flag=True, help="With --starts: print one JSON object only.")
@SET
@policy_options
@click.option("--label", default="", help="The name in tables and figures.  [default: that of the file]")
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("measure.h5"), show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@TRUST
@START_MINUTES
def measure(policy: str, stds: str, settings: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Measure how evolvable a policy is: the behaviours of its mutations at several stds; with or without mpirun.

    POLICY is a run file, an exported policy (npz), a model of Stable-Baselines3 (zip), a torch state_dict, a file of
    safetensors, or module:function. See `ees-mpi docs measure`.
    """
    try:
        numbers = tuple(float(std) for std in stds.split(","))
    except ValueError:
        raise click.UsageError(f"--std {stds}: expected numbers with commas between them") from None
    if str(options["task"]).endswith(".toml"):
        beside(options["task"])  # on every rank: rank 0 alone reads the file
    from ees_mpi.commands.offspring import MeasureRequest

    request = MeasureRequest(policy_of(policy, options), numbers, settings=settings, **options)
    if as_json and request.starts is None:
        raise click.UsageError("--json: expected --starts, too; `ees-mpi metrics FILE --json` has the other measures")
    run_on_ranks(partial(_measure, request=request, as_json=as_json))


def _measure(world: "ranks.Ranks", request: Any, as_json: bool) -> None:
    """Measure, print the tables, and draw the figures beside the file."""
    from ees_mpi.commands.offspring import measure

    picture = request.out.with_suffix(".png")
    figures = {"measure": picture}
    if request.starts:
        figures["starts"] = picture.with_stem(f"{picture.stem}-starts")
    with world.together():
        for path in figures.values() if world.is_root and not request.overwrite else ():
            if path.exists():
                raise ConfigError(f"{path}, the figure, exists already; use --overwrite to replace it, or another -o")
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):  # progress, too
        measure(world, request, say)
    with world.together():
        if world.is_root:
            from ees_mpi.analysis.figures.catalog import FigureRequest, draw
            from ees_mpi.analysis.numbers.summaries import table_of_stds

            for line in [] if as_json else table_of_stds(request.out):
                echo(line)
            if request.starts:
                from ees_mpi.analysis.numbers.heritability import describe

                for line in describe(request.out, as_json):
                    echo(line)
            try:
                lines = [str(draw(name, [request.out], FigureRequest(path))) for name, path in figures.items()]
            except MissingExtra as error:
                lines = [f"no figure: {error}"]
            for line in [] if as_json else lines:
                echo(line)


@click.command()
@START_MINUTES
def doctor() -> None:
    """Check that this machine has all that a run needs; with or without mpirun."""

    def job(world: "ranks.Ranks") -> None:
        from ees_mpi.commands.doctor import examine

        findings = examine(world)
        if world.is_root:
            for finding in findings:
                echo(f"{finding.verdict:5} {finding.subject:15} {finding.result}")
        if any(finding.verdict == "bad" for finding in findings):
            raise collective(EesError("a check failed: see the lines marked bad"))

    run_on_ranks(job)
