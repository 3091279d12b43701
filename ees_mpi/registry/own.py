"""Plugins: the one loader for code that a config names as "package.module:name", and the form of its errors.

A module is searched on Python's path, beside the config file, in the present folder, and beside a trusted run file, in
this order: a file of the user cannot replace an installed module. A class is checked against its Protocol in
`contracts` before it is called.
"""

import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from ees_mpi import registry
from ees_mpi.errors import ConfigError, EesError, OwnCodeError, before_rollouts
from ees_mpi.registry import check_trust, unknown

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
SHOWN = 6  # lines of the user's code in a message

Result = TypeVar("Result")
_results: dict[Hashable, Any] = {}


def split(path: str, key: str) -> tuple[str, str]:
    """Return module and name of "package.module:name"; raise a ConfigError if it is something else."""
    module, _, name = path.partition(":")
    if not name.isidentifier() or not all(word.isidentifier() for word in module.split(".")):
        raise ConfigError(f"{key}: expected package.module:name, got {path!r}")
    return module, name


def imported(path: str, key: str) -> Any:
    """Import `package.module:name`, if it is trusted."""
    module, name = split(path, key)
    check_trust(path, key)
    loaded = import_module(module, path, key)
    try:
        return getattr(loaded, name)
    except AttributeError:
        names = [public for public in vars(loaded) if not public.startswith("_")]
        place = getattr(loaded, "__file__", None) or module
        raise ConfigError(f"{key}: cannot import {path!r}: {place} has no {name}: {unknown(name, names)}") from None


def import_module(module: str, path: str, key: str) -> Any:
    """Import a module that the text `path` of a config key names; an error says where it was searched."""
    if not all(word.isidentifier() for word in module.split(".")):
        raise ConfigError(f"{key}: expected a module in front of the colon, got {path!r}")
    sys.path += [folder for folder in (*registry.FOLDERS, "", *registry.trusted_folders()) if folder not in sys.path]
    importlib.invalidate_caches()  # the user may have just written the file
    try:
        imported_module = importlib.import_module(module)
    except EesError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise ConfigError(
                f"{key}: cannot import {path!r}: there is no module {missing!r} {_places()}; set PYTHONPATH to "
                "search in another folder"
            ) from None
        raise ConfigError(_message(f"{key} {path}: importing it", error)) from error
    _check_folder(module, imported_module, path, key)
    return imported_module


def _check_folder(module: str, imported_module: Any, path: str, key: str) -> None:
    """Raise a ConfigError if this process has imported a module of the same name for another config."""
    file = os.path.abspath(getattr(imported_module, "__file__", None) or "")
    for folders in (registry.FOLDERS, registry.trusted_folders()):
        wanted = [os.path.join(folder, *module.split(".")) + ".py" for folder in folders]
        if file not in wanted[:-1] or not os.path.exists(wanted[-1]):
            continue
        raise ConfigError(
            f"{key} {path}: this process has already imported {file} for another file; start a new process, or "
            f"give {wanted[-1]} another name"
        )


def _places() -> str:
    """Return the places in which modules are searched, in words."""
    beside = "".join(f", beside the config in {folder}" for folder in registry.FOLDERS)
    runs = "".join(f", beside the run file in {folder}" for folder in registry.trusted_folders())
    return f"on Python's path{beside}, in the present folder {os.getcwd()}{runs}"


def function(path: str, key: str) -> Callable[..., Any]:
    """Import a function of the user."""
    thing = imported(path, key)
    if not callable(thing) or isinstance(thing, type):
        raise ConfigError(f"{key} {path}: expected a function, got {type(thing).__name__}")
    return thing  # type: ignore[no-any-return]


def make(path: str, key: str, protocol: type, settings: Mapping[str, Any], **arguments: Any) -> Any:
    """Return a new object of a class of the user, which has all members of a Protocol.

    arguments: those that we give, by name; settings: those of the user
    """
    factory = imported(path, key)
    members = _members(protocol)
    needs = f"{key} {path}: expected a class with {', '.join(members)}"
    if not isinstance(factory, type):
        raise ConfigError(f"{needs}; got {type(factory).__name__}")
    for name, asked in members.items():
        if asked is not None:  # a method; the class must have it before it is called
            _check_method(factory, name, asked, needs)
    if twice := sorted(settings.keys() & arguments.keys()):
        raise ConfigError(f"{key} {path}: {twice[0]} is given by ees_mpi; remove it from the settings")
    try:
        inspect.signature(factory).bind(**arguments, **settings)
    except TypeError as error:
        given = ", ".join([*arguments, *settings]) or "no arguments"
        raise ConfigError(f"{key} {path} cannot be made with {given}: {error}") from None
    except ValueError:  # a class of an extension has no signature
        pass
    with before_rollouts(), calling(f"{key} {path}", f"{factory.__name__}()"):
        made = factory(**arguments, **settings)
    if missing := [name for name in members if not hasattr(made, name)]:
        raise ConfigError(f"{needs}; no {missing[0]}")
    return Guard(made, f"{key} {path}")


