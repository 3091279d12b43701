"""The parameters of commands: their options on the command line, their meaning, and the checks of their values.

The annotation of a parameter describes it: `count: Annotated[int, Option("The number of mutations.", whole(2))]`. From
it come the option of `ees-mpi`, a line of `help(ees_mpi.sample)`, and the check in both. This module imports no numpy.
"""

import inspect
import operator
import os
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ees_mpi.errors import ConfigError, RunFileError, TrustError
from ees_mpi.files import SHELF, check_no_folder
from ees_mpi.registry.search import computing
from ees_mpi.registry.toml import path_of_a_run, settings_of, source_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ees_mpi.run.file import Run

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")
Name = str | os.PathLike[str]  # of a file
MAX_NUMBER = 2**62
SMALLEST = 1e-30  # of positive numbers: a std is squared


@dataclass(frozen=True)
class Kind:
    """A kind of value: of an argument in Python, and of a word of the command line."""

    check: Callable[[str, Any], Any]  # (name, value): returns the value as commands use it, or raises a ConfigError
    metavar: str = "TEXT"
    limits: str = ""  # as the help shows them
    words: bool = True  # whether words of the command line are checked, too


def whole(low: int = 0, high: int = MAX_NUMBER) -> Kind:
    """Return the kind of whole numbers in a range."""

    def check(name: str, value: Any) -> int:
        given = read(int, "a whole number", name, value) if isinstance(value, str) else operator.index(value)
        if not low <= given <= high:
            limit = f"at least {low}" if given < low else f"at most {high}"
            raise ConfigError(f"{name}: expected a whole number of {limit}, got {given!s:.80}")
        return given

    # A limit that only guards against overflow is not shown.
    limits = f"{low}<=x<={high}" if high < 10**6 else f"x>={low}" if low > 0 else ""
    return Kind(check, "N", limits)


def number(low: float = SMALLEST, high: float = 1 / SMALLEST) -> Kind:
    """Return the kind of finite numbers in a range; by default of positive ones."""

    def check(name: str, value: Any) -> float:
        given = read(float, "a number", name, value)
        if not low <= given <= high:
            raise ConfigError(f"{name}: expected a number between {low:g} and {high:g}, got {given!s:.80}")
        return given

    return Kind(check, "X")


def read(kind: Callable[[Any], T], expected: str, name: str, value: Any) -> T:
    """Return a value as another type; raise a ConfigError if it is a word that cannot be read as one."""
    try:
        return kind(value)
    except ValueError:
        raise ConfigError(f"{name}: expected {expected}, got {value!r:.80}") from None


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    """Return one positive number, or several in a list, an array or a word with commas, as a tuple."""
    values = values.split(",") if isinstance(values, str) else values
    values = values.tolist() if hasattr(values, "tolist") else values
    return tuple(POSITIVE.check(name, value) for value in (values if isinstance(values, Iterable) else [values]))


def path_of(file: Any) -> Path:
    """Return the path of a file, which may be an open run, or the `shelf:NAME` of a trained mean."""
    text = os.fspath(getattr(file, "path", file))
    if not text.startswith(SHELF):
        return Path(text)
    from ees_mpi.commands.shelf import shelf

    return shelf(text.removeprefix(SHELF))


def check_no_mean(source: Any) -> Any:
    """Return the name of a config as it is; raise a ConfigError if it is that of a trained mean."""
    if str(source).startswith(SHELF):
        raise ConfigError(
            f"{source}: expected a preset or a .toml file, got a trained mean; `ees-mpi config {source}` prints its "
            f"config, `ees-mpi train CONFIG --from {source}` starts from it"
        )
    return source


def check_committed(run: "Run") -> None:
    """Raise a RunFileError if a run has no generation yet."""
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")


def counted(name: str, number: int, count: int) -> int:
    """Return a number below `count`; a negative one counts from the end."""
    if not -count <= number < count:
        raise ConfigError(f"{name} {number}: expected {f'0 to {count - 1}' if count > 1 else '0, the only one'}")
    return number % count


def _policy(name: str, value: Any) -> Any:
    """Return a policy: the name of a file or of an open run as a text; functions, modules and arrays as they are."""
    value = path_of_a_run(value)
    return str(path_of(value)) if isinstance(value, (str, os.PathLike)) else value


def _file(name: str, value: Any) -> Path:
    """Return the path of a file to write; raise a ConfigError if it is a folder by its name."""
    check_no_folder(name, value)
    return Path(value)


def _names(name: str, value: Any) -> tuple[str, ...]:
    """Return names, also those of a word with commas."""
    return tuple(str(one).strip() for one in (value.split(",") if isinstance(value, str) else value))


