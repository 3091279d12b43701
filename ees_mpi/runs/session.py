"""One session of a run: prepare the run file, send it to all ranks, train, close.

Under `mpirun --with-ft ulfm` an allgather raises `RanksLost` if a rank has died. The ranks that are left then reconnect
(`Ranks.recover`), and the first of them reopens the run file at the last commit. Results of the current generation that
they have already evaluated are not evaluated again.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import EesError, Interrupted, RanksLost, RunFileError
from ees_mpi.generation.determinism import check_deterministic
from ees_mpi.generation.results import Evaluated, Record, observation_warning, uses_torch
from ees_mpi.generation.state import State
from ees_mpi.ranks import Ranks
from ees_mpi.runs import tensorboard
from ees_mpi.runs.broadcast import read_on_root
from ees_mpi.runs.progress import Progress
from ees_mpi.runs.start import PreparedRun, Request, reopen
from ees_mpi.store.reader import open_run
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import Job, open_job, train

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
    session = Session(ranks, request, say, callback, curves)
    try:
        while True:
            try:
                return session.train()
            except RanksLost:
                session.recover()
    except Interrupted:
        if callback:
            callback.check(ranks)
        raise
    finally:
        session.close()


@dataclass
class Session:
    """The run that all ranks agreed on, this rank's job, and the results that it has evaluated."""

    ranks: Ranks
    request: Request
    say: Say
    callback: Callback | None
    curves: Path | None  # a folder
    _path: Path | None = None
    _run_id: str = ""
    _config: Config | None = None
    _prepared: PreparedRun | None = None  # on rank 0, until it is released
    _job: Job[Any] | None = None
    _evaluated: Evaluated[Any] = field(default_factory=Evaluated)

    def train(self) -> Path:
        """Train until the end, or until ranks are lost; return the path of the run file."""
        ranks = self.ranks
        try:
            config, received = read_on_root(ranks, self._prepare)
            state, prepared = State.from_arrays(received["state"]), self._prepared
            path = self._path = Path(received["path"])
            self._run_id, self._config = received["run_id"], config
            if not ranks.any(prepared is not None and prepared.finished):
                fingerprint = machine.fingerprint(uses_torch(config))
                ranks.check_alike(fingerprint)
                job = self._open_job(config)
                known = self._known(job, state.generation, received.pop("arrays"))
                with ranks.stall_limit(60 * job.config.run.stall_minutes):
                    if ranks.any(prepared is not None and prepared.create is not None) and job.device == "cpu":
                        check_deterministic(config, state, ranks)
                    writer = self._open_file(job, state, len(known), fingerprint)
                    if writer:
                        shown = Progress(job.config, state.generation, writer.pop_warning)
                        with shown, tensorboard.Curves(self.curves, writer.path) as curves:
                            train(job, state, writer, lambda record: self._report(record, shown, curves), known)
                    else:
                        train(job, state, None, known=known)
            with ranks.together():
                self._release()
        except RanksLost:
            self._release(fold=False)
            raise
        except EesError as error:
            with suppress(RunFileError):  # the first error says more, and the journal keeps everything
                # If other ranks may have failed, too, rank 0 must report it before they do; folding takes time.
                self._release(fold=error.collective or ranks.size == 1)
            raise
        except BaseException:
            with suppress(OSError):
                self._release(fold=False)  # the process may go on, and resume the run
            raise
        if prepared:
            self.say(f"{prepared.path}: {prepared.config.run.generations} generations, complete")
        if self.callback:
            self.callback.check(ranks)
        return path

    def _prepare(self) -> dict[str, Any]:
        """Prepare the run on rank 0; return all that the other ranks need.

        The options of the command say which run it is; after ranks were lost, the run file does.
        """
        if self.curves:
            tensorboard.check(self.curves)
        if self._path and self._begun(self._path):
            prepared = reopen(self._path, None, force=True, config=self._config)  # its last writer is dead
        else:
            prepared = self.request()
        self._prepared = prepared
        partial, prepared.partial = prepared.partial, {}  # may be large for MAML
        place = {"path": str(prepared.path), "run_id": prepared.run_id}
        return {**place, "config": prepared.config, "state": prepared.state, "arrays": partial}

    def _begun(self, path: Path) -> bool:
        """Return True if the file of this run exists; the rank that created it may be dead."""
        try:
            with open_run(path, allow_damaged_journal=True) as run:
                return run.run_id == self._run_id
        except RunFileError:
            return False

    def _open_job(self, config: Config) -> Job[Any]:
        """Return the job with its noise table; it is opened again if a rank died before all ranks had one."""
        missing = self.ranks.any(self._job is None)
        if missing or self._job is None:
            self.close()
            self._job = open_job(config, self.ranks)
        else:
            self._job.rejoin()
        return self._job

    def _known(self, job: Job[Any], generation: int, partial: Mapping[str, Any]) -> dict[int, Any]:
        """Return the results of a generation that the run file or any rank already has."""
        return {**(job.restore(partial) if partial else {}), **job.pool(self._evaluated.of(generation))}

    def _open_file(self, job: Job[Any], state: State, known: int, fingerprint: dict[str, str]) -> RunWriter | None:
        """Open the run file on rank 0, note the session in it, and print a greeting."""
        ranks, prepared, writer = self.ranks, self._prepared, None
        ranks.resumable = True  # also while the file is created: `train --resume` continues it, or begins it again
        with ranks.together():
            if prepared:
                writer = prepared.open()  # creates a new file: now every rank knows its path and id
                here = {**fingerprint, "mpi": ranks.library, **job.described}
                _greet(ranks, prepared, known, here, job.device, self.say)
                writer.begin_session(state.generation, ranks.size, ranks.nodes, here)
        return writer

    def _report(self, record: Record, progress: Progress, curves: tensorboard.Curves) -> None:
        """Show a committed generation, on rank 0."""
        progress.update(record)
        curves.update(record)
        if self.callback:
            self.callback(record, self.ranks)

    def _release(self, fold: bool = True) -> None:
        """Release the run file on rank 0; `fold`: fold its journal before."""
        prepared, self._prepared = self._prepared, None
        if prepared:
            prepared.close(fold)

    def recover(self) -> None:
        """Keep the results of this rank after ranks were lost, and reconnect."""
        if self._job and self._job.evaluated.results:
            self._evaluated = self._job.evaluated
        lost = self.ranks.recover()
        if self.ranks.is_root:
            self.say(f"lost {lost}: continuing with the other ranks")

    def close(self) -> None:
        """Release the job."""
        job, self._job = self._job, None
        if job is not None:
            job.close()


def _greet(ranks: Ranks, prepared: PreparedRun, known: int, here: dict[str, str], device: str, say: Say) -> None:
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
        other = machine.differences(here, prepared.sessions[-1]["machine"])
        if other:
            say(f"warning: the file was written on another machine, so later bits may differ: {'; '.join(other)}")
