"""The commands that run on all ranks: train, resume, verify, sample, adapt, measure, signal, plan, doctor."""

import contextlib
import itertools
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from ees_mpi import ranks
from ees_mpi.cli import command, echo, print_notes
from ees_mpi.commands import requests
from ees_mpi.commands.arguments import ANY_WHOLE, AT_LEAST_ONE, PRESET, Option, path_of
from ees_mpi.errors import ConfigError, EesError, MissingExtra, collective, scipy_stats
from ees_mpi.registry.search import also
from ees_mpi.terminal import say, say_on_stderr


@command(on_ranks=True)
def train(request: requests.TrainRequest) -> None:
    ranks.note_stops()
    from ees_mpi.commands.train import job_of
    from ees_mpi.run.session import run_session

    ranks.run(job_of(request), partial(run_session, max_hours=request.max_hours))


@command(on_ranks=True)
def resume(
    run: requests.RunArgument,
    generations: Annotated[
        int | None, Option("Train until this many.  [default: as in the file]", AT_LEAST_ONE)
    ] = None,
    max_hours: requests.MaxHours = None,
    tensorboard: requests.Tensorboard = None,
    force: requests.Force = False,
    trust: requests.Trust = False,
) -> None:
    """Continue a run from its last committed generation."""
    ranks.note_stops()
    from ees_mpi.run import start
    from ees_mpi.run.session import run_session

    job = partial(
        run_session,
        read=lambda: start.read(path_of(run)),
        prepare=lambda _: start.reopen(path_of(run), generations, force, trust=trust),
        max_hours=max_hours,
        curves=Path(tensorboard).absolute() if tensorboard else None,
    )
    ranks.run(job, partial(run_session, max_hours=max_hours))


@command(on_ranks=True)
def verify(
    run: requests.RunArgument,
    generation: Annotated[int | None, Option("[default: the first, the middle and the last one]", ANY_WHOLE)] = None,
    individuals: Annotated[int | None, Option("The number in each generation.  [default: 32]", AT_LEAST_ONE)] = None,
    updates: Annotated[bool, Option("Compute all updates again from the logged outcomes; no rollouts.")] = False,
    trust: requests.Trust = False,
) -> None:
    """Compute outcomes and metrics again, and compare every bit.

    Outcomes of a GPU, except those of the paper's robots, and of a task with task.deterministic = false cannot be
    repeated bit by bit. It says so, and --updates checks what follows from them.
    """
    if updates and (generation, individuals) != (None, None):
        raise ConfigError("--updates checks all generations; leave out --generation and --individuals")
    ranks.run(partial(_verify, path_of(run), generation, individuals, updates, trust))


def _verify(
    path: Path, generation: int | None, individuals: int | None, updates: bool, trust: bool, world: "ranks.Ranks"
) -> None:
    from ees_mpi.commands.verify import verify, verify_updates

    lines = verify_updates(world, path, trust) if updates else verify(world, path, generation, individuals, trust)
    if world.is_root:
        echo("\n".join(lines))


@command(on_ranks=True)
def sample(request: requests.SampleRequest) -> None:
    from ees_mpi.commands.offspring import sample

    ranks.run(partial(sample, request=request, say=say))


@command(on_ranks=True)
def adapt(request: requests.AdaptRequest) -> None:
    from ees_mpi.commands.adapt import adapt

    ranks.run(partial(adapt, request=request, say=say))


@command(on_ranks=True)
def measure(
    request: requests.MeasureRequest,
    cell: requests.Cell = None,
    as_json: Annotated[bool, Option("One JSON object instead of the tables.", usage="--json")] = False,
) -> None:
    picture = request.target.with_suffix(".png")
    figures = {"measure": picture}
    if request.starts:
        figures["starts"] = picture.with_stem(f"{picture.stem}-starts")
    if request.target in figures.values():
        raise ConfigError(f"-o {request.out}: expected the name of an HDF5 file; the figure {picture} stands beside it")

    ranks.run(partial(_measure, request, figures, cell, as_json))


def _measure(
    request: requests.MeasureRequest,
    figures: dict[str, Path],
    cell: float | None,
    as_json: bool,
    world: "ranks.Ranks",
) -> None:
    from ees_mpi.commands.offspring import measure

    folder = Path.cwd()  # code of the user may change it
    with world.together():
        if request.starts and world.is_root:  # only this rank computes statistics
            scipy_stats()  # before the rollouts
        for path in figures.values() if world.is_root and not request.overwrite else ():
            if path.exists():
                raise ConfigError(f"the figure {path} exists already; use --overwrite, or another -o")
    with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):  # progress, too
        out = measure(world, request, say)
    with world.together():
        if world.is_root:
            _show(out, folder, figures, cell, as_json)


