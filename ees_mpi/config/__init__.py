"""The typed config: from TOML to typed sections, with checks; presets and config files.

A config is TOML: a preset or a file. Sections `task` and `population` name a member of their family and hold its keys.
The sections other than `run` and `noise` belong to the method: `objective` and `optimizer` for evolution strategies
(`method = "ees"`, the default).
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ees_mpi import memory
from ees_mpi.config.changes import change, make_room
from ees_mpi.config.methods import METHODS, Evolution, Method
from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.metrics import Settings
from ees_mpi.registry import (
    Count,
    FromFile,
    Part,
    builtins,
    convert,
    flat,
    key,
    leaves,
    refusal,
    search,
    trusted,
    unknown,
)
from ees_mpi.registry.toml import Setting, copied, tables
from ees_mpi.strategy.populations import POPULATIONS
from ees_mpi.strategy.populations.base import Population
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.base import Task

__all__ = ["METHODS", "Evolution"]  # of its modules

PRESETS = Path(__file__).parents[1] / "presets"
# Of a config that is not trained with: that of a task in which a policy acts, and of a loop of the user.
BESIDE_TASK = {"population": {"name": "normal", "size": 1000, "std": 0.02}, "objective": {"name": "maxent"}}
CODE = ("function", "behavior", "policy", "env")  # the last words of keys that name code, as module:name
OBSERVED = 10  # rollouts of a generation that should feed the observation statistics, at least
# Keys that a resumed run may change: they do not change its bits.
FREE_ON_RESUME = frozenset(
    {"run.generations", "run.needs_start", "run.fsync", "run.fold_minutes", "run.stall_minutes", "task.device"}
)

MAX_INTEGER = 2**63 - 1
FEWEST_SLICES = 100  # noise vectors of the table of a new run
Seed = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]


class RunSettings(Part, frozen=True):
    """The number of generations, the random seed, and settings of the run file."""

    generations: Annotated[Count, key("The number of generations to train.", "generations")] = 100
    seed: Annotated[Seed, key("The random seed of the whole run.")] = 0
    needs_start: Annotated[bool, key("Whether the run needs `train --from`, a trained run to start from.")] = False
    evaluate_mean_every: Annotated[
        int, key("How often the unperturbed mean is evaluated, for the log; 0: never.", "generations", ge=0)
    ] = 10
    fsync: Annotated[bool, key("Whether every commit waits until the disk has it; else a power cut may lose it.")] = (
        True
    )
    fold_minutes: Annotated[float, key("The time between two folds of the journal.", "minutes", gt=0, le=1e7)] = 5.0
    stall_minutes: Annotated[
        float, key("A rank without progress for this time ends the job; 0: no limit.", "minutes", ge=0, le=1e7)
    ] = 30.0


class NoiseSettings(Part, frozen=True):
    """The table of random numbers from which individuals are made; each node holds one."""

    size: Annotated[Count, key("The length of the table: 4 bytes each, in the memory of each node.", "numbers")] = 2**25
    seed: Annotated[Seed | None, key("The random seed of the table; not set: the run's seed.")] = None

    def slices(self, parameters: int) -> int:
        """Return the number of different noise vectors of this length."""
        return self.size - parameters + 1

    def check_slices(self, parameters: int) -> None:
        """Raise a ConfigError if a new run would have so few noise vectors that its individuals are copies."""
        if self.slices(parameters) < FEWEST_SLICES:
            raise ConfigError(
                f"noise.size: expected at least {parameters + FEWEST_SLICES - 1}, for {FEWEST_SLICES} noise vectors of "
                f"{parameters} parameters; got {self.size}"
            )


@dataclass(frozen=True)
class Config:
    """A whole config, checked."""

    run: RunSettings
    noise: NoiseSettings
    task: Task
    population: Population
    method: Method
    notes: tuple[str, ...] = field(default=(), compare=False)  # on the changes by `--set`, for the user
    folders: tuple[str, ...] = field(default=(), compare=False)  # of its file, in which modules are searched, too
    written: frozenset[str] = field(default=frozenset(), compare=False)  # the keys that its source sets

    @property
    def task_name(self) -> str:
        return TASKS.name_of(self.task)

    @property
    def population_name(self) -> str:
        return POPULATIONS.name_of(self.population)

    @property
    def noise_seed(self) -> int:
        """The seed of the noise table, which several Strategies may share."""
        return self.run.seed if self.noise.seed is None else self.noise.seed

    def metric_settings(self, behavior_dim: int | None = None) -> Settings:
        """Return what metrics must know of a run; `behavior_dim`: that of a file, so that no task is opened."""
        task, method = self.task, self.method
        numbers = task.behavior_dim if behavior_dim is None else behavior_dim
        return Settings(
            behavior_dim=numbers,
            places=task.axes_of(numbers),
            starts=task.rollouts,
            common_starts=task.common_starts,
            components=self.population.components,
            tasks=not self.population.has_individuals,
            bandwidth=method.bandwidth,
            own=tuple(method.own_objectives),
            climbs=method.climbs,
            lengths=task.lengths,
        )

    def sections(self) -> dict[str, Any]:
        """Return the config as plain tables, with all defaults."""
        sections: dict[str, Any] = copied(
            {
                **({} if self.method.name == "ees" else {"method": self.method.name}),
                "run": builtins(self.run),
                "noise": {**builtins(self.noise), "seed": self.noise_seed},
                "task": TASKS.section(self.task),
                "population": POPULATIONS.section(self.population),
                **self.method.sections(),
            }
        )
        return sections

    def to_toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.sections())


def parse(
    text: str | Mapping[str, Any],
    settings: Sequence[Setting] = (),
    source: str = "config",
    trust: bool = False,
    stored: bool = False,
    task_alone: bool = False,
) -> Config:
    """Return the config of TOML text or of tables, changed by `settings`.

    stored: the text is from a file that ees_mpi wrote
    task_alone: sections that it does not have are those of `BESIDE_TASK`
    trust: the parts may run the code that such a file names; otherwise they raise a TrustError where they need it
    """
    sections = with_base(tables(text, (), source))
    if task_alone and "method" not in sections:
        sections = {**copied(BESIDE_TASK), **sections}
    if stored:
        sections = copied(sections, FromFile)
    notes = change(sections, settings)
    if trusted(trust):
        sections = copied(sections, str)
    keys = frozenset(dict(flat(sections)))
    for name, value in leaves(sections):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name}: expected a finite number, got {value}")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise ConfigError(f"{name}: expected an integer between -{MAX_INTEGER} and {MAX_INTEGER}")
        if isinstance(value, str) and value != value.encode(errors="replace").decode():
            raise ConfigError(f"{name}: expected UTF-8, got {value!a:.80}")
    name = sections.pop("method", "ees")
    if name not in [*METHODS]:  # it may be anything, also a list
        raise ConfigError(f"method: {unknown(str(name), METHODS)}")
    method = METHODS[name]
    known = ("run", "noise", "task", "population", *method.method_sections)
    for section in sections:
        if section not in known:
            other = any(section in kind.method_sections for kind in METHODS.values())
            hint = f'; method = "{name}" has no such section' if other else ""
            raise ConfigError(f"{section}: {unknown(section, known)}{hint}")
    defaults = [section for section, kind in method.method_sections.items() if getattr(kind, "default", "") is not None]
    sections = {**{section: {} for section in ("run", "noise", *defaults)}, **sections}
    if missing := [section for section in known if section not in sections]:
        example = "`ees-mpi docs config` begins with a small config, and `ees-mpi presets` lists whole ones"
        others = f", also {', '.join(f'[{section}]' for section in missing[1:])}" if missing[1:] else ""
        raise ConfigError(f"{source}: section [{missing[0]}] is missing{others}; {example}")
    task = TASKS.build(sections["task"])
    if getattr(task, "direction", 0.0) and task.heading is None and not stored:
        notes.append("task.direction has no effect: the fitness is the sum of rewards, unless task.fitness=behavior")
    return Config(
        run=convert(sections["run"], RunSettings, "run"),
        noise=convert(sections["noise"], NoiseSettings, "noise"),
        task=task,
        population=POPULATIONS.build(sections["population"]),
        method=method.build(sections),
        notes=tuple(notes),
        written=keys,
    )


def check_code(config: Config, sections: Sequence[str] = ()) -> None:
    """Raise a TrustError that lists the code which a file names, in some sections or in all, unless it may run."""
    code = {
        key: text
        for key, text in leaves(config.sections())
        if isinstance(text, FromFile) and ":" in text and key.rpartition(".")[2] in CODE
        if not sections or key.partition(".")[0] in sections
    }
    if code:
        raise refusal(code)


@before_rollouts()
def check(config: Config, here: bool = True) -> None:
    """Raise an error if the config cannot work, or not `here`: if its noise table does not fit in the memory."""
    check_code(config)
    config.task.check()
    config.population.check()
    config.method.check(config.task, config.population)
    least, size = config.task.parameters, config.noise.size
    if size < least:
        raise ConfigError(f"noise.size: expected at least the {least} parameters of an individual, got {size}")
    needs = rank_bytes(config)
    if here and config.population.has_individuals:
        needs["noise.size"] = 4 * config.noise.size
    room, why = memory.left()
    if sum(needs.values()) > room:
        key = max(needs, key=lambda key: needs[key])
        free = f"{room / 2**30:.3g} GiB are left: {why}"
        raise ConfigError(f"{key}: needs at least {needs[key] / 2**30:.3g} GiB of memory; {free}")


def rank_bytes(config: Config) -> dict[str, int]:
    """Return the bytes that every rank needs at least, by the keys of the config that they depend on."""
    numbers = 2 * (4 + config.task.behavior_dim) + 2  # of an individual: outcomes, here and gathered, and its draw
    state = 5 * config.population.components * config.task.parameters
    needs = {"population.size": 8 * numbers * config.population.size, "population.components": 8 * state}
    if config.task.rollouts > 1:
        by_start = 2 * config.population.size * config.task.behavior_dim * config.task.rollouts  # here and gathered
        needs["task.rollouts"] = 8 * by_start
    return needs


def preset_names() -> list[str]:
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def read_source(source: str) -> str:
    """Return the TOML text of a preset, by name, or of a file."""
    if source in preset_names():
        return (PRESETS / f"{source}.toml").read_text(encoding="utf-8")
    path = Path(source)
    if path.suffix == ".h5":
        raise ConfigError(
            f"{source}: expected a preset or a .toml file, got a run file. `ees-mpi resume RUN.h5` continues a run, "
            "--from RUN.h5 starts from its mean, `ees-mpi config RUN.h5` prints its config"
        )
    if path.suffix != ".toml":
        if (path.suffix or os.sep in source) and path.stem not in preset_names():
            raise ConfigError(f"{source}: expected a .toml file, or a preset; `ees-mpi presets` lists the presets")
        raise ConfigError(f"preset: {unknown(source, preset_names())} (or give the path of a .toml file)")
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"cannot read config {source}: it is not a plain file")
        search.also([os.path.dirname(os.path.abspath(source))])
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"cannot read config {source:.200}: {error.strerror}{_similar(path)}") from None
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot read config {source:.200}: {getattr(error, 'strerror', None) or error}") from None


def _similar(path: Path) -> str:
    """Return a question with the presets and the .toml files of a folder that have similar names; empty if none has."""
    import difflib

    names = {name: f"the preset {name}" for name in preset_names()}
    names |= {file.stem: str(file) for file in sorted(path.parent.glob("*.toml"))}
    near = [names[name] for name in difflib.get_close_matches(path.stem, names)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def with_base(sections: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a config on top of those of the preset that its key `base` names."""
    if "base" not in sections:
        return sections
    name = sections.pop("base")
    if name not in preset_names():
        raise ConfigError(f"base: {unknown(str(name), preset_names())}")
    base = with_base(tables(read_source(name), (), name))
    make_room(base, sections)
    for section, value in sections.items():
        both = isinstance(value, dict) and isinstance(base.get(section), dict)
        base[section] = {**base[section], **value} if both else value
    return base


