"""Prepare a new run, or reopen an existing run file, on rank 0, before anything is trained."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.config import Config, Source
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.generation import State
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry.plugins import sources
from ees_mpi.registry.toml import Setting
from ees_mpi.run import writing
from ees_mpi.run.arrays import layout_of
from ees_mpi.run.file import Run, is_study, open_run, starting_note, tell_missing
from ees_mpi.run.parts import first_state, uses_torch
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

    @property
    def finished(self) -> bool:
        """True if all generations of the config are committed."""
        return self.state.generation >= self.config.run.generations

    def begin(self, ranks: Ranks, described: Mapping[str, str]) -> Writer:
        """Create a new file, as the last step before training; note the session in it, and return its writer.

        Print warnings of what has changed since the last session. `described`: the device
        """
        config, generation = self.config, self.state.generation
        if self.writer is None:
            first, how = self.state.arrays(), (self.overwrite, self.force)
            self.writer = writing.create(self.path, config, first, *how, started_from=self.started_from)
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
        writing.begin_session(self.writer, config, ranks.size, ranks.nodes, {**here, **code})
        return self.writer

    def close(self, fold: bool = True) -> None:
        """Release the file; `fold`: fold its journal before."""
        writer, self.writer = self.writer, None
        if writer:
            writer.close() if fold else writer.release()


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


def resumed(path: Path, generations: int | None, force: bool, trust: bool, config: Config) -> Prepared:
    """Open a run file to continue it with its own config, which is read again and checked with the file."""
    return reopen(path, generations, force, trust=trust)


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
    writer = writing.resume(path, config, force)
    sessions = [{**session, "machine": json.loads(session["machine"])} for session in writer.sessions]
    return Prepared(path, named, config, State.from_arrays(writer.state), sessions, writer)


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
