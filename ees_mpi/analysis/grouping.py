"""Groups of runs by a key of their configs, for `compare --by` and the figure of a sweep."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ees_mpi.errors import ConfigError
from ees_mpi.registry import flat, unknown

Settings = Mapping[str, Any]  # a config: section.key -> value


def settings(sections: Mapping[str, Any]) -> Settings:
    """Return the values of a config, by key."""
    return {"method": "ees", **dict(flat(json.loads(json.dumps(sections))))}


def group(key: str, configs: Mapping[Path, Settings]) -> dict[str, list[Path]]:
    """Return the files of each value of a key, sorted by the value; raise a ConfigError if there is one value only."""
    for path, values in configs.items():
        if key not in values:
            raise ConfigError(f"--by: {unknown(key, values)} ({path})")
    groups: dict[str, tuple[Any, list[Path]]] = {}
    for path, values in configs.items():
        groups.setdefault(json.dumps(values[key]), (values[key], []))[1].append(path)
    if len(groups) < 2:
        others = ", ".join(differing(list(configs.values()))) or "nothing but the seed"
        raise ConfigError(f"--by {key}: all runs have {next(iter(groups))}; they differ in {others}")
    numbers = all(isinstance(value, (int, float)) for value, _ in groups.values())
    names = sorted(groups, key=lambda name: groups[name][0] if numbers else name)
    return {name.strip('"'): groups[name][1] for name in names}


def check_distinct(runs: Iterable[tuple[str, Path]]) -> None:
    """Raise a ConfigError if two files are of the same run; `runs`: the id and the file of each."""
    seen: dict[str, Path] = {}
    for run_id, path in runs:
        if run_id in seen:
            raise ConfigError(f"{seen[run_id]} and {path} are of the same run; give only one of them")
        seen[run_id] = path


def differing(configs: Sequence[Settings]) -> list[str]:
    """Return the keys in which configs differ, except the seeds and the other keys of section `run`."""
    keys = {key for config in configs for key in config if not key.startswith("run.") and key != "noise.seed"}
    return [key for key in sorted(keys) if any(config.get(key) != configs[0].get(key) for config in configs)]