Source = str | Mapping[str, Any] | Config  # a preset, by name, or a config file; tables; or a whole config


def written(source: Source) -> str | Mapping[str, Any]:
    """Return the TOML text or the tables of a source."""
    if isinstance(source, str):
        return read_source(source)
    return source.sections() if isinstance(source, Config) else source


def read(source: Source, settings: Sequence[Setting] = (), trust: bool = False, *, task_alone: bool = False) -> Config:
    """Return the config of a source as it is written; this runs no code of the user."""
    name = source if isinstance(source, str) else "config"
    config = parse(written(source), settings, name, trust, task_alone=task_alone)
    folders = source.folders if isinstance(source, Config) else ()
    if isinstance(source, str) and source.endswith(".toml"):
        folders = (os.path.dirname(os.path.abspath(source)),)
    return replace(config, folders=folders)


def load(source: Source, settings: Sequence[Setting] = (), trust: bool = False) -> Config:
    """Return the config of a new run with all that its file must hold."""
    return complete(read(source, settings, trust))


def complete(config: Config) -> Config:
    """Return a config with all that a run file must hold: see `Task.resolved` and `Task.observes_ten`."""
    task: Any = config.task.resolved()
    if task.observes_ten and "task.observation_share" not in config.written:
        task = msgspec.structs.replace(task, observation_share=max(task.observation_share, enough(config)))
    return with_rule_of_starts(replace(config, task=task))


def with_rule_of_starts(config: Config) -> Config:
    """Return a config that says by which rule several rollouts start."""
    if config.task.rollouts == 1 or config.task.starts is not None:
        return config
    task: Any = config.task
    return replace(config, task=msgspec.structs.replace(task, starts=task.rule_of_starts))


def enough(config: Config) -> float:
    """Return the share of rollouts of a generation that is about `OBSERVED` rollouts."""
    return min(1.0, math.ceil(1000 * OBSERVED / (config.population.size * config.method.rollouts)) / 1000)


def changed_keys(before: Config, after: Config) -> list[str]:
    """Return the keys in which two configs describe different runs, with both values."""
    old, new = dict(flat(before.sections())), dict(flat(after.sections()))
    keys, absent = sorted((old.keys() | new.keys()) - FREE_ON_RESUME), "(not set)"
    values = ((key, old.get(key, absent), new.get(key, absent)) for key in keys)
    return [f"{key} is {a!r:.80} in the file and {b!r:.80} now" for key, a, b in values if a != b]
