"""Prepare a new run, or reopen an existing run file, on rank 0; what is noted in the file of a run."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.arrays import Arrays
from ees_mpi.config import Config, Source
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.generation import State
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry.search import sources
from ees_mpi.registry.toml import Setting
from ees_mpi.run.arrays import layout_of
from ees_mpi.run.file import Run, is_study, open_run, starting_note, tell_missing
from ees_mpi.run.parts import first_state, uses_torch
from ees_mpi.store import writer
from ees_mpi.store.writer import Writer
from ees_mpi.terminal import say


@dataclass
class Prepared:
    """A run that rank 0 has prepared. An existing file is locked; a new one is created by `begin`."""

    path: Path  # absolute, because code of the user may change the present folder
    named: Path  # as the user wrote it
    config: Config
    state: State
    sessions: list[dict[str, Any]] = field(default_factory=list)  # of an existing file
    writer: Writer | None = None
    is_new: bool = False
    overwrite: bool = False  # of a new file
    force: bool = False
    started_from: str = ""  # JSON on the run or policy that a new one starts from

    def for_all(self) -> tuple[Path, Config, State, bool]:
        """Return what all ranks must know: the file, the config, the first state, and whether the run is new."""
        return self.path, self.config, self.state, self.is_new

    def begin(self, ranks: Ranks, described: Mapping[str, str]) -> Writer:
        """Create a new file, as the last step before training; note the session in it, and return its writer.

        Print warnings of what has changed since the last session. `described`: the device
        """
        config, generation = self.config, self.state.generation
        if self.writer is None:
            first, how = self.state.arrays(), (self.overwrite, self.force)
            self.writer = create(self.path, config, first, *how, started_from=self.started_from)
        code, here = sources(config.to_toml()), {**machine.fingerprint(uses_torch(config)), "mpi": ranks.library}
        here |= {**described, "commit": machine.commit()}
        if self.sessions:
            there, since = self.sessions[-1]["machine"], f"generation {max(generation - 1, 0)}"
            if changed := machine.code_change(machine.own_code(code), machine.own_code(there), since):
                now = "The run goes on with the code as it is now, so this is another experiment from here on"
                say(f"warning: {changed}. {now}")
            if other := machine.differences(here, there):
                words = "something has changed since the last session, so later bits may differ"
                say(f"warning: {words}: {'; '.join(other)}")
        begin_session(self.writer, config, ranks, {**here, **code})
        return self.writer

    def close(self, fold: bool = True) -> None:
        """Release the file; `fold`: fold its journal before."""
        file, self.writer = self.writer, None
        if file:
            file.close() if fold else file.release()


def read(source: Source | Path, settings: Sequence[Setting] = (), trust: bool = False) -> Config:
    """Return the config of a source, or of a run file or an exported policy (a Path), as it is written.

    This runs no code of the user; `configs.complete` does.
    """
    if not isinstance(source, Path):
        return configs.read(source, settings, trust)
    if source.suffix == ".npz":
        from ees_mpi.run import starting_point  # imports readers of other programs' policies

        text = starting_point.read_policy(source).config
        return configs.parse(text, settings, f"the config in {source}", trust, stored=True)
    with open_run(source, allow_damaged_journal=True) as run:
        return configs.parse(run.config.sections(), settings, f"the config in {source}", trust, stored=True)


def load(source: Source | Path, settings: Sequence[Setting], trust: bool = False) -> Config:
    """Return the whole config of a source, or of a run file or an exported policy (a Path)."""
    return whole(source, read(source, settings, trust))


def whole(source: Source | Path, config: Config) -> Config:
    """Return a config with all that a run file must hold; that of a file has it."""
    return config if isinstance(source, Path) else configs.complete(config)


def reopen(
    path: Path,
    generations: int | None,
    force: bool,
    config: Config | None = None,
    begun_from: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> Prepared:
    """Open a run file to continue it, on rank 0; it is read once before and once after it is locked.

    config: replaces that of the file, and must describe the same run
    begun_from: the notes on the run or policy of the option `--from`; the file must have begun from it
    """
    named, path = path, path.absolute()
    with open_run(path, trust, allow_damaged_journal=True) as run:
        if is_study(run):
            raise RunFileError(f"{path} holds a sample of mutations; a sample cannot be resumed")
        run.check_last()
        run.check_noise(Noise(run.attributes["noise_seed"], run.attributes["noise_size"]))
        key = "--generations" if config is None else "run.generations ="
        if config is not None:
            _check_same_run(run, config, begun_from)
        config = config or run.config
        if generations is not None:
            if generations < run.generations:
                have = f"{path} has {run.generations} already"
                raise ConfigError(f"{key} {generations}: {have}; expected at least that many")
            config = replace(config, run=msgspec.structs.replace(config.run, generations=generations))
        configs.check(config)
        if run.complete and run.generations == config.run.generations and not run.journal_records:
            tell_missing(run)
            return Prepared(path, named, config, State.from_arrays(run.state_arrays()))
        config.method.try_out(config.task, config.population)
        _check_same_sizes(run, config)
    file = writer.resume(path, config.run.fsync, config.run.fold_minutes, force)
    sessions = [{**session, "machine": json.loads(session["machine"])} for session in file.sessions]
    return Prepared(path, named, config, State.from_arrays(file.state), sessions, file)


def _check_same_sizes(run: Run, config: Config) -> None:
    """Raise a ConfigError if the user's code has changed so that arrays of a generation do not fit into the file."""
    layout = layout_of(config)
    shapes = {array.name: layout.shape(array) for array in layout.arrays if array.name in run}
    stored = {name: run[name].shape[1:] for name in shapes}
    state = State.from_arrays(run.state_arrays())
    if config.task.in_program:  # only the program knows the first mean
        first = replace(state, moments=config.method.moments(config.task, state.learned))
    else:
        first = first_state(config)
    shapes |= {name: array.shape for name, array in first.arrays().items()}
    stored |= {name: array.shape for name, array in state.arrays().items()}
    for name in sorted({*shapes, *stored}):
        there, here = stored.get(name, "none"), shapes.get(name, "none")
        if there != here and not name.startswith("memory/"):  # its shape changes with the generations
            changed = f"`{name}` has the shape {there} in {run.path} and {here} here"
            raise ConfigError(f"{changed}; expected the code that began this run. For other code begin another file")


