"""One sitting of a run: bring up the ranks, open or make the run file, train, close."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi import config as configs
from ees_mpi import machine, origin
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, EesError, RanksLost, RunFileError
from ees_mpi.kept import Kept
from ees_mpi.progress import Progress
from ees_mpi.ranks import Ranks
from ees_mpi.state import State, first_state
from ees_mpi.store import journal
from ees_mpi.store.reader import Run, open_run
from ees_mpi.store.writer import RunWriter, check_folder, exists, new_run_id
from ees_mpi.training import Job, Record, train

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What the command line asks `train` for."""

    source: str
    settings: Sequence[str] = ()
    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    force: bool = False
    start: str | None = None  # RUN.h5[@generation] to start from

    def config(self) -> Config:
        """Read the config that the request describes."""
        config = configs.load(self.source, self.settings)
        configs.check(config)
        return config

    def path(self, config: Config) -> Path:
        """Return where the run file goes."""
        return self.out or Path(f"{Path(self.source).stem}-seed{config.run.seed}.h5")


@dataclass
class Opening:
    """A run about to be trained, as rank 0 found it; an existing file is held, a new one not made before it must be."""

    path: Path
    config: Config
    state: dict[str, Any]
    partial: dict[str, Any]  # outcomes of the next generation from before an interruption
    run_id: str
    writer: RunWriter | None = None
    create: Callable[[], RunWriter] | None = None  # where there is no writer yet

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return int(self.state["generation"]) >= self.config.run.generations

    def open(self) -> RunWriter:
        """Return the writer, making the file where it is new: the last step before training."""
        if self.writer is None and self.create is not None:
            self.writer = self.create()
        if self.writer is None:
            raise RunFileError(f"{self.path} was not opened")
        return self.writer

    def close(self) -> None:
        """Fold and let go of the file."""
        writer, self.writer = self.writer, None
        if writer:
            writer.close()

    def let_go(self) -> None:
        """Leave the file to be opened again, as it is."""
        writer, self.writer = self.writer, None
        if writer:
            writer.let_go()


def begin(request: Request) -> Opening:
    """Find or prepare the run file of a `train` command; on rank 0."""
    config = request.config()
    path = request.path(config)
    check_folder(path)
    if path.exists() and not request.overwrite:
        if not request.resume:
            raise exists(path)
        _check_same_run(path, config, request.start)
        return reopen(path, config.run.generations, request.force, config)
    _rehearse(config)
    state, note = origin.first_state_from(request.start, config) if request.start else (first_state(config), "")
    arrays, run_id = state.arrays(), new_run_id()

    def create() -> RunWriter:
        return RunWriter.create(
            path, config, arrays, request.overwrite, request.force, started_from=note, run_id=run_id
        )

    return Opening(path, config, arrays, {}, run_id, create=create)


def _check_same_run(path: Path, config: Config, start: str | None) -> None:
    """Refuse to go on with a file that was begun in another way, and say in which."""
    with open_run(path) as run:
        changed = configs.changed_keys(run.config, config)
        begun_from = json.loads(run.attributes["started_from"] or "null")
    if changed:
        raise ConfigError(f"{path} was begun with another config: {'; '.join(changed)}")
    if start:
        with open_run(origin.parse(start)[0]) as source:
            wanted = origin.read(source, origin.parse(start)[1]).about
        if begun_from is None or any(begun_from[key] != wanted[key] for key in ("run_id", "state_sha256")):
            raise ConfigError(f"{path} was not begun from {start}; leave --from out to go on with it as it is")


def reopen(path: Path, generations: int | None, force: bool, config: Config | None = None) -> Opening:
    """Open a run file to go on with it; on rank 0. `config`: in place of the file's own."""
    with open_run(path) as run:
        if run.attributes.get("kind") == "sample":
            raise RunFileError(f"{path} holds a sample of offspring; there is nothing to go on with")
        config = _with_generations(config or run.config, generations, run)
        configs.check(config)
        if run.complete and run.generations == config.run.generations and not run.journal_records:
            return Opening(path, config, run.state_arrays(), {}, run.run_id)
        _rehearse(config)
    writer = RunWriter.resume(path, config, force)
    with open_run(path) as run:  # again, now that nobody else writes it
        return Opening(path, config, run.state_arrays(), run.partial(), run.run_id, writer)


def _rehearse(config: Config) -> None:
    """Let an objective that can be wrong in itself find out before the run file is touched."""
    # Not in `check`: sampling offspring of a trained mean needs no objective, and no torch for it.
    rehearse = getattr(config.objective, "rehearse", None)
    if rehearse:
        rehearse(config.population.size, config.task.behavior_dim)


def _with_generations(config: Config, generations: int | None, run: Run) -> Config:
    if generations is None:
        return config
    if generations < run.generations:
        raise ConfigError(
            f"--generations {generations}: {run.path} has {run.generations} already; expected at least that many"
        )
    return replace(config, run=msgspec.structs.replace(config.run, generations=generations))


