"""The arguments of the Python functions: checked, and turned into the words of the command line.

This module imports no numpy.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from ees_mpi import machine
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.registry import beside, trusting
from ees_mpi.registry.toml import Setting
from ees_mpi.terminal import is_utf8

if TYPE_CHECKING:
    from ees_mpi.runs.policy_files import PolicySource

T = TypeVar("T")
LARGEST = 2**62
SMALLEST = 1e-30  # of positive numbers: a std is squared


@contextmanager
def computing(trust: bool) -> Iterator[None]:
    """Compute with one thread in a block; `trust`: run the code that run files name."""
    with machine.one_thread(), trusting(trust):
        from ees_mpi.registry import own

        own.forget()
        yield


def settings_of(settings: Mapping[str, Any] | None) -> tuple[Setting, ...]:
    """Return settings such as {"population.std": 0.05} as pairs."""
    if not isinstance(settings or {}, Mapping):
        raise ConfigError(f'settings: expected a dict such as {{"population.std": 0.05}}, got {settings!r:.80}')
    return tuple((str(key), _plain(value, str(key))) for key, value in (settings or {}).items())


def source_of(source: Any) -> Any:
    """Return the source of a config: a run file (a Path), a preset or a .toml file (a text), tables, or a Config."""
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        run = path.suffix != ".toml" and os.path.exists(path) and not path.is_dir()
        return path if run else os.fspath(source)
    if isinstance(source, Mapping):
        return _plain(source, "")
    if hasattr(source, "to_toml"):
        return source
    raise ConfigError(
        f"config: expected the name of a preset, a path, a dict or a Config; got {type(source).__name__} {source!r:.80}"
    )


def optional(check: Callable[..., T], name: str, value: Any, *limits: int) -> T | None:
    """Return a value that `check` has checked, or None."""
    return None if value is None else check(name, value, *limits)


def file_name(name: str, value: Any) -> Path:
    """Return the path of a file; raise a ConfigError if the value is no name of a file."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not text or not isinstance(text, str) or not is_utf8(text):
        raise ConfigError(f"{name}: expected the name of a file in UTF-8, got {value!a:.80}")
    return Path(text)


def policy_source(
    name: str, policy: Any, layers: Sequence[str] = (), normaliser: Any = None, activation: str | Sequence[str] = ()
) -> "PolicySource":
    """Return a policy with its options; `activation`: a name for all hidden layers, or those of all layers."""
    from ees_mpi.runs.policy_files import PolicySource  # imports numpy

    if isinstance(layers, str):
        raise ConfigError(f"layers: expected a list of names, got the text {layers!r:.80}")
    if isinstance(policy, (str, os.PathLike)) or not (callable(policy) or hasattr(policy, "__len__")):
        policy = str(file_name(name, policy))
    if isinstance(activation, str) and "," in activation:
        activation = activation.split(",")
    words = activation if isinstance(activation, str) else tuple(str(word).strip() for word in activation)
    return PolicySource(policy, tuple(layers), optional(file_name, "normaliser", normaliser), words)


def path_of(run: Any) -> Path:
    """Return the path of a run file, which may be open."""
    path = file_name("run", getattr(run, "path", run))
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a plain file"
        raise RunFileError(f"{path} is {kind}; expected a run file")
    beside(path, run=True)
    return path


def whole(name: str, value: Any, low: int, high: int = LARGEST) -> int:
    """Return a whole number; raise a ConfigError if it is none, or out of range."""
    if not hasattr(value, "__index__") or isinstance(value, bool) or not low <= value <= high:
        limits = f" between {low} and {high}" if high < LARGEST else f" of at least {low}" if low > -LARGEST else ""
        raise ConfigError(f"{name}: expected a whole number{limits}, got {value!r:.80}")
    return int(value)


def finite(name: str, value: Any) -> float:
    """Return a finite number; raise a ConfigError if it is none."""
    return _number(name, value, "a finite number", -LARGEST, LARGEST)


def positive(name: str, value: Any) -> float:
    """Return a positive number; raise a ConfigError if it is none."""
    return _number(name, value, "a positive number", SMALLEST, 1 / SMALLEST)


def positives(name: str, values: Any) -> tuple[float, ...]:
    """Return one positive number, or several in a list or array, as a tuple."""
    values = values.tolist() if hasattr(values, "tolist") else values
    several = hasattr(values, "__iter__") and not isinstance(values, str)
    return tuple(positive(name, number) for number in (values if several else [values]))


def _number(name: str, value: Any, expected: str, low: float, high: float) -> float:
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not low <= number <= high:
        raise ConfigError(f"{name}: expected {expected}, got {value!r:.80}")
    return number


def _plain(value: Any, key: str) -> Any:
    """Return a value as TOML can hold it; a class or function becomes its name, "module:name"."""
    if hasattr(value, "tolist"):  # a number or an array of numpy
        return value.tolist()
    if isinstance(value, str) and not is_utf8(value):
        raise ConfigError(f"{key}: expected UTF-8, got {value!a:.80}")
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        inner = {str(name): (item, f"{key}.{name}".lstrip(".")) for name, item in value.items()}
        return {name: _plain(item, path) for name, (item, path) in inner.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item, key) for item in value]
    if isinstance(value, (type, FunctionType)):
        if not value.__qualname__.isidentifier():
            raise ConfigError(f"{key}: expected a class or function at the top of a module, got {value.__qualname__}")
        return f"{value.__module__}:{value.__qualname__}"
    raise ConfigError(f"{key}: expected a value that TOML can hold, got {type(value).__name__} {value!r:.80}")