def _panel(name: str, text: str) -> tuple[int, int]:
    """Return the width and the height of WIDTHxHEIGHT: even numbers, as video formats need them."""
    match = re.fullmatch("([0-9]{2,4})x([0-9]{2,4})", text.lower())
    width, height = map(int, match.groups()) if match else (0, 0)
    if not all(side % 2 == 0 and 64 <= side <= 4096 for side in (width, height)):
        raise ConfigError(f"{name} {text}: expected WIDTHxHEIGHT in even numbers of pixels from 64 on, e.g. 320x240")
    return width, height


POSITIVE, AT_LEAST_ONE, ANY_WHOLE = number(), whole(1), whole(-MAX_NUMBER)
POSITIVES = Kind(_numbers, "S[,S...]")
TEXT = Kind(lambda name, value: value)
NAMES = Kind(_names, "NAME[,NAME...]")
ACTIVATION = Kind(
    lambda name, value: value if isinstance(value, str) and "," not in value else _names(name, value), NAMES.metavar
)
DIRECTION = Kind(
    lambda name, value: value if isinstance(value, str) else f"{float(value):.15g}", "left|right|up|down|45deg"
)
FILE, FOLDER = Kind(_file, "FILE"), Kind(lambda name, value: Path(value), "FOLDER")
RUN_FILE = Kind(lambda name, value: path_of(value), "RUN.h5")
RUN_OR_POLICY = Kind(lambda name, value: path_of(value), "RUN.h5|POLICY.npz|shelf:NAME")
POLICY = Kind(_policy, "POLICY")
PANEL = Kind(_panel, "320x240")
PRESET = Kind(lambda name, value: str(path_of(check_no_mean(value))), "PRESET|FILE.toml")
SOURCE = Kind(lambda name, value: source_of(value), "PRESET|FILE.toml", words=False)  # a run file is one in Python only
SETTINGS = Kind(lambda name, value: settings_of(value), "KEY=VALUE", words=False)


@dataclass(frozen=True)
class Option:
    """The description of a parameter, for its annotation.

    usage: on the command line: "-o, --out RUN.h5"; "RUN.h5" or "RUN.h5 ..." for words without an option; None: the
        parameter exists in Python only  [default: --name METAVAR, or --name for a flag]
    many: the option can be repeated
    """

    help: str = ""
    kind: Kind = TEXT
    usage: str | None = ""
    many: bool = False
    default: Any = inspect.Parameter.empty  # of the parameter; `options_of` sets it

    @property
    def names(self) -> list[str]:
        """The names of an option; empty if it has none."""
        return [word.rstrip(",") for word in (self.usage or "").split() if word.startswith("-")]

    @property
    def metavar(self) -> str:
        """The word that stands for the value; empty for a flag."""
        return " ".join(word for word in (self.usage or "").split() if not word.startswith("-"))

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is inspect.Parameter.empty


def options_of(described: Callable[..., Any]) -> dict[str, Option]:
    """Return the options of the parameters of a function or a dataclass."""
    found = {}
    for name, parameter in inspect.signature(described).parameters.items():
        for option in getattr(parameter.annotation, "__metadata__", ()):
            metavar = "" if parameter.default is False else f" {option.kind.metavar}"
            usage = f"--{name.replace('_', '-')}{metavar}" if option.usage == "" else option.usage
            found[name] = replace(option, usage=usage, default=parameter.default)
    return found


def checked(request: R) -> R:
    """Return a request with all values checked."""
    options = options_of(type(request))
    given = {name: getattr(request, name) for name in options if getattr(request, name) is not options[name].default}
    return replace(request, **{name: options[name].kind.check(name, value) for name, value in given.items()})


def function(request: Callable[P, R]) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Turn a function of a request into one that has the request's fields as its arguments, and checks them.

    It computes with one thread, and leaves `sys.path` as it was. The traceback of a wrong argument or file ends here.
    """

    def wrap(act: Callable[[R], T]) -> Callable[P, T]:
        @wraps(act)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                bound = signature.bind(*args, **kwargs)
                with computing():
                    return act(checked(request(*bound.args, **bound.kwargs)))
            except (ConfigError, RunFileError, TrustError) as error:
                raise error.with_traceback(None) from error.__cause__

        signature = inspect.signature(request)
        plain = [
            parameter.replace(annotation=getattr(kind := parameter.annotation.__origin__, "__forward_arg__", kind))
            for parameter in signature.parameters.values()
        ]
        returned = act.__annotations__["return"]
        call.__signature__ = signature.replace(parameters=plain, return_annotation=returned)  # type: ignore[attr-defined]
        lines = [f"{name}: {option.help}" for name, option in options_of(request).items()]
        wrapped = [textwrap.fill(line, 112, subsequent_indent="    ") for line in lines]
        call.__doc__ = "\n".join([inspect.cleandoc(act.__doc__ or ""), "", *wrapped])
        return call

    return wrap
