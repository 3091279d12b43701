"""The tables of a config: from TOML text or from Python, changed by settings."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from ees_mpi.errors import ConfigError

# The names of keys and values here, by the names that other programs have for them.
ELSEWHERE = {
    "popsize": "population.size",
    "population": "population.size",
    "sigma": "population.std",
    "sigma_decay": "population.std_decay",
    "lr": "optimizer.lr",
    "learning_rate": "optimizer.lr",
    "es": "fitness",
}
Setting = str | tuple[str, Any]  # section.key=value, as the option `--set` takes it; or the key and the value


def tables(source: str | Mapping[str, Any], settings: Sequence[Setting], name: str) -> dict[str, Any]:
    """Return the tables of TOML text, or a copy of tables, changed by `settings`; `name`: of the source in messages."""
    sections = _toml(source, name) if isinstance(source, str) else copied(source)
    for setting in settings:
        apply(sections, setting)
    return sections


def _toml(text: str, source: str) -> dict[str, Any]:
    """Parse TOML; raise a ConfigError also for long integers and deep tables, which Python cannot read."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from None


def copied(value: Any, change: Callable[[str], str] | None = None) -> Any:
    """Return a copy of nested tables, with lists in place of tuples, as TOML has them; perhaps with changed texts."""
    if isinstance(value, Mapping):
        return {key: copied(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(item, change) for item in value]
    return change(value) if change and isinstance(value, str) else value


def key_of(setting: Setting) -> str:
    """Return the key that a setting names."""
    return (setting.partition("=") if isinstance(setting, str) else setting)[0].strip()


def shown(setting: Setting) -> str:
    """Return a setting as messages show it."""
    return short(setting if isinstance(setting, str) else f"{setting[0]}={setting[1]!r}")


def apply(sections: dict[str, Any], setting: Setting) -> Any:
    """Set one key in the tables, and return its value; that of a text is TOML, or else plain text."""
    keys = key_of(setting).split(".")
    whole = len(keys) > 1 and all(key and key.isprintable() for key in keys)  # bytes that are no UTF-8 are not
    if "=" not in shown(setting) or not (whole or keys == ["method"]):
        meant, value = shown(setting) if whole else ELSEWHERE.get(keys[0], ""), shown(setting).partition("=")[2]
        example = f"{meant}={value or 'VALUE'}" if "." in meant else "run.generations=100"
        raise ConfigError(f"{shown(setting)}: expected section.key=value, for example {example}")
    value = value_of(setting.partition("=")[2]) if isinstance(setting, str) else setting[1]
    table = sections
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{shown(setting)}: {key} is a value, not a table")
    table[keys[-1]] = value
    return value


def value_of(text: str) -> Any:
    """Return the value of a text: as TOML, or else the plain text."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


def short(text: str) -> str:
    return text if len(text) < 200 else f"{text[:180]} ..."


def settings_of(settings: Mapping[str, Any] | None) -> tuple[Setting, ...]:
    """Return settings such as {"population.std": 0.05} as pairs."""
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError(f'settings: expected a dict such as {{"population.std": 0.05}}, got {settings!r:.80}')
    return tuple((str(key), _toml_value(value, str(key))) for key, value in (settings or {}).items())


def source_of(source: Any) -> Any:
    """Return the source of a config: a run file (a Path), a preset or a .toml file (a text), tables, or a Config."""
    source = path_of_a_run(source)
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        run = path.suffix != ".toml" and os.path.exists(path) and not path.is_dir()
        return path if run else os.fspath(source)
    if isinstance(source, Mapping):
        return _toml_value(source, "")
    if hasattr(source, "to_toml"):
        return source
    raise ConfigError(
        f"config: expected the name of a preset, a path, a dict or a Config; got {type(source).__name__} {source!r:.80}"
    )


def path_of_a_run(value: Any) -> Any:
    """Return the path of an open run; anything else as it is."""
    path = getattr(value, "path", None)
    return path if isinstance(path, Path) and hasattr(value, "run_id") else value


def _toml_value(value: Any, key: str) -> Any:
    """Return a value as TOML can hold it; a class or function becomes its name, "module:name"."""
    if hasattr(value, "tolist"):  # a number or an array of numpy
        return value.tolist()
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        inner = {str(name): (item, f"{key}.{name}".lstrip(".")) for name, item in value.items()}
        return {name: _toml_value(item, path) for name, (item, path) in inner.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_toml_value(item, key) for item in value]
    if isinstance(value, (type, FunctionType)):
        if not value.__qualname__.isidentifier():
            raise ConfigError(f"{key}: expected a class or function at the top of a module, got {value.__qualname__}")
        return f"{value.__module__}:{value.__qualname__}"
    raise ConfigError(f"{key}: expected a value that TOML can hold, got {type(value).__name__} {value!r:.80}")
