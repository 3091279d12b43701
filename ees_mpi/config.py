"""The typed config of a run: what can be set, its defaults, its checks.

A config is TOML: a preset by name or a file. Sections `task`, `population`, `objective` and `optimizer` name a
member of their family and hold that member's own keys; `run` and `noise` are described here. With `method = "maml"`
section `maml` stands in the place of `objective` and `optimizer`.
"""

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomli_w

from ees_mpi.errors import ConfigError
from ees_mpi.maml.settings import Maml, check_task
from ees_mpi.maml.tasks import Tasks
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.optimizers import OPTIMIZERS
from ees_mpi.populations import POPULATIONS
from ees_mpi.registry import Part, convert, plain, unknown
from ees_mpi.tasks import TASKS, Task

FAMILIES = {family.kind: family for family in (TASKS, POPULATIONS, OBJECTIVES, OPTIMIZERS)}
SECTIONS = {  # of each method
    "ees": ("run", "noise", *FAMILIES),
    "maml": ("run", "noise", "task", "population", "maml"),
}

# Keys that a resumed run may change: they do not show in its bits.
FREE_ON_RESUME = frozenset({"run.generations", "run.fsync", "run.fold_minutes", "run.stall_minutes"})

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class RunSettings(Part, frozen=True):
    """Section `run`: how long, from which seed, how it is kept."""

    generations: Count
    seed: Seed = 0
    evaluate_mean_every: Annotated[int, msgspec.Meta(ge=0)] = 10  # generations; 0: never
    portable: bool = False  # same bits on every CPU with AVX2, at some cost in speed
    fsync: bool = True  # wait for the disk at every commit
    fold_minutes: Annotated[float, msgspec.Meta(gt=0)] = 5.0  # how often the journal is folded into the run file
    stall_minutes: Annotated[float, msgspec.Meta(ge=0)] = 30.0  # without progress of a rank, that end the job; 0: never


class NoiseSettings(Part, frozen=True):
    """Section `noise`: the table from which perturbations are cut."""

    size: Count  # floats; one table per node
    seed: Seed | None = None  # the run's seed where not given


@dataclass(frozen=True)
class Config:
    """A whole config, checked."""

    run: RunSettings
    noise: NoiseSettings
    task: Any
    population: Any
    objective: Any  # with method "maml" the same as the optimizer: its settings
    optimizer: Any
    method: str = "ees"

    @property
    def learns_tasks(self) -> bool:
        """Whether the individuals of a generation are tasks to adapt to, not mutations."""
        return isinstance(self.population, Tasks)

    @property
    def uses_torch(self) -> bool:
        """Whether its bits depend on torch."""
        return self.method == "maml" or OBJECTIVES.name_of(self.objective) == "custom"

    @property
    def rollouts(self) -> int:
        """How many rollouts one individual takes."""
        return 2 * self.objective.rollouts if self.learns_tasks else 1

    def moments(self, mean: Any) -> dict[str, Any]:
        """Return what the optimizer carries beside the mean(s) [K, D] at the start."""
        start: dict[str, Any] = self.optimizer.start(self.task.layers[-1] if self.method == "maml" else mean)
        return start

    @property
    def noise_seed(self) -> int:
        """The seed of the noise table."""
        return self.run.seed if self.noise.seed is None else self.noise.seed

    def sections(self) -> dict[str, Any]:
        """Return the config as plain tables, defaults filled in."""
        wanted = [kind for kind in FAMILIES if kind in SECTIONS[self.method]]
        parts = {kind: FAMILIES[kind].section(getattr(self, kind)) for kind in wanted}
        own = {"run": msgspec.to_builtins(self.run), "noise": msgspec.to_builtins(self.noise)}
        own["noise"]["seed"] = self.noise_seed
        if self.method == "maml":
            return {"method": self.method, **own, **parts, "maml": plain(self.objective)}
        return {**own, **parts}

    def to_toml(self) -> str:
        """Return the whole config as TOML text."""
        return tomli_w.dumps(self.sections())


