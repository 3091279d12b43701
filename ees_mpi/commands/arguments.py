"""The parameters of commands: their options on the command line, their meaning, and the checks of their values.

A parameter of a command has an `Option` in its annotation. From it come the option of `ees-mpi`, the lines of
`help(ees_mpi.train)`, and the check of its value in both. This module imports no numpy.
"""

import functools
import inspect
import math
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ees_mpi import machine
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.registry import beside, trusting
from ees_mpi.registry.toml import Setting
from ees_mpi.terminal import is_utf8

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")
LARGEST = 2**62
SMALLEST = 1e-30  # of positive numbers: a std is squared


class Kind:
    """A kind of value. `check` takes a value of Python, `read` a word of the command line; both raise a ConfigError."""

    limits = ""  # as the help shows them

    def check(self, name: str, value: Any) -> Any:
        """Return the value as commands use it."""
        return value

    def read(self, name: str, word: str) -> Any:
        """Return the value of a word."""
        return self.check(name, word)


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number."""

    low: int = 0
    high: int = LARGEST

    @property
    def limits(self) -> str:  # type: ignore[override]
        """The limits, without those that only guard against overflow."""
        if self.high < 10**6:
            return f"{self.low}<=x<={self.high}"
        return f"x>={self.low}" if self.low > 0 else ""

    def check(self, name: str, value: Any) -> int:
        """Return the number."""
        if not hasattr(value, "__index__") or isinstance(value, bool) or not self.low <= value <= self.high:
            limits = f" between {self.low} and {self.high}" if self.high < LARGEST else f" of at least {self.low}"
            limits = "" if self.low == -LARGEST else limits
            raise ConfigError(f"{name}: expected a whole number{limits}, got {value!r:.80}")
        return int(value)

    def read(self, name: str, word: str) -> int:
        """Return the number that a word stands for."""
        digits = word.removeprefix("-")
        return self.check(name, int(word) if digits.isascii() and digits.isdigit() and len(digits) < 20 else word)


@dataclass(frozen=True)
class Number(Kind):
    """A finite number; by default a positive one."""

    low: float = SMALLEST
    high: float = 1 / SMALLEST
    expected: str = "a positive number"
    limits: str = ""

    def check(self, name: str, value: Any) -> float:
        """Return the number."""
        try:
            number = math.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not self.low <= number <= self.high:
            raise ConfigError(f"{name}: expected {self.expected}, got {value!r:.80}")
        return number

    def read(self, name: str, word: str) -> float:
        """Return the number that a word stands for."""
        try:
            return self.check(name, float(word))
        except ValueError:
            return self.check(name, word)


class Numbers(Kind):
    """One positive number, or several: in a list or array, or with commas between them."""

    def check(self, name: str, value: Any) -> tuple[float, ...]:
        """Return the numbers."""
        value = value.tolist() if hasattr(value, "tolist") else value
        several = hasattr(value, "__iter__") and not isinstance(value, str)
        return tuple(Number().check(name, number) for number in (value if several else [value]))

    def read(self, name: str, word: str) -> tuple[float, ...]:
        """Return the numbers of a word."""
        return tuple(Number().read(name, part) for part in word.split(","))


class Direction(Kind):
    """A direction: left, right, or an angle in degrees. The command that uses it checks the words."""

    def check(self, name: str, value: Any) -> str:
        """Return the words."""
        if isinstance(value, str):
            return value
        return f"{Number(-LARGEST, LARGEST, 'a finite number').check(name, value):g}"


class Names(Kind):
    """A list of names; on the command line with commas between them."""

    def check(self, name: str, value: Any) -> tuple[str, ...]:
        """Return the names."""
        if isinstance(value, str):
            raise ConfigError(f"{name}: expected a list of names, got the text {value!r:.80}")
        return tuple(value)

    def read(self, name: str, word: str) -> tuple[str, ...]:
        """Return the names of a word."""
        return tuple(part.strip() for part in word.split(",") if part)


class File(Kind):
    """The name of a file or a folder."""

    def check(self, name: str, value: Any) -> Path:
        """Return the path."""
        text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
        if not text or not isinstance(text, str) or not is_utf8(text) or "\0" in text:
            raise ConfigError(f"{name}: expected the name of a file in UTF-8, got {value!a:.80}")
        return Path(text)


class RunFile(File):
    """The name of a run file, or an open one. A named pipe or a device is refused: reading it would wait for ever."""

    def check(self, name: str, value: Any) -> Path:
        """Return the path."""
        path = super().check(name, getattr(value, "path", value))
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "not a plain file"
            raise RunFileError(f"{path} is {kind}; expected a run file")
        beside(path, run=True)
        return path


class Source(Kind):
    """The source of a config."""

    def check(self, name: str, value: Any) -> Any:
        """Return a run file (a Path), a preset or a .toml file (a text), tables, or a Config."""
        source = source_of(value)
        return self.read(name, source) if isinstance(source, str) else source

    def read(self, name: str, word: str) -> str:
        """Return a preset or a file. The modules beside a file are found on every rank: rank 0 alone reads the file."""
        if word.endswith(".toml"):
            beside(word)
        return word


class Settings(Kind):
    """Changes of a config."""

    def check(self, name: str, value: Any) -> tuple[Setting, ...]:
        """Return the pairs of a dict such as {"population.std": 0.05}."""
        return settings_of(value)

    def read(self, name: str, word: str) -> Setting:
        """Return KEY=VALUE."""
        return word


class Policy(File):
    """A policy: a file, "module:function", or in Python a function, a torch module or named arrays."""

    def check(self, name: str, value: Any) -> Any:
        """Return the policy; the name of a file as a text."""
        if isinstance(value, (str, os.PathLike)) or not (callable(value) or hasattr(value, "__len__")):
            return str(super().check(name, value))
        return value


class Call(Kind):
    """A function of the user."""

    def check(self, name: str, value: Any) -> Any:
        """Return the function."""
        if not callable(value):
            raise ConfigError(f"{name}: expected a function, got {value!r:.80}")
        return value


FILE, RUN_FILE, POLICY, TEXT = File(), RunFile(), Policy(), Kind()
POSITIVE, AT_LEAST_ONE, ANY_WHOLE = Number(limits="x>0"), Whole(1), Whole(-LARGEST)


def path_of(run: Any) -> Path:
    """Return the path of a run file, which may be open."""
    return RUN_FILE.check("run", run)


@dataclass(frozen=True)
class Option:
    """The description of a parameter, for its annotation.

    usage: on the command line: "-o, --out RUN.h5", "--json" for a flag, "RUN.h5" or "RUN.h5 ..." for words without an
        option; empty: the parameter exists in Python only
    many: the option can be repeated
    """

    usage: str
    help: str = ""
    kind: Kind = TEXT
    many: bool = False

    @property
    def names(self) -> list[str]:
        """The names of an option; empty if it has none."""
        return [word.rstrip(",") for word in self.usage.split() if word.startswith("-")]

    @property
    def metavar(self) -> str:
        """The word that stands for the value; empty for a flag."""
        return " ".join(word for word in self.usage.split() if not word.startswith("-"))


def options_of(described: Callable[..., Any]) -> dict[str, tuple[Option, Any]]:
    """Return the parameters of a function or a dataclass that have an Option, each with its default."""
    found = {}
    for parameter in inspect.signature(described).parameters.values():
        for option in getattr(parameter.annotation, "__metadata__", ()):
            found[parameter.name] = (option, parameter.default)
    return found


def checked(request: R) -> R:
    """Return a request with all values checked."""
    values = {name: getattr(request, name) for name in options_of(type(request))}
    return replace(
        request,
        **{
            name: option.kind.check(name, values[name])
            for name, (option, default) in options_of(type(request)).items()
            if values[name] is not default
        },
    )


def function(request: Callable[P, R]) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Turn a function of a request into one that has the request's fields as its arguments, and checks them."""

    def wrap(act: Callable[[R], T]) -> Callable[P, T]:
        @functools.wraps(act)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = signature.bind(*args, **kwargs)
            return act(checked(request(*bound.args, **bound.kwargs)))

        signature = inspect.signature(request)
        plain = [
            parameter.replace(annotation=getattr(parameter.annotation, "__origin__", parameter.annotation))
            for parameter in signature.parameters.values()
        ]
        returned = act.__annotations__.get("return", signature.empty)
        call.__signature__ = signature.replace(parameters=plain, return_annotation=returned)  # type: ignore[attr-defined]
        lines = [f"{name}: {option.help}" for name, (option, _) in options_of(request).items()]
        wrapped = [textwrap.fill(line, 112, subsequent_indent="    ") for line in lines]
        call.__doc__ = "\n".join([inspect.cleandoc(act.__doc__ or ""), "", *wrapped])
        return call

    return wrap


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
