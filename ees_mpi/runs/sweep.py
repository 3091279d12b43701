"""A sweep: several runs of one command line, one after the other, on the same ranks.

All configs and file names are checked before the first run starts. A run that fails later, for example by an error in
its task, does not stop the others: its error is printed at once, and again at the end. An error in a config, a stop
request, the time limit and lost ranks end the sweep. The same command with --resume continues it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ees_mpi import config as configs
from ees_mpi.config.sweeps import Member, file_name, named
from ees_mpi.errors import ConfigError, EesError, Interrupted, LaunchError, LockStepError, MissingExtra, collective
from ees_mpi.ranks import Ranks
from ees_mpi.runs.session import Say, run_session
from ees_mpi.runs.start import PreparedRun, TrainRequest
from ees_mpi.store.writer import already_exists, check_folder, has_results
from ees_mpi.terminal import say_on_stderr

ENDS_SWEEP = (ConfigError, MissingExtra, Interrupted, LaunchError, LockStepError)


@dataclass(frozen=True)
class Sweep:
    """Several runs that a command line asks for."""

    source: str
    members: Sequence[Member]
    request: TrainRequest  # of each member, except its settings and its file

    @property
    def folder(self) -> Path:
        """The folder of the run files."""
        return self.request.out or Path()


def run_sweep(ranks: Ranks, sweep: Sweep, say: Say, max_hours: float | None = None, curves: Path | None = None) -> None:
    """Train all runs of a sweep; raise the first error at the end if any run failed."""
    ranks.handle_stop_signals()
    if max_hours is not None:
        ranks.deadline = time.monotonic() + 3600 * max_hours
    files = [""] * len(sweep.members)
    with ranks.together():
        if ranks.is_root:
            files = _check(sweep)
    failures: list[tuple[str, EesError]] = []
    for file, member in zip(files, sweep.members, strict=True):
        if ranks.any(ranks.stopping()):
            reason = f"{member.number} of {len(files)} runs are done; the same command with --resume goes on"
            raise collective(Interrupted(f"interrupted by {ranks.stop_signal or 'a signal'}: {reason}"))
        if ranks.is_root:
            say(f"sweep: run {member.number + 1} of {len(files)}: {file}")
        try:
            run_session(ranks, partial(_prepare, sweep, member), say, curves=curves)
        except EesError as error:
            if isinstance(error, ENDS_SWEEP) or (ranks.size > 1 and not error.collective):
                raise
            failures.append((file, error))
            if ranks.is_root:
                say_on_stderr(f"sweep: {file} failed, and the sweep goes on: {error}\n")
    if failures:
        names, first = ", ".join(file for file, _ in failures), failures[0][1]
        summary = f"sweep: {len(failures)} of {len(files)} runs failed: {names}; the first: {first}"
        raise collective(type(first)(summary))  # the exit code is that of the first
    if ranks.is_root:
        say(f"sweep: {len(files)} runs, all complete")


def _check(sweep: Sweep) -> list[str]:
    """Return the file names; raise an error if any run cannot start."""
    if not sweep.folder.is_dir():
        raise ConfigError(f"--out {sweep.folder}: a sweep makes several files; expected an existing folder")
    members = named(sweep.source, sweep.members)
    for member in members:
        path = sweep.folder / member.file
        configs.check(configs.load(sweep.source, member.all_settings))
        check_folder(path)
        if path.exists() and not (sweep.request.resume or sweep.request.overwrite) and has_results(path):
            raise already_exists(path)
    return [member.file for member in members]


def _prepare(sweep: Sweep, member: Member) -> PreparedRun:
    """Prepare one run, on rank 0."""
    path = sweep.folder / file_name(sweep.source, member.all_settings)
    return replace(sweep.request, settings=member.all_settings, out=path).prepare()
