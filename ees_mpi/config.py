"""The typed config of a run: its keys, their defaults, their checks.

A config is TOML: a preset or a file. Sections `task` and `population` name a member of their family and hold its keys;
`run` and `noise` are defined here. The other sections belong to the method: `objective` and `optimizer` for evolution
strategies (`method = "ees"`, the default).
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import tomli_w

from ees_mpi.contracts import Method, Objective, Optimizer, Population, Task
from ees_mpi.errors import ConfigError
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.optimizers import OPTIMIZERS
from ees_mpi.outcomes import Arrays
from ees_mpi.populations import POPULATIONS
from ees_mpi.registry import Hooks, Part, check_trust, convert, loaded, note_code, tables, texts, unknown
from ees_mpi.tasks import TASKS

METHODS = {"ees": "ees_mpi.config:Evolution", "maml": "ees_mpi.maml.settings:Maml"}

# Keys that a resumed run may change: they do not change its bits.
FREE_ON_RESUME = frozenset(
    {"run.generations", "run.needs_start", "run.fsync", "run.fold_minutes", "run.stall_minutes", "task.device"}
)

LARGEST = 2**63 - 1
Seed = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class RunSettings(Part, frozen=True):
    """Section `run`: the number of generations, the random seed, and settings of the run file."""

    generations: Count
    seed: Seed = 0
    needs_start: bool = False  # True: only with `train --from`
    evaluate_mean_every: Annotated[int, msgspec.Meta(ge=0)] = 10  # generations; 0: never
    portable: bool = False  # same bits on every CPU with AVX2, at some cost in speed
    fsync: bool = True  # wait for the disk at every commit
    fold_minutes: Annotated[float, msgspec.Meta(gt=0, le=1e7)] = 5.0  # between two folds of the journal
    stall_minutes: Annotated[float, msgspec.Meta(ge=0, le=1e7)] = 30.0  # without progress of a rank; 0: no limit


class NoiseSettings(Part, frozen=True):
    """Section `noise`: the noise table."""

    size: Count  # floats; one table per node
    seed: Seed | None = None  # the run's seed if not given


@dataclass(frozen=True)
class Evolution:
    """The method of evolution strategies: an objective gives weights, an optimizer takes the step."""

    objective: Objective
    optimizer: Optimizer

    name: ClassVar[str] = "ees"
    sections_needed: ClassVar[tuple[str, ...]] = ("objective", "optimizer")
    inherited: ClassVar[tuple[str, ...]] = ()
    rollouts: ClassVar[int] = 1  # of one individual
    hooks: ClassVar[Hooks] = Hooks(
        job="ees_mpi.training:EvolutionJob",
        repeat="ees_mpi.commands.verify:EvolutionRepeater",
        adapt="ees_mpi.commands.adapt:by_mutation",
        costs="ees_mpi.commands.plan:evolution_costs",
    )

    @classmethod
    def build(cls, sections: Mapping[str, Any]) -> "Evolution":
        """Read the sections of the method."""
        return cls(OBJECTIVES.build(sections["objective"]), OPTIMIZERS.build(sections["optimizer"]))

    def sections(self) -> dict[str, Any]:
        """Return the sections of the method as plain tables."""
        return {"objective": OBJECTIVES.section(self.objective), "optimizer": OPTIMIZERS.section(self.optimizer)}

    @property
    def algorithm(self) -> str:
        """The name of the objective."""
        return OBJECTIVES.name_of(self.objective)

    @property
    def headline(self) -> str:
        """The metric that progress lines show."""
        return self.objective.headline

    @property
    def bandwidth(self) -> float:
        """The bandwidth of the logged entropy: that of the objective, or 1."""
        return self.objective.bandwidth or 1.0

    @property
    def uses_torch(self) -> bool:
        """True if the bits depend on torch."""
        return self.objective.uses_torch

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if the parts cannot work together."""
        self.objective.check()
        self.optimizer.check()
        if population.rows != "individual":
            name = POPULATIONS.name_of(population)
            raise ConfigError(f'population.name: "{name}" belongs to another method; use normal, mixture, diagonal')

    def rehearse(self, task: Task, population: Population) -> None:
        """Compute the objective on random outcomes, so that a faulty one is found before the first rollout."""
        self.objective.rehearse(population.size, task.behavior_dim)

    def moments(self, task: Task, learned: Arrays) -> Arrays:
        """Return the moments of the optimizer before the first step."""
        return self.optimizer.start(learned)

    def file_axes(self, task: Task, population: Population) -> dict[str, int]:
        """Return no further axes of the run file."""
        return {}

    def warning(self, arrays: Arrays) -> str | None:
        """Return no warning."""
        return None


