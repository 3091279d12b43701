"""The runs of `ees-mpi sweep`, and the default names of run files.

`population.std=0.01,0.02` stands for two settings. A list in brackets, a table in braces and a text in quotes are one
value each: `task.hidden=[4,4],[8,8]` stands for two settings, too.

The name of a run file has the keys that the command line sets and their values, except keys that a resume may change:
cheetah-maxent-std0.01-seed3.h5. A key has its last word, or its whole name if several sections have that word.
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ees_mpi.config import FREE_ON_RESUME, Config, check, load
from ees_mpi.errors import ConfigError
from ees_mpi.registry import flat
from ees_mpi.registry.toml import Setting, key_of, value_of

MAX_RUNS = 10_000  # runs of a sweep
MAX_NAME = 150  # characters of a file name
PARTS = ("method", "task.name", "population.name", "objective.name", "optimizer.name")


def members(settings: Sequence[str], seeds: Sequence[int] = ()) -> list[tuple[str, ...]]:
    """Return the settings of a run for every combination of values; the seed is the last one and changes fastest."""
    choices = [choice(setting) for setting in settings]
    choices += [[f"run.seed={seed}" for seed in seeds]] if seeds else []
    if math.prod(map(len, choices)) > MAX_RUNS:
        raise ConfigError(f"a sweep of more than {MAX_RUNS} runs: expected fewer values")
    return list(itertools.product(*choices))


def choice(setting: str) -> list[str]:
    """Return the settings that a setting stands for: one for each of its values."""
    path, equals, text = setting.partition("=")
    parts = split(text) if equals and isinstance(value_of(text, path), str) else [text]
    if len(parts) == 1:
        return [setting]
    if not all(part.strip() for part in parts):
        raise ConfigError(f"{setting[:200]}: expected a value before and after each comma; quotes keep a comma")
    return [f"{path}={part.strip()}" for part in parts]


def split(text: str) -> list[str]:
    """Split a text at its commas, except those inside brackets, braces and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not quote and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def named(source: str, runs: Sequence[tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the runs by their file names; raise a ConfigError if a config is wrong or two runs are the same."""
    files: dict[str, tuple[str, ...]] = {}
    for settings in runs:
        config = load(source, settings)
        check(config, here=False)
        file = file_name(source, settings, config)
        if file in files:
            one, other = " ".join(files[file]), " ".join(settings)
            raise ConfigError(f"two runs of the sweep would be the same file {file}: {one:.200}; {other:.200}")
        files[file] = settings
    return files


def file_name(source: str, settings: Sequence[Setting], config: Config | None = None) -> str:
    """Return the default name of the run file of a preset or config file, changed by `settings`."""
    config = config or load(source, settings)
    words = [word for _, word in sorted(changes(settings, config).items())]
    stem = "-".join([Path(source).stem, *words])
    if len(stem) > MAX_NAME:
        stem = f"{Path(source).stem}-{_digest(words)}"
    return f"{stem}-seed{config.run.seed}.h5"


def changes(settings: Sequence[Setting], config: Config) -> dict[str, str]:
    """Return the keys that settings name, each with a word for the file name."""
    from ees_mpi.config.keys import ambiguous  # imports every part

    paths = [key_of(setting) for setting in settings]
    words = {}
    for key, value in {"method": "ees", **dict(flat(config.sections()))}.items():
        named = any(key == path or key.startswith(f"{path}.") for path in paths)
        if named and key != "run.seed" and key not in FREE_ON_RESUME:
            section, _, last = key.rpartition(".")
            short = section if key in PARTS and section else key if last in ambiguous() or "." in section else last
            shown = _shown(value)
            words[key] = f"{short}{'' if shown[0].isdigit() and not short[-1].isdigit() else '-'}{shown}"
    return words


def _shown(value: Any) -> str:
    """Return a value in letters that every file system takes; values of different types differ.

    0.01; 4x4 for [4, 4] and 4x for [4]; true; a word as it is; anything else is abbreviated, with a hash.
    """
    if isinstance(value, (list, tuple)) and value and all(type(number) in (int, float) for number in value):
        return "x".join(map(json.dumps, value)) + "x" * (len(value) == 1)
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    plain = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z]\w{0,39}", plain, re.ASCII) and plain not in ("true", "false"):
        return plain
    kept = re.sub(r"[^A-Za-z0-9_]+", "_", plain)[:20].strip("_")
    return f"{kept}.{_digest(value)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