def _check_same_run(run: Run, config: Config, wanted: Mapping[str, Any] | None) -> None:
    """Raise a ConfigError if a file was begun with another config or from another run."""
    changed = configs.changed_keys(run.config, config)
    if changed:
        raise ConfigError(f"{run.path} was begun with another config: {'; '.join(changed)}")
    if wanted:
        begun_from = starting_note(run)
        if any(begun_from.get(key) != wanted[key] for key in ("run_id", "state_sha256")):
            raise ConfigError(f"{run.path} was not begun from {wanted['path']}; leave out --from to continue it")


def create(
    path: Path,
    config: Config,
    state: Arrays,
    overwrite: bool = False,
    force: bool = False,
    kind: str = "run",
    started_from: str = "",
) -> Writer:
    """Create a new file.

    kind: run or study; started_from: JSON about the run that the means come from
    """
    noise, layout = Noise(config.noise_seed, config.noise.size), layout_of(config)
    learned = {name: array.shape for name, array in State.from_arrays(state).learned.items()}
    attributes = {
        "program": machine.PROGRAM,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **_of_config(config),
        "seed": config.run.seed,
        "noise_seed": noise.seed,
        "noise_size": noise.size,
        "noise_digest": noise.digest(),
        "learned": json.dumps(learned),
        "metrics": json.dumps(asdict(config.metric_settings(layout.sizes["behavior_dim"]))),
        "kind": kind,
        "started_from": started_from,
    }
    return writer.create(
        path,
        layout.arrays,
        layout.sizes,
        attributes,
        state,
        after="state_sha256",
        clock="seconds_clock",
        fsync=config.run.fsync and kind == "run",  # a study is in place when it is complete
        fold_minutes=config.run.fold_minutes,
        overwrite=overwrite,
        force=force,
    )


def begin_session(file: Writer, config: Config, ranks: Ranks, here: Mapping[str, str], **more: Any) -> None:
    """Note the ranks, the machine and the config that write from now on; `more`: an earlier start, for example."""
    note_config(file, config)
    values = {
        "ranks": ranks.size,
        "nodes": ranks.nodes,
        "host": os.uname().nodename,
        "machine": json.dumps(here),
        "config": config.to_toml(),
    }
    file.begin_session({**values, **more})


def note_config(file: Writer, config: Config) -> None:
    """Change the config in the file, if it is another one: for example after a loop whose length was not known."""
    if file.attributes["config"] != config.to_toml():
        file.change(_of_config(config))


def _of_config(config: Config) -> dict[str, Any]:
    return {"config": config.to_toml(), "until": config.run.generations}