def run_session(ranks: Ranks, find: Callable[[], Opening], say: Say, max_hours: float | None = None) -> None:
    """Train until the configured generation, on all ranks or those that are left; `find` is called on rank 0."""
    ranks.listen()
    if max_hours is not None:
        ranks.deadline = time.monotonic() + 3600 * max_hours
    kept = Kept()
    try:
        while True:
            try:
                return _sit(ranks, lambda: _find_again(kept, find), kept, say)
            except RanksLost as lost:
                kept.note(lost)
                who = ranks.recover()
                if ranks.first:
                    say(f"lost {who}: going on with what is left")
    finally:
        kept.close()


def _find_again(kept: Kept, find: Callable[[], Opening]) -> Opening:
    """Open the run file: as the command says at first, and as it has become once ranks were lost."""
    if kept.path and kept.begun():
        return reopen(kept.path, None, force=True, config=kept.config)  # whoever held it is known to be dead
    return find()


def _sit(ranks: Ranks, find: Callable[[], Opening], kept: Kept, say: Say) -> None:
    """Train until the end, or until ranks are lost."""
    opening: Opening | None = None
    try:
        with ranks.together():
            if ranks.first:
                opening = find()
        if not ranks.any(opening is not None and opening.finished):
            _run(ranks, opening, kept, say)
        with ranks.together():
            if opening:
                opening.close()
    except RanksLost:
        if opening:
            opening.let_go()
        raise
    except EesError:
        if opening:
            # The error at hand says more than a second one about the same disk; the journal keeps everything.
            with suppress(RunFileError):
                opening.close()
        raise
    if opening:
        say(f"{opening.path}: {opening.config.run.generations} generations, complete")


def _run(ranks: Ranks, opening: Opening | None, kept: Kept, say: Say) -> None:
    config, state, partial = _tell_everyone(ranks, opening, kept)
    fingerprint = machine.fingerprint(config.uses_torch)
    ranks.check_alike(fingerprint)  # the file is made after this: by then, all have been told which one it is
    job = kept.job(ranks, lambda: _open_job(config, ranks))
    ranks.watch(60 * config.run.stall_minutes)
    known = {**(job.remember(partial) if partial else {}), **job.pool(kept.done(state.generation))}
    with ranks.together():
        if opening:
            writer = opening.open()
            _greet(ranks, opening, len(known), fingerprint, say)
            writer.begin_session(state.generation, ranks.size, ranks.nodes, {**fingerprint, "mpi": ranks.library})
    if opening:
        with Progress(config, state.generation) as progress:

            def report(record: Record) -> None:
                warning = writer.take_warning() or config.population.warning(record.arrays["mean"])
                progress.update(record, warning)

            train(job, state, writer, report, known)
    else:
        train(job, state, None, known=known)


def _open_job(config: Config, ranks: Ranks) -> Any:
    if config.learns_tasks:
        from ees_mpi.maml.training import MamlJob  # and torch with it

        return MamlJob.open(config, ranks)
    return Job.open(config, ranks)


def _tell_everyone(ranks: Ranks, opening: Opening | None, kept: Kept) -> tuple[Config, State, dict[str, Any]]:
    """Give every rank the config and the state that rank 0 read: no other rank touches the file."""
    told = None
    if opening:
        told = {
            "path": str(opening.path),
            "run_id": opening.run_id,
            "config": opening.config.to_toml(),
            "state": opening.state,
            "arrays": opening.partial,
        }
    record = journal.tell_everyone(ranks, told)
    config = configs.parse(record["config"])
    kept.path, kept.run_id, kept.config = Path(record["path"]), record["run_id"], config
    return config, State.from_arrays(record["state"]), record["arrays"]


def _greet(ranks: Ranks, opening: Opening, known: int, fingerprint: dict[str, str], say: Say) -> None:
    """Say what runs where, and what the user should know about it."""
    config, path = opening.config, opening.path
    first = int(opening.state["generation"])
    where = f"{ranks.size} rank{'s' * (ranks.size > 1)} on {ranks.nodes} node{'s' * (ranks.nodes > 1)}"
    done = f", {known} rollouts of the first done already" if known else ""
    say(f"{path}: generations {first} to {config.run.generations} on {where}{done}")
    idle = ranks.size - config.population.size
    if idle > 0:
        say(
            f"warning: {idle} of {ranks.size} ranks have nothing to evaluate (ranks {config.population.size} to "
            f"{ranks.size - 1}): the population has {config.population.size} individuals"
        )
    with open_run(path) as run:
        sessions = run.sessions()
    if sessions:
        other = machine.differences(fingerprint, sessions[-1]["machine"])
        if other:
            say(f"warning: the file was written on another machine, so later bits may differ: {'; '.join(other)}")


def seeded(settings: Sequence[str], seed: int | None) -> list[str]:
    """Lay a --seed over the settings."""
    return [*settings, *([] if seed is None else [f"run.seed={seed}"])]


def portable_source(source: str, settings: Sequence[str]) -> bool:
    """Peek whether a preset or config file pins the CPU features."""
    try:
        return configs.wants_portable(configs.read_source(source), settings)
    except ConfigError:
        return False  # told later, by one rank


def portable_run(path: Path) -> bool:
    """Peek whether a run file was made with pinned CPU features."""
    try:
        with open_run(path) as run:
            return run.config.run.portable
    except RunFileError:
        return False  # told later, by one rank