def forget() -> None:
    """Forget the results of `once`: in a notebook, the user's code may have changed."""
    _results.clear()


def once(of: Hashable, compute: Callable[[], Result]) -> Result:
    """Return the result of `compute`, which is called once per process for each `of`."""
    if of not in _results:
        _results[of] = compute()
    result: Result = _results[of]
    return result


def make_once(path: str, key: str, protocol: type, settings: Mapping[str, Any], **arguments: Any) -> Any:
    """Return the object of `make`, which is made once per process."""
    check_trust(path, key)  # in this process, another file may have made it
    made_with = path, protocol.__name__, msgspec.json.encode((settings, arguments, registry.FOLDERS[-1:]))
    return once(made_with, lambda: make(path, key, protocol, settings, **arguments))


def _members(protocol: type) -> dict[str, Any]:
    """Return the members of a Protocol by name: methods, and None for other attributes."""
    members: dict[str, Any] = {}
    for base in reversed([base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]):
        for name in (*inspect.get_annotations(base), *vars(base)):
            if not name.startswith("_"):
                asked = vars(base).get(name)
                members[name] = asked if inspect.isfunction(asked) else None
    return members


def _check_method(factory: type, name: str, asked: Any, needs: str) -> None:
    """Raise a ConfigError if a class has no such method, or one with other arguments."""
    given = getattr(factory, name, None)
    if not callable(given):
        raise ConfigError(f"{needs}; no {name}")
    wanted = list(inspect.signature(asked).parameters)
    try:
        inspect.signature(given).bind(*wanted)
    except TypeError:
        taken = ", ".join(inspect.signature(given).parameters)
        raise ConfigError(f"{needs}; {name} takes ({taken}), expected ({', '.join(wanted)})") from None
    except ValueError:
        pass


class Guard:
    """An object of the user. An exception in one of its methods becomes an `OwnCodeError`."""

    def __init__(self, thing: Any, code: str):
        self.__dict__.update(_thing=thing, _code=code)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **named: Any) -> Any:
            with calling(self._code, f"{name}()"):
                return value(*arguments, **named)

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._thing, name, value)


@contextmanager
def calling(code: str, call: str) -> Iterator[None]:
    """Turn an exception of the user's code into an `OwnCodeError`; `code`: its key and path; `call`: the function."""
    try:
        yield
    except EesError:
        raise
    except Exception as error:
        raise failed(code, call, error) from error


def wrong(code: str, message: str) -> OwnCodeError:
    """Return the error that the user's code returned something that cannot be used."""
    return OwnCodeError(f"{code}: {message}")


def failed(code: str, call: str, error: Exception) -> OwnCodeError:
    """Return the error that a call of the user's code raised an exception; the message has the user's lines."""
    return OwnCodeError(_message(f"{code}: {call}", error))


def _message(call: str, error: Exception) -> str:
    """Return one line about an exception, and the user's own lines of its traceback."""
    what = " ".join(str(error).split())
    first = f"{call} raised {type(error).__name__}{': ' * bool(what)}{what}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _inside(frame.filename, (PACKAGE,))]
    frames = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    mine = ([frame for frame in frames if not _inside(frame.filename, INSTALLED)] or frames[-1:])[-SHOWN:]
    lines = [f"  {_short(frame.filename)}, line {frame.lineno}, in {frame.name}: {frame.line}" for frame in mine]
    return "\n".join([first, *lines])


def _inside(file: str, folders: tuple[str, ...]) -> bool:
    return any(os.path.abspath(file).startswith(f"{folder}{os.sep}") for folder in folders)


def _short(file: str) -> str:
    """Return the path of a file, relative to the present folder if it is in it."""
    return os.path.relpath(file) if _inside(file, (os.getcwd(),)) else file