@dataclass(frozen=True)
class Config:
    """A whole config, checked."""

    run: RunSettings
    noise: NoiseSettings
    task: Task
    population: Population
    method: Method

    @property
    def noise_seed(self) -> int:
        """The seed of the noise table."""
        return self.run.seed if self.noise.seed is None else self.noise.seed

    @property
    def task_name(self) -> str:
        """The registered name of the task."""
        return TASKS.name_of(self.task)

    @property
    def population_name(self) -> str:
        """The registered name of the population."""
        return POPULATIONS.name_of(self.population)

    def sections(self) -> dict[str, Any]:
        """Return the config as plain tables, with all defaults."""
        return {
            **({} if self.method.name == "ees" else {"method": self.method.name}),
            "run": msgspec.to_builtins(self.run),
            "noise": {**msgspec.to_builtins(self.noise), "seed": self.noise_seed},
            "task": TASKS.section(self.task),
            "population": POPULATIONS.section(self.population),
            **self.method.sections(),
        }

    def to_toml(self) -> str:
        """Return the whole config as TOML text."""
        return tomli_w.dumps(self.sections())


def parse(text: str, settings: Sequence[str] = (), source: str = "config", trusted: bool = False) -> Config:
    """Return the config of TOML text, changed by `settings`; `trusted`: the code that it names may run."""
    sections = tables(text, settings, source)
    note_code(sections, trusted)
    for key, value in _flat(sections):
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float) and not math.isfinite(number):
                raise ConfigError(f"{key}: expected a finite number, got {number}")
            if isinstance(number, int) and abs(number) > LARGEST:
                raise ConfigError(f"{key}: expected an integer between -{LARGEST} and {LARGEST}")
    name = sections.pop("method", "ees")
    if not isinstance(name, str) or name not in METHODS:
        raise ConfigError(f"method: {unknown(str(name), METHODS)}")
    method = loaded(METHODS[name])
    known = ("run", "noise", "task", "population", *method.sections_needed)
    for section in sections:
        if section not in known:
            other = any(section in loaded(path).sections_needed for path in METHODS.values())
            hint = f'; method = "{name}" has no such section' if other else ""
            raise ConfigError(f"{section}: {unknown(section, known)}{hint}")
    if missing := [section for section in known if section not in sections]:
        raise ConfigError(f"{source}: section [{missing[0]}] is missing")
    return Config(
        run=convert(sections["run"], RunSettings, "run"),
        noise=convert(sections["noise"], NoiseSettings, "noise"),
        task=TASKS.build(sections["task"]),
        population=POPULATIONS.build(sections["population"]),
        method=method.build(sections),
    )


def check(config: Config, here: bool = True) -> None:
    """Raise an error if the config cannot work, or not `here`: if its noise table does not fit in the memory."""
    for key, text in texts(config.sections()):
        check_trust(text, key)
    config.task.check()
    config.population.check()
    config.method.check(config.task, config.population)
    least, size = config.task.parameters, config.noise.size
    if size < least:
        raise ConfigError(f"noise.size: expected at least the {least} parameters of an individual, got {size}")
    _check_memory(config, here)


def _check_memory(config: Config, here: bool) -> None:
    """Raise a ConfigError if arrays that every rank needs exceed the memory: the kernel would kill the rank later."""
    numbers = 2 * (4 + config.task.behavior_dim) + 2  # of an individual: outcomes, here and gathered, and its draw
    state = 5 * config.population.components * config.task.parameters
    needs = {"population.size": 8 * numbers * config.population.size, "population.components": 8 * state}
    if here:
        needs["noise.size"] = 4 * config.noise.size
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for key, need in needs.items():
        if need > memory:
            raise ConfigError(
                f"{key}: needs at least {need / 2**30:.3g} GiB of memory; this machine has {memory / 2**30:.3g} GiB"
            )


def preset_names() -> list[str]:
    """Return the names of all presets."""
    files = (resources.files("ees_mpi") / "presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def read_source(source: str) -> str:
    """Return the TOML text of a preset, by name, or of a file."""
    if source in preset_names():
        return (resources.files("ees_mpi") / "presets" / f"{source}.toml").read_text(encoding="utf-8")
    path = Path(source)
    if path.suffix != ".toml":
        raise ConfigError(f"preset: {unknown(source, preset_names())} (or give the path of a .toml file)")
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"cannot read config {source}: it is not a plain file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read config {source}: {error}") from None


def load(source: str, settings: Sequence[str] = ()) -> Config:
    """Return the config of a preset or a config file, with the contents of the files that its task names."""
    config = parse(read_source(source), settings, source, trusted=True)
    return replace(config, task=config.task.resolved())


def wants_portable(text: str, settings: Sequence[str] = ()) -> bool:
    """Return True if `run.portable` is set; no other key is checked."""
    try:
        return tables(text, settings, "config").get("run", {}).get("portable") is True
    except (ConfigError, AttributeError):
        return False


def changed_keys(before: Config, after: Config) -> list[str]:
    """Return the keys in which two configs describe different runs, with both values."""
    old, new = dict(_flat(before.sections())), dict(_flat(after.sections()))
    keys, absent = sorted((old.keys() | new.keys()) - FREE_ON_RESUME), "(not set)"
    values = ((key, old.get(key, absent), new.get(key, absent)) for key in keys)
    return [f"{key} is {a!r:.80} in the file and {b!r:.80} now" for key, a, b in values if a != b]


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
