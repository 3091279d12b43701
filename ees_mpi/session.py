"""One sitting of a run: open or make the run file, bring up the ranks, train, close."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine, origin
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, EesError, RunFileError
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Outcome, unpack_each
from ees_mpi.progress import Progress
from ees_mpi.ranks import Ranks
from ees_mpi.store import journal
from ees_mpi.store.reader import Run, open_run
from ees_mpi.store.writer import RunWriter, check_folder, exists
from ees_mpi.training import Job, Record, State, first_state, train

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


@dataclass(frozen=True)
class Begun:
    """A run file ready to be trained into, as rank 0 opened it."""

    writer: RunWriter
    config: Config
    state: dict[str, Any]
    partial: dict[str, Any]  # outcomes of the next generation from before an interruption


def begin(request: Request) -> Begun:
    """Open or make the run file of a `train` command; on rank 0."""
    config = request.config()
    path = request.path(config)
    check_folder(path)
    if path.exists() and not request.overwrite:
        if not request.resume:
            raise exists(path)
        with open_run(path) as run:
            changed = configs.changed_keys(run.config, config)
            if changed:
                raise ConfigError(f"{path} was begun with another config: {'; '.join(changed)}")
        return reopen(path, config.run.generations, request.force, config)
    _rehearse(config)
    state, note = origin.first_state_from(request.start, config) if request.start else (first_state(config), "")
    arrays = state.arrays()
    writer = RunWriter.create(path, config, arrays, request.overwrite, request.force, started_from=note)
    return Begun(writer, config, arrays, {})


def reopen(path: Path, generations: int | None, force: bool, config: Config | None = None) -> Begun:
    """Open a run file to go on with it; on rank 0. `config`: in place of the file's own."""
    with open_run(path) as run:
        if run.attributes.get("kind") == "sample":
            raise RunFileError(f"{path} holds a sample of offspring; there is nothing to go on with")
        config = _with_generations(config or run.config, generations, run)
        configs.check(config)
        _rehearse(config)
    writer = RunWriter.resume(path, config, force)
    with open_run(path) as run:  # again, now that nobody else writes it
        return Begun(writer, config, run.state_arrays(), run.partial())


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
    return replace(config, run=_replaced(config.run, generations=generations))


def _replaced(part: Any, **changes: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(part, **changes)


def run_session(ranks: Ranks, opening: Callable[[], Begun], say: Say, max_hours: float | None = None) -> None:
    """Train until the configured generation, on all ranks; `opening` is called on rank 0."""
    if max_hours is not None and ranks.first:  # the others hear of it from rank 0
        ranks.deadline = time.monotonic() + 3600 * max_hours
    begun: Begun | None = None
    with ranks.together():
        if ranks.first:
            begun = opening()
    try:
        _run(ranks, begun, say)
    except EesError:
        if begun:
            # The error at hand says more than a second one about the same disk; the journal keeps everything.
            with suppress(RunFileError):
                begun.writer.close()
        raise
    with ranks.together():
        if begun:
            begun.writer.close()
    if begun:
        say(f"{begun.writer.path}: {begun.config.run.generations} generations, complete")


def _run(ranks: Ranks, begun: Begun | None, say: Say) -> None:
    config, state, known = _tell_everyone(ranks, begun)
    fingerprint = machine.fingerprint()
    ranks.check_alike(fingerprint)
    with ranks.together():
        evaluator = config.task.open(config.run.seed)
    job = Job(config, evaluator, NoiseTable(config.noise_seed, config.noise.size, ranks), ranks)
    if begun:
        _greet(ranks, begun, fingerprint, say)
    with ranks.together():
        if begun:
            begun.writer.begin_session(state.generation, ranks.size, ranks.nodes, fingerprint)
    ranks.listen()
    try:
        if begun:
            with Progress(config, state.generation) as progress:

                def report(record: Record) -> None:
                    warning = begun.writer.take_warning() or config.population.warning(record.arrays["mean"])
                    progress.update(record, warning)

                train(job, state, begun.writer, report, known)
        else:
            train(job, state, None, known=known)
    finally:
        evaluator.close()


def _tell_everyone(ranks: Ranks, begun: Begun | None) -> tuple[Config, State, dict[int, Outcome]]:
    """Give every rank the config and the state that rank 0 read: no other rank touches the file."""
    parcel = None
    if begun:
        parcel = journal.encode({"config": begun.config.to_toml(), "state": begun.state, "arrays": begun.partial})
    record = journal.decode(ranks.from_first(parcel)[journal.HEAD.size :])
    partial = record["arrays"]
    known = unpack_each(partial["rows"], partial["observations"]) if partial else {}
    return configs.parse(record["config"]), State.from_arrays(record["state"]), known


def _greet(ranks: Ranks, begun: Begun, fingerprint: dict[str, str], say: Say) -> None:
    """Say what runs where, and what the user should know about it."""
    config, path = begun.config, begun.writer.path
    first = int(begun.state["generation"])
    where = f"{ranks.size} rank{'s' * (ranks.size > 1)} on {ranks.nodes} node{'s' * (ranks.nodes > 1)}"
    done = f", {len(begun.partial['rows'])} rollouts of the first done already" if begun.partial else ""
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


def digest_of(run: Run) -> str:
    """Return the digest of the state after the last committed generation."""
    return State.from_arrays(run.state_arrays()).digest().hex()


def summarize(run: Run) -> dict[str, Any]:
    """Return what `info` tells of a run file."""
    from ees_mpi.config import FAMILIES

    config = run.config
    sessions = run.sessions()
    lengths = run["length"]
    steps = sum(int(np.asarray(lengths[g]).sum()) for g in range(run.generations))
    return {
        "format_version": int(run.attributes["format_version"]),
        "kind": str(run.attributes.get("kind", "run")),
        "task": FAMILIES["task"].name_of(config.task),
        "objective": FAMILIES["objective"].name_of(config.objective),
        "population": FAMILIES["population"].name_of(config.population),
        "population_size": config.population.size,
        "parameters": run["mean"].shape[2],
        "generations": run.generations,
        "generations_wanted": config.run.generations,
        "complete": run.complete,
        "seed": config.run.seed,
        "state_sha256": digest_of(run),
        "ranks": int(sessions[-1]["ranks"]) if sessions else 0,
        "nodes": int(sessions[-1]["nodes"]) if sessions else 0,
        "sessions": len(sessions),
        "evaluations": run.generations * config.population.size,
        "steps": steps,
        "started_from": json.loads(run.attributes["started_from"] or "null"),
    }