def _show(measured: Path, folder: Path, figures: dict[str, Path], cell: float | None, as_json: bool) -> None:
    """Print the tables of a file of `measure`, and draw its figures beside it."""
    from ees_mpi.analysis.figures.catalog import draw
    from ees_mpi.analysis.labels import label
    from ees_mpi.analysis.numbers import heritability
    from ees_mpi.analysis.numbers.selection import scales
    from ees_mpi.analysis.numbers.summaries import at_stds, table_of_stds
    from ees_mpi.analysis.numbers.tables import to_json
    from ees_mpi.run.file import open_run

    with open_run(measured) as run:
        (scale,) = scales([run], cell)
        if as_json:
            more = heritability.facts(run) if "starts" in figures else itertools.repeat({})
            rows = [{**row, **found} for row, found in zip(at_stds(run, scale), more, strict=False)]
            lines = [to_json({"file": str(measured), "label": label(run), "stds": rows})]
        else:
            lines = table_of_stds(run, scale)
            lines += heritability.describe(run) if "starts" in figures else []
    for line in lines:
        echo(line)
    try:
        sides = {"measure": cell, "starts": requests.FigureRequest.cell}
        for name, path in figures.items():
            draw(name, [measured], requests.FigureRequest(folder / path, cell=sides[name]))
        for path in [] if as_json else figures.values():
            echo(str(path))
    except MissingExtra as error:
        (say_on_stderr if as_json else echo)(f"no figure: {error}")


@command(on_ranks=True)
def signal(request: requests.SignalRequest, as_json: requests.Json = False) -> None:
    ranks.run(partial(_signal, request, as_json))


def _signal(request: requests.SignalRequest, as_json: bool, world: "ranks.Ranks") -> None:
    from ees_mpi.analysis.numbers import tables
    from ees_mpi.commands.signal import signal

    rows = signal(world, request)
    if world.is_root:
        lines = [*tables.columns(tables.signal_rows(rows)), "", tables.SIGNAL_LEGEND]
        echo(tables.to_json(rows) if as_json else "\n".join(lines))


@command(on_ranks=True)
def plan(
    source: requests.SourceArgument,
    settings: requests.KeyChanges = None,
    most: Annotated[
        int | None,
        Option("At most so many ranks; fewer if they need no longer.  [default: a node]", AT_LEAST_ONE, "--ranks N"),
    ] = None,
    ranks_per_node: Annotated[
        int | None, Option("[default: the cores of a node, as SLURM says; else all ranks]", AT_LEAST_ONE)
    ] = None,
    sbatch: Annotated[bool, Option("Print the line that submits the run to SLURM instead.")] = False,
) -> None:
    """Print the costs of a run before it is queued.

    Memory, hours, core-hours, disk. A few rollouts (on a GPU one batch), an update and a commit are timed here, and
    multiplied. On all ranks of a node, under srun or mpirun, it times a full node.
    """
    ranks.run(partial(_plan, source, [*map(str, requests.changes_of(settings))], most, ranks_per_node, sbatch))


def _plan(
    source: str, words: list[str], most: int | None, ranks_per_node: int | None, sbatch: bool, world: "ranks.Ranks"
) -> None:
    from ees_mpi.commands import plan
    from ees_mpi.config import Config, load

    def read() -> tuple[Config, plan.Nodes]:
        nodes = plan.nodes_of(most, ranks_per_node, world, asked=sbatch)
        config = load(source, words)
        return config, plan.proposed(config, nodes)

    config, nodes = world.from_root(read)
    also(config.folders)  # of its file, which rank 0 has read
    facts = plan.estimate(config, nodes, plan.measured_costs(config, nodes, world))
    if world.is_root:
        fewer = f"{most} ranks would need as long as {nodes.all_ranks}" if nodes.all_ranks < (most or 0) else ""
        print_notes((*config.notes, fewer))
        line = [source, *(word for each in words for word in ("--set", each)), "--out", f"{Path(source).stem}.h5"]
        echo(plan.sbatch(facts, line) if sbatch else "\n".join(plan.describe(facts)))


@command(on_ranks=True)
def doctor(
    source: Annotated[str | None, Option("", PRESET, "[PRESET|FILE.toml]")] = None,
    only: Annotated[bool, Option("Only train ten generations, and compare their bits.", usage="--run")] = False,
) -> None:
    """Check that this machine has all that a run needs, on every node: cores, memory, files, locks, GPUs, bits.

    Start it like the job, under its mpirun or srun. A preset is asked for its memory.
    """
    ranks.run(partial(_doctor, source, only))


def _doctor(source: str | None, only: bool, world: "ranks.Ranks") -> None:
    from ees_mpi.commands import doctor

    findings = doctor.trained(world) if only else doctor.examine(world, source)
    if world.is_root:
        for verdict, subject, result in findings:
            echo(f"{verdict:5} {subject:15} {result}")
    if world.any(any(verdict == "bad" for verdict, *_ in findings)):
        raise collective(EesError("a check failed: see the lines marked bad"))
