"""One session of a run: prepare the run file, send it to all ranks, train, close."""

import shlex
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import EesError, Interrupted, RunFileError, before_rollouts, collective
from ees_mpi.generation.determinism import check_deterministic
from ees_mpi.generation.results import Record, evaluates_mean, uses_torch
from ees_mpi.generation.state import State
from ees_mpi.ranks import Ranks
from ees_mpi.run.arrays import sizes_of
from ees_mpi.runs import tensorboard
from ees_mpi.runs.broadcast import read_on_root, set_limit
from ees_mpi.runs.progress import CountedOutcomes, Progress
from ees_mpi.runs.start import PreparedRun, PrepareRun, begin_session
from ees_mpi.terminal import say
from ees_mpi.training import EvolutionJob, Job, open_job, train

LARGE_TABLE = 2**24  # random numbers: about half a second on one core


@dataclass
class Callback:
    """A function of the user that rank 0 calls after each commit. If it raises, the run stops, and can be resumed."""

    function: Callable[[Record], object] | None  # None: no function on this rank; others may have one
    error: BaseException | None = None  # of the function

    def __call__(self, record: Record, ranks: Ranks) -> None:
        """Call the function. An error is kept for later, because the other ranks must stop first."""
        if self.function is None:
            return
        try:
            self.function(record.read_only())
        except BaseException as error:
            self.error, ranks.stopped_by = error, "on_generation"
            error.add_note(f"on_generation raised this; {record.generation + 1} generations are saved")

    def check(self, ranks: Ranks) -> None:
        """Raise an Interrupted on all ranks if the function has raised an error on rank 0."""
        with ranks.together():
            if self.error:
                raise Interrupted(f"on_generation raised {type(self.error).__name__} on rank 0: {self.error}")


def run_session(
    ranks: Ranks,
    prepare_run: PrepareRun,
    stall_minutes: Callable[[], float],
    max_hours: float | None = None,
    callback: Callback | None = None,
    curves: Path | None = None,
) -> Path:
    """Train until the last generation; return the path of the run file on every rank.

    Only rank 0 opens the run file. `stall_minutes`: reads the time limit, before `prepare_run` runs code of the user.
    `curves`: a folder for TensorBoard.
    """
    ranks.stop_when_asked()
    if max_hours is not None:
        ranks.deadline = time.monotonic() + 3600 * max_hours
    prepared: PreparedRun | None = None  # on rank 0

    def prepare() -> dict[str, Any]:
        nonlocal prepared
        if curves:
            tensorboard.check(curves)
        with before_rollouts():
            prepared = prepare_run()
        return {"path": str(prepared.path), "config": prepared.config, "state": prepared.state}

    def release(fold: bool) -> None:
        if prepared:
            prepared.close(fold)

    set_limit(ranks, stall_minutes)
    try:
        config, received = read_on_root(ranks, prepare)
        if prepared and prepared.writer and (warning := prepared.writer.pop_warning()):
            say(f"warning: {warning}")
        if not ranks.any(prepared is not None and prepared.finished):
            if prepared and config.noise.size >= LARGE_TABLE and config.method.name != "maml":
                say(f"{prepared.named}: a table of {config.noise.size:,} random numbers is being made")
            with closing(_opened(ranks, config)) as job:
                ranks.run_file = Path(received["path"])
                _train(job, State.from_arrays(received["state"]), prepared, callback, curves)
        with ranks.together():
            release(fold=True)
    except EesError as error:
        with suppress(RunFileError):  # the first error says more, and the journal keeps everything
            # If other ranks may have failed, too, rank 0 must report it before they do; folding takes time.
            release(fold=error.collective or ranks.size == 1)
        if isinstance(error, Interrupted):
            _check_there(ranks, prepared)
            if callback:
                callback.check(ranks)
            raise collective(Interrupted(f"{error}, {how_to_continue(received['path'])}")) from None
        raise
    except BaseException:
        with suppress(OSError):
            release(fold=False)  # the process may go on, and resume the run
        raise
    if prepared:
        count = prepared.config.run.generations
        say(f"{prepared.named}: {count} generation{'s' * (count > 1)}, complete")
    if callback:
        callback.check(ranks)
    return Path(received["path"])


def how_to_continue(path: str | Path) -> str:
    """Return the end of a sentence about an interrupted run."""
    return f"and `ees-mpi resume {shlex.quote(str(path))}` continues the run"


def _check_there(ranks: Ranks, prepared: PreparedRun | None) -> None:
    """Raise a RunFileError on all ranks if somebody has removed the run file: its generations are not saved."""
    with ranks.together():
        if prepared and not prepared.path.exists():
            raise RunFileError(f"{prepared.path} was removed while this run was writing; its generations are not saved")


def _opened(ranks: Ranks, config: Config) -> Job:
    """Check that all ranks compute alike, and open the job of the run on each of them."""
    ranks.check_alike(machine.fingerprint(uses_torch(config)))
    with before_rollouts():
        sizes = repr((sizes_of(config), config.task.device)).encode()
        ranks.check_same(sizes, "the task, in its sizes or its device,")
        config.method.check(config.task, config.population)  # a module may be missing on one node only
        return open_job(config, ranks)


def _train(
    job: Job,
    state: State,
    prepared: PreparedRun | None,
    callback: Callback | None,
    curves: Path | None,
) -> None:
    """Open the run file on rank 0, note the session in it, print a greeting, and train."""
    ranks, writer = job.ranks, None
    if ranks.any(prepared is not None and prepared.create is not None) and job.described["device"] == "cpu":
        check_deterministic(job.config, state, ranks)
    with ranks.together():
        if prepared:
            writer = prepared.open()  # creates a new file
            _greet(ranks, prepared)
            begin_session(writer, job.config, state.generation, prepared.sessions, ranks, **job.described)
    if not writer or not prepared:
        train(job, state, None)
        return
    shown = Progress(job.config, state.generation, writer.pop_warning)
    if isinstance(job, EvolutionJob) and not shown.has_bar:  # the first one may take minutes, and no pace is known yet
        total = job.config.population.size + evaluates_mean(job.config, state.generation)
        job.outcomes = CountedOutcomes(ranks, total, f"generation {state.generation + 1}")
    with shown, tensorboard.curves(curves, writer.path, state.generation) as draw:

        def report(record: Record) -> None:
            shown.update(record)
            draw(record)
            if callback:
                callback(record, ranks)

        train(job, state, writer, report)


def _greet(ranks: Ranks, prepared: PreparedRun) -> None:
    """Print the generations and the number of ranks, with warnings."""
    config, first = prepared.config, int(prepared.state["generation"])
    size = config.population.size
    workers = f"{ranks.size} rank{'s' * (ranks.size > 1)} on {ranks.nodes} node{'s' * (ranks.nodes > 1)}"
    rollouts = size * config.task.rollouts * config.method.rollouts
    said = f"{prepared.named}: generations {first} to {config.run.generations} begin on {workers}"
    say(f"{said}, with {rollouts:,} rollout{'s' * (rollouts > 1)} each")
    for note in config.notes:
        say(f"note: {note}")
    slices = config.noise.slices(config.task.parameters)
    if slices < size and not prepared.sessions:
        say(f"warning: the noise table has {slices} noise vectors for {size} individuals (noise.size)")
