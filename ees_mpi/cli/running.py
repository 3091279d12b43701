"""The commands that run on all ranks: train, resume, verify, sample, adapt, doctor."""

from functools import partial
from pathlib import Path

import click

from ees_mpi import ranks
from ees_mpi.cli.options import FORCE, MAX_HOURS, POSITIVE, RUN, SET, SOURCE, pin_for_run, pin_for_source
from ees_mpi.errors import EesError, collective
from ees_mpi.terminal import say


@click.command()
@SOURCE
@SET
@click.option("--seed", type=click.IntRange(min=0), help="Short for --set run.seed=N.")
@click.option("--out", type=click.Path(path_type=Path), metavar="RUN.h5", help="[default: PRESET-seedN.h5]")
@click.option("--from", "start", metavar="RUN.h5[@G]", help="Start from the mean(s) of another run.")
@click.option("--resume", is_flag=True, help="Continue an existing file, or start one.")
@click.option("--overwrite", is_flag=True, help="Start again in place of an existing file.")
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
    settings = settings if seed is None else (*settings, f"run.seed={seed}")
    pin_for_source(source, settings)
    from ees_mpi.runs.session import run_session
    from ees_mpi.runs.start import TrainRequest

    request = TrainRequest(source, settings, out, resume, overwrite, force, start)
    ranks.run(partial(run_session, request=request, say=say, max_hours=max_hours))


@click.command()
@RUN
@click.option("--generations", type=click.IntRange(min=1), help="Train until this many, in place of the file's number.")
@MAX_HOURS
@FORCE
def resume(run: Path, generations: int | None, max_hours: float | None, force: bool) -> None:
    """Continue a run from its last committed generation."""
    pin_for_run(run)
    from ees_mpi.runs.session import run_session
    from ees_mpi.runs.start import ResumeRequest

    request = ResumeRequest(run, generations, force)
    ranks.run(partial(run_session, request=request, say=say, max_hours=max_hours))


@click.command()
@RUN
@click.option("--generation", type=click.IntRange(min=0), help="[default: the first, the middle and the last]")
@click.option("--individuals", type=click.IntRange(min=1), help="How many of each generation.  [default: 32]")
def verify(run: Path, generation: int | None, individuals: int | None) -> None:
    """Evaluate individuals again and compare every bit; alone or under mpirun."""
    pin_for_run(run)

    def job(world: ranks.Ranks) -> None:
        from ees_mpi.commands.verify import verify

        check = verify(world, run, generation, individuals)
        if world.first:
            where = ", ".join(map(str, check.generations))
            click.echo(f"{run}: {check.individuals} individuals of generations {where}: the same bits")

    ranks.run(job)


@click.command()
@RUN
@click.option("--count", type=click.IntRange(min=2), required=True, help="How many offspring.")
@click.option("--generation", type=click.IntRange(min=0), help="[default: the state after the last one]")
@click.option("--std", type=POSITIVE, help="[default: the run's]")
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
    pin_for_run(run)
    from ees_mpi.commands.sample import SampleRequest, sample

    request = SampleRequest(run, count, generation, std, component)
    target = out or run.with_name(f"{run.stem}-sample.h5")
    ranks.run(partial(sample, request=request, out=target, overwrite=overwrite, say=say))


@click.command()
@RUN
@click.option("--direction", required=True, metavar="left|right|ANGLE", help="ANGLE: degrees from +x towards +y.")
@click.option("--mutations", type=click.IntRange(min=2), help="How many to choose from.  [default: 40]")
@click.option("--evaluations", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--generation", type=click.IntRange(min=0), help="[default: the state after the last one]")
@click.option("--std", type=POSITIVE, help="[default: the run's]")
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
    """Adapt a run to a direction, and score the result from other starts.

    A run of evolution keeps the best of some mutations of its mean; a MAML run takes its gradient step. Alone or under
    mpirun.
    """
    pin_for_run(run)
    from ees_mpi.commands.adapt import AdaptRequest, adapt

    request = AdaptRequest(run, direction, mutations, evaluations, generation, std)
    target = out or run.with_name(f"{run.stem}-adapt-{direction}.h5")
    ranks.run(partial(adapt, request=request, out=target, overwrite=overwrite, say=say))


@click.command()
def doctor() -> None:
    """Check what works on this machine; alone or under mpirun."""

    def job(world: ranks.Ranks) -> None:
        from ees_mpi.commands.doctor import examine

        findings = examine(world)
        if world.first:
            for finding in findings:
                click.echo(f"{finding.verdict:5} {finding.what:15} {finding.how}")
        if any(finding.verdict == "bad" for finding in findings):
            raise collective(EesError("something does not work here: see the lines marked bad"))

    ranks.run(job)
