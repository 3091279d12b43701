"""One session of a run: prepare the run file, send it to all ranks, train, close."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import EesError, Interrupted, RanksLost, RunFileError
from ees_mpi.generation.determinism import check_deterministic
from ees_mpi.generation.results import Record, observation_warning, uses_torch
from ees_mpi.generation.state import State
from ees_mpi.ranks import Ranks
from ees_mpi.runs import tensorboard
from ees_mpi.runs.broadcast import read_on_root
from ees_mpi.runs.progress import Progress
from ees_mpi.runs.recovery import Recovery
from ees_mpi.runs.start import PreparedRun, Request
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import Job, train

Say = Callable[[str], None]


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
            self.error, ranks.stop_signal = error, "on_generation"
            error.add_note(f"on_generation raised this; {record.generation + 1} generations are saved")

    def check(self, ranks: Ranks) -> None:
        """Raise an Interrupted on all ranks if the function has raised an error on rank 0."""
        with ranks.together():
            if self.error:
                raise Interrupted(f"on_generation raised {type(self.error).__name__} on rank 0: {self.error}")


def run_session(
    ranks: Ranks,
    request: Request,
    say: Say,
    max_hours: float | None = None,
    callback: Callback | None = None,
    curves: Path | None = None,
) -> Path:
    """Train until the last generation, with the ranks that are alive; return the path of the run file on every rank.

    Only rank 0 opens the run file. `curves`: a folder for TensorBoard.
    """
    ranks.handle_stop_signals()
    if max_hours is not None:
        ranks.deadline = time.monotonic() + 3600 * max_hours
    recovery = Recovery(request)
    try:
        while True:
            try:
                return _train(ranks, recovery, say, callback, curves)
            except RanksLost:
                lost = recovery.keep(ranks)
                if ranks.is_root:
                    say(f"lost {lost}: continuing with the other ranks")
    except Interrupted:
        if callback:
            callback.check(ranks)
        raise
    finally:
        recovery.close()


def _train(ranks: Ranks, recovery: Recovery, say: Say, callback: Callback | None, folder: Path | None) -> Path:
    """Train until the end, or until ranks are lost."""
    try:
        config, received = read_on_root(ranks, partial(_read, recovery, folder))
        state, prepared = State.from_arrays(received["state"]), recovery.prepared
        path = recovery.path = Path(received["path"])
        recovery.run_id, recovery.config = received["run_id"], config
        if not ranks.any(prepared is not None and prepared.finished):
            fingerprint = machine.fingerprint(uses_torch(config))
            ranks.check_alike(fingerprint)
            job = recovery.job(config, ranks)
            known = recovery.known(job, state.generation, received.pop("arrays"))
            with ranks.stall_limit(60 * job.config.run.stall_minutes):
                if ranks.any(prepared is not None and prepared.create is not None) and job.device == "cpu":
                    check_deterministic(config, state, ranks)
                writer = _open(job, state, prepared, len(known), fingerprint, say)
                if writer:
                    shown = Progress(job.config, state.generation, writer.pop_warning)
                    with shown, tensorboard.Curves(folder, writer.path) as curves:
                        train(job, state, writer, _report(ranks, shown, curves, callback), known)
                else:
                    train(job, state, None, known=known)
        with ranks.together():
            recovery.release()
    except RanksLost:
        recovery.release(fold=False)
        raise
    except EesError as error:
        with suppress(RunFileError):  # the first error says more, and the journal keeps everything
            # If other ranks may have failed, too, rank 0 must report it before they do; folding takes time.
            recovery.release(fold=error.collective or ranks.size == 1)
        raise
    except BaseException:
        with suppress(OSError):
            recovery.release(fold=False)  # the process may go on, and resume the run
        raise
    if prepared:
        say(f"{prepared.path}: {prepared.config.run.generations} generations, complete")
    if callback:
        callback.check(ranks)
    return path


def _report(
    ranks: Ranks, progress: Progress, curves: tensorboard.Curves, callback: Callback | None
) -> Callable[[Record], None]:
    """Return the function that rank 0 calls after each commit."""

    def report(record: Record) -> None:
        progress.update(record)
        curves.update(record)
        if callback:
            callback(record, ranks)

    return report


def _read(recovery: Recovery, folder: Path | None) -> dict[str, Any]:
    """Prepare the run on rank 0; return all that the other ranks need."""
    if folder:
        tensorboard.check(folder)
    prepared = recovery.prepare()
    evaluated, prepared.partial = prepared.partial, {}  # may be large for MAML
    place = {"path": str(prepared.path), "run_id": prepared.run_id}
    return {**place, "config": prepared.config, "state": prepared.state, "arrays": evaluated}


def _open(
    job: Job[Any], state: State, prepared: PreparedRun | None, known: int, fingerprint: dict[str, str], say: Say
) -> RunWriter | None:
    """Open the run file on rank 0, note the session in it, and print a greeting."""
    ranks, writer = job.ranks, None
    ranks.resumable = True  # also while the file is created: `train --resume` continues it, or begins it again
    with ranks.together():
        if prepared:
            writer = prepared.open()  # creates a new file: now every rank knows its path and id
            _greet(ranks, prepared, known, fingerprint, job.device, say)
            here = {**fingerprint, "mpi": ranks.library, "device": job.device}
            writer.begin_session(state.generation, ranks.size, ranks.nodes, here)
    return writer


def _greet(ranks: Ranks, prepared: PreparedRun, known: int, fingerprint: dict[str, str], device: str, say: Say) -> None:
    """Print the generations and the number of ranks, with warnings."""
    config: Config = prepared.config
    first = int(prepared.state["generation"])
    workers = f"{ranks.size} rank{'s' * (ranks.size > 1)} on {ranks.nodes} node{'s' * (ranks.nodes > 1)}"
    done = f", {known} rollouts of the first are already done" if known else ""
    say(f"{prepared.path}: generations {first} to {config.run.generations} on {workers}{done}")
    for note in config.notes:
        say(f"note: {note}")
    if warning := observation_warning(config):
        say(f"warning: {warning}")
    slices = config.noise.slices(config.task.parameters)
    if slices < config.population.size and not prepared.sessions:
        say(
            f"warning: the noise table has {slices} noise vectors for {config.population.size} individuals (noise.size)"
        )
    idle = ranks.size - config.population.size
    if idle > 0 and device == "cpu":
        say(
            f"warning: {idle} of {ranks.size} ranks have nothing to evaluate (ranks {config.population.size} to "
            f"{ranks.size - 1}): the population has {config.population.size} individuals"
        )
    if prepared.sessions:
        other = machine.differences(fingerprint, prepared.sessions[-1]["machine"])
        if other:
            say(f"warning: the file was written on another machine, so later bits may differ: {'; '.join(other)}")
