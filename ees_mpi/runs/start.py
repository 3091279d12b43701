"""Prepare a new run, or reopen an existing run file, on rank 0, before anything is trained."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.config import Config, Source
from ees_mpi.config.sweeps import file_name
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_folder, check_not_input
from ees_mpi.foreign import policy_fit
from ees_mpi.foreign.policy_files import PolicySource
from ees_mpi.generation.results import uses_torch
from ees_mpi.generation.state import State, first_state
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays
from ees_mpi.ranks import Ranks
from ees_mpi.registry.plugins import sources
from ees_mpi.registry.toml import Setting
from ees_mpi.run import writing
from ees_mpi.run.arrays import layout_of
from ees_mpi.run.file import Run, check_ours, is_study, open_run, starting_note, tell_missing
from ees_mpi.runs import starting_point
from ees_mpi.runs.starting_point import StartingPoint
from ees_mpi.store.writer import Writer, has_generations
from ees_mpi.terminal import say


@dataclass
class PreparedRun:
    """A run prepared by rank 0. An existing file is locked; a new one is created by `open()`."""

    path: Path  # absolute, because code of the user may change the present folder
    named: Path  # as the user wrote it
    config: Config
    state: Arrays
    sessions: list[dict[str, Any]] = field(default_factory=list)  # of an existing file
    writer: Writer | None = None
    create: Callable[[], Writer] | None = None

    @property
    def finished(self) -> bool:
        """True if all generations of the config are committed."""
        return int(self.state["generation"]) >= self.config.run.generations

    def open(self) -> Writer:
        """Return the writer; creates a new file, as the last step before training."""
        if self.writer is None and self.create is not None:
            self.writer = self.create()
        if self.writer is None:
            raise RunFileError(f"{self.path} was not opened")
        return self.writer

    def close(self, fold: bool = True) -> None:
        """Release the file; `fold`: fold its journal before."""
        writer, self.writer = self.writer, None
        if writer:
            writer.close() if fold else writer.release()


PrepareRun = Callable[[], PreparedRun]  # called on rank 0


@dataclass(frozen=True)
class RunToTrain:
    """The run that `train` was asked for: a new one, or with `resume` that of an existing file."""

    source: Source | Path  # a Path: a run file, whose config is taken
    settings: Sequence[Setting] = ()
    out: Path | None = None  # None: the source gives it a name
    start: PolicySource | None = None  # RUN.h5[@generation], or a policy (see `starting_point.load`), to start from
    resume: bool = False
    overwrite: bool = False
    force: bool = False
    trust: bool = False

    def prepare(self) -> PreparedRun:
        """Prepare the run, on rank 0."""
        folder = Path.cwd()
        config = load(self.source, self.settings, self.trust)
        named = self._path(config)
        path = folder / named
        check_folder(path)
        if self.start and ":" not in str(self.start):
            check_not_input(path, "--out", [starting_point.parse(str(self.start))[0]])
        if self.overwrite:
            check_ours(path)
        if path.exists() and not self.overwrite and not self.resume and has_generations(path):
            configs.check(config)
            check_ours(path)
            cure = "use --resume to continue it, --overwrite to start again, -o for another file"
            cure += " (in Python: resume=True, overwrite=True, out=...)"
            raise RunFileError(f"{named} exists already; {cure}")
        begin = starting_point.load(self.start, trust=self.trust) if self.start else None
        if begin and begin.foreign:
            config = policy_fit.fitted(config, begin.foreign)
        configs.check(config)
        if path.exists() and not self.overwrite and self.resume:
            try:
                return replace(reopen(path, config.run.generations, self.force, config, begin, self.trust), named=named)
            except ConfigError:  # perhaps the command was corrected after its first generation had failed
                if has_generations(path):
                    raise
        elif self.resume:
            config = replace(config, notes=(*config.notes, f"there is no {named} to resume: a new run begins"))
        return self._new(path, named, config, begin)

    def _path(self, config: Config) -> Path:
        if self.out or isinstance(self.source, Path):
            return self.out or self.source  # type: ignore[return-value]
        if not isinstance(self.source, str):
            raise ConfigError("out: expected the name of the run file; only a preset or a file gives it a name")
        return Path(file_name(self.source, config.run.seed))

    def _new(self, path: Path, named: Path, config: Config, begin: StartingPoint | None) -> PreparedRun:
        """Prepare a new run."""
        if config.run.needs_start and not begin:
            name = self.source if isinstance(self.source, (str, Path)) else "config"
            raise ConfigError(f"{name}: its means come from a trained run; expected --from RUN.h5 (run.needs_start)")
        config.method.try_out(config.task, config.population)
        state, note = first_state(config), ""
        if begin:
            state, note = starting_point.first_state_from(begin, str(self.start), config)
            if changed := starting_point.code_change(begin, config):
                changed += ". This run trains with the code as it is now"
                config = replace(config, notes=(*config.notes, changed))
        first = state.arrays()
        create = partial(writing.create, path, config, first, self.overwrite, self.force, started_from=note)
        return PreparedRun(path, named, config, first, create=create)


def load(source: Source | Path, settings: Sequence[Setting], trust: bool = False) -> Config:
    """Return the config of a source, or of a run file or an exported policy (a Path), changed by `settings`."""
    if not isinstance(source, Path):
        return configs.load(source, settings, trust)
    if source.suffix == ".npz":
        text = starting_point.read_policy(source).config
        return configs.parse(text, settings, f"the config in {source}", trust, stored=True)
    with open_run(source) as run:
        return configs.parse(run.config.sections(), settings, f"the config in {source}", trust, stored=True)


def stall_minutes(source: Source | Path, settings: Sequence[Setting] = ()) -> float:
    """Return the time limit of a source, or of a run file (a Path); this runs no code of the user."""
    if not isinstance(source, Path):
        return configs.read(source, settings).run.stall_minutes
    with open_run(source, allow_damaged_journal=True) as run:
        return configs.parse(run.config.sections(), settings, stored=True).run.stall_minutes


def reopen(
    path: Path,
    generations: int | None,
    force: bool,
    config: Config | None = None,
    start: StartingPoint | None = None,
    trust: bool = False,
) -> PreparedRun:
    """Open a run file to continue it; it is read once before and once after it is locked.

    config: replaces that of the file, and must describe the same run
    start: of the option `--from`; the file must have begun from it
    """
    named, path = path, path.absolute()
    with open_run(path, trust, allow_damaged_journal=True) as run:
        if is_study(run):
            raise RunFileError(f"{path} holds a sample of mutations; a sample cannot be resumed")
        run.check_last()
        run.check_noise(Noise(run.attributes["noise_seed"], run.attributes["noise_size"]))
        key = "--generations" if config is None else "run.generations ="
        if config is not None:
            _check_same_run(run, config, start)
        config = config or run.config
        if generations is not None:
            if generations < run.generations:
                have = f"{path} has {run.generations} already"
                raise ConfigError(f"{key} {generations}: {have}; expected at least that many")
            config = replace(config, run=msgspec.structs.replace(config.run, generations=generations))
        configs.check(config)
        if run.complete and run.generations == config.run.generations and not run.journal_records:
            tell_missing(run)
            return PreparedRun(path, named, config, run.state_arrays())
        config.method.try_out(config.task, config.population)
        _check_same_sizes(run, config)
    writer = writing.resume(path, config, force)
    sessions = [{**session, "machine": json.loads(session["machine"])} for session in writer.sessions]
    return PreparedRun(path, named, config, writer.state, sessions, writer)


def begin_session(
    writer: Writer, config: Config, generation: int, before: Sequence[Mapping[str, Any]], ranks: Ranks, **device: str
) -> None:
    """Note a session in a run file; print warnings of what has changed since the last session.

    generation: the next one; before: the earlier sessions
    """
    here, code = {**machine.fingerprint(uses_torch(config)), "mpi": ranks.library, **device}, sources(config.to_toml())
    here["commit"] = machine.commit()
    if before:
        there, since = before[-1]["machine"], f"generation {max(generation - 1, 0)}"
        if changed := machine.code_change(machine.own_code(code), machine.own_code(there), since):
            now = "The run goes on with the code as it is now, so this is another experiment from here on"
            say(f"warning: {changed}. {now}")
        if other := machine.differences(here, there):
            say(f"warning: something has changed since the last session, so later bits may differ: {'; '.join(other)}")
    writing.begin_session(writer, config, ranks.size, ranks.nodes, {**here, **code})


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


def _check_same_run(run: Run, config: Config, start: StartingPoint | None) -> None:
    """Raise a ConfigError if a file was begun with another config or from another run."""
    changed = configs.changed_keys(run.config, config)
    if changed:
        raise ConfigError(f"{run.path} was begun with another config: {'; '.join(changed)}")
    if start:
        begun_from, wanted = starting_note(run), start.about
        if any(begun_from.get(key) != wanted[key] for key in ("run_id", "state_sha256")):
            raise ConfigError(f"{run.path} was not begun from {wanted['path']}; leave out --from to continue it")