def parse(text: str, settings: Sequence[str] = (), source: str = "config") -> Config:
    """Read a config from TOML text, with `key=value` settings laid over it; makes and opens nothing."""
    sections = _tables(text, source)
    for setting in settings:
        apply(sections, setting)
    for key, value in _flat(sections):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{key}: expected a finite number, got {value}")
    method = sections.pop("method", "ees")
    if not isinstance(method, str) or method not in SECTIONS:
        raise ConfigError(f"method: {unknown(str(method), SECTIONS)}")
    known = SECTIONS[method]
    for name in sections:
        if name not in known:
            hint = f'; method = "{method}" has no such section' if name in (*FAMILIES, "maml") else ""
            raise ConfigError(f"{name}: {unknown(name, known)}{hint}")
    for name in known:
        if name not in sections:
            raise ConfigError(f"{source}: section [{name}] is missing")
    parts = {kind: family.build(sections[kind]) for kind, family in FAMILIES.items() if kind in known}
    if method == "maml":
        parts |= dict.fromkeys(("objective", "optimizer"), convert(sections["maml"], Maml, "maml"))
    return Config(
        run=convert(sections["run"], RunSettings, "run"),
        noise=convert(sections["noise"], NoiseSettings, "noise"),
        method=method,
        **parts,
    )


def check(config: Config) -> None:
    """Refuse what cannot work, before any rank starts: what only trying can tell included."""
    for kind in FAMILIES:
        getattr(config, kind).check()
    task: Task = config.task
    if config.learns_tasks and config.method != "maml":
        raise ConfigError('population.name: "tasks" belongs to method = "maml"; expected normal or mixture')
    if config.method == "maml":
        check_task(task, TASKS.name_of(config.task))
    if config.noise.size < task.parameters:
        raise ConfigError(
            f"noise.size: expected at least the {task.parameters} parameters of an individual, got {config.noise.size}"
        )


def check_trainable(config: Config) -> None:
    """Refuse what can be sampled but not trained: mutations of what MAML learned are not what it learns from."""
    if config.method == "maml" and not config.learns_tasks:
        name = POPULATIONS.name_of(config.population)
        raise ConfigError(f'population.name: method = "maml" learns tasks; expected "tasks", got "{name}"')


def _tables(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from None


def apply(sections: dict[str, Any], setting: str) -> None:
    """Lay one `section.key=value` over the tables; the value is TOML, or else plain text."""
    path, equals, text = setting.partition("=")
    keys = path.strip().split(".")
    if not equals or (len(keys) < 2 and keys != ["method"]) or not all(keys):
        raise ConfigError(f"--set {setting}: expected section.key=value, for example run.generations=100")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table = sections
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {setting}: {key} is a value, not a table")
    table[keys[-1]] = value


def preset_names() -> list[str]:
    """Return the names of all presets."""
    files = resources.files("ees_mpi").joinpath("presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def read_source(source: str) -> str:
    """Return the TOML text of a preset, by name, or of a file."""
    if source in preset_names():
        return resources.files("ees_mpi").joinpath("presets", f"{source}.toml").read_text(encoding="utf-8")
    path = Path(source)
    if path.suffix != ".toml":
        raise ConfigError(f"preset: {unknown(source, preset_names())} (or give the path of a .toml file)")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read config {source}: {error}") from None


def load(source: str, settings: Sequence[str] = ()) -> Config:
    """Read a preset or a config file."""
    return parse(read_source(source), settings, source)


def wants_portable(text: str, settings: Sequence[str] = ()) -> bool:
    """Peek whether a config pins the CPU features, before anything that they concern is loaded."""
    try:
        sections = _tables(text, "config")
        for setting in settings:
            apply(sections, setting)
        return sections.get("run", {}).get("portable") is True
    except (ConfigError, AttributeError):
        return False


def changed_keys(before: Config, after: Config) -> list[str]:
    """Name the keys in which two configs describe different runs."""
    old, new = dict(_flat(before.sections())), dict(_flat(after.sections()))
    keys = sorted((old.keys() | new.keys()) - FREE_ON_RESUME)
    absent = "(nothing)"
    return [
        f"{key} is {old.get(key, absent)!r} in the file and {new.get(key, absent)!r} now"
        for key in keys
        if old.get(key, absent) != new.get(key, absent)
    ]


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
