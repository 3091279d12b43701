"""One sitting of a run: bring up the ranks, open or make the run file, train, close."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, EesError, RanksLost, RunFileError
from ees_mpi.kept import Kept
from ees_mpi.opening import Opening, reopen
from ees_mpi.progress import Progress
from ees_mpi.ranks import Ranks
from ees_mpi.state import State
from ees_mpi.store import journal
from ees_mpi.store.reader import open_run
from ees_mpi.training import Job, Record, train

Say = Callable[[str], None]


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
    known = {**(job.remember(partial) if partial else {}), **job.pool(kept.done(state.generation))}
    partial.clear()  # MAML's may be large
    with ranks.watching(60 * config.run.stall_minutes):
        _train(job, state, opening, known, fingerprint, say)


def _train(
    job: Any, state: State, opening: Opening | None, known: dict[int, Any], fingerprint: dict[str, str], say: Say
) -> None:
    config, ranks = job.config, job.ranks
    with ranks.together():
        if opening:
            writer = opening.open()
            _greet(ranks, opening, len(known), fingerprint, say)
            writer.begin_session(state.generation, ranks.size, ranks.nodes, {**fingerprint, "mpi": ranks.library})
    if opening:
        with Progress(config, state.generation) as progress:

            def report(record: Record) -> None:
                progress.update(record, writer.take_warning() or _warning(config, record))

            train(job, state, writer, report, known)
    else:
        train(job, state, None, known=known)


def _warning(config: Config, record: Record) -> str | None:
    """Say what is wrong with a generation, without being an error."""
    found: str | None = config.population.warning(record.arrays["mean"])
    if config.learns_tasks:
        return found or config.objective.warning(record.arrays)
    return found


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
    if opening:
        opening.partial = {}
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
