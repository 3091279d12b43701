"""Plugins: the one loader for code that a config names as "package.module:name", and the form of its errors.

`registry.search` says where a module is searched. The user's code gets arrays and returns arrays: their shapes are
checked. If it raises an exception, the message has its traceback.
"""

import contextlib
import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ees_mpi.arrays import Arrays
from ees_mpi.errors import ConfigError, EesError, PluginError, before_rollouts
from ees_mpi.registry import require, search, unknown

WRAPPERS = re.compile(r"[\\/]site-packages[\\/]gymnasium[\\/](wrappers|utils|core\.py)")  # they pass on each call

Result = TypeVar("Result")


def imported(path: str, key: str) -> Any:
    """Import `package.module:name`, if it may run."""
    module, _, name = path.partition(":")
    if not name.isidentifier():
        raise ConfigError(f"{key}: expected package.module:name, got {path!r}")
    require(path, key)
    loaded = import_module(module, path, key)
    if not hasattr(loaded, name):
        names = [public for public in vars(loaded) if not public.startswith("_")]
        place = getattr(loaded, "__file__", None) or module
        raise ConfigError(f"{key}: cannot import {path!r}: {place} has no {name}: {unknown(name, names)}")
    return getattr(loaded, name)


def import_module(module: str, path: str, key: str) -> Any:
    """Import a module that the text `path` of a config key names; an error says where it was searched."""
    if not all(word.isidentifier() for word in module.split(".")):
        raise ConfigError(f"{key}: expected package.module:name, got {path!r}")
    before = frozenset(sys.modules)
    try:
        with search.on_path():
            found = importlib.import_module(module)
    except EesError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            where = f"there is no module {missing!r} {search.places()}"
            raise ConfigError(f"{key}: cannot import {path!r}: {where}") from None
        raise ConfigError(_message(f"{key} {path}: importing it", error)) from error
    finally:
        search.LOADED.update(sys.modules.keys() - before)
    file = getattr(found, "__file__", None) or ""
    if module in before and module in search.LOADED and search.is_another(module):
        raise ConfigError(f"{key} {path}: this process has imported {file} for another config; start a new process")
    if file:
        search.note_digests(module, os.path.join(os.path.dirname(file), ""))
    return found


def function(path: str, key: str) -> Callable[..., Any]:
    """Import a function of the user."""
    thing = imported(path, key)
    if not callable(thing) or isinstance(thing, type):
        raise ConfigError(f"{key} {path}: expected a function, got {type(thing).__name__}")
    return thing


def make(path: str, key: str, members: str, settings: Mapping[str, Any], **arguments: Any) -> Any:
    """Return a new object of a class of the user.

    members: the names that it must have; arguments: those that we give, by name; settings: those of the user
    """
    factory = imported(path, key)
    if not isinstance(factory, type):
        raise ConfigError(f"{key} {path}: expected a class, got {type(factory).__name__}")
    with before_rollouts(), calling(f"{key} {path}", f"{factory.__name__}()"):
        made = Guard(factory(**arguments, **settings), f"{key} {path}")
        missing = [name for name in members.split() if not hasattr(made, name)]
    if missing:
        raise ConfigError(f"{key} {path}: expected a class with {', '.join(members.split())}; it has no {missing[0]}")
    return made


def once(of: Hashable, compute: Callable[[], Result]) -> Result:
    """Return the result of `compute`, which is called once for each `of` until the next call of this package."""
    if of not in search.MADE:
        search.MADE[of] = compute()
    result: Result = search.MADE[of]
    return result


def make_once(path: str, key: str, members: str, settings: Mapping[str, Any], **arguments: Any) -> Any:
    """Return the object of `make`, which is made `once`."""
    require(path, key)  # in this process, another file may have made it
    made_with = path, members, msgspec.json.encode((settings, arguments, search.FOLDERS[-1:]), enc_hook=str)
    return once(made_with, lambda: make(path, key, members, settings, **arguments))


class Guard:
    """An object of the user. An exception in one of its methods or properties becomes an `PluginError`."""

    def __init__(self, thing: Any, code: str):
        self.__dict__.update(_thing=thing, _code=code)

    def __getattr__(self, name: str) -> Any:
        if name in ("_thing", "_code"):  # of a copy that is being made
            raise AttributeError(name)
        try:
            value = getattr(self._thing, name)
        except (Exception, SystemExit) as error:
            absent = isinstance(error, AttributeError) and inspect.getattr_static(self._thing, name, None) is None
            if absent or isinstance(error, EesError):
                raise
            raise failed(self._code, name, error) from error
        if not callable(value):
            return value

        def call(*arguments: Any, **named: Any) -> Any:
            with calling(self._code, f"{name}()"):
                return value(*arguments, **named)

        return call

    def __setattr__(self, name: str, value: Any) -> None:  # such as the hook of a film
        setattr(self._thing, name, value)


@contextlib.contextmanager
def calling(code: str, call: str) -> Iterator[None]:
    """Turn an exception of the user's code into an `PluginError`; `code`: its key and path; `call`: the function."""
    try:
        yield
    except EesError:
        raise
    except (Exception, SystemExit) as error:  # exit() of a task must not end a run as if it were complete
        raise failed(code, call, error) from error


def failed(code: str, call: str, error: BaseException) -> PluginError:
    """Return the error that a call of the user's code raised an exception."""
    return PluginError(_message(f"{code}: {call}", error))


def _message(call: str, error: BaseException) -> str:
    """Return one line about an exception, and its traceback without this package and Gymnasium's wrappers."""
    what = " ".join(str(error).split())
    first = f"{call} raised {type(error).__name__}{': ' * bool(what)}{what}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    ours = (search.PACKAGE + os.sep, contextlib.__file__)  # the latter calls a function that `calling` decorates
    theirs = [frame for frame in frames if not frame.filename.startswith(ours)]
    own = [frame for frame in theirs if not WRAPPERS.search(frame.filename)]
    return "\n".join([first, *traceback.format_list(own or theirs)]).rstrip()


def as_table(returned: Any, call: str, dtype: DTypeLike | None = None) -> dict[str, NDArray[Any]]:
    """Return what a call of the user's code returned as a dict of arrays of numbers."""
    if not isinstance(returned, Mapping) or not all(isinstance(name, str) for name in returned):
        raise PluginError(f"{call} returned {type(returned).__name__}; expected a dict of arrays by name")
    try:
        arrays = {name: np.asarray(value) for name, value in returned.items()}
    except Exception as error:  # of a list or tensor of the user
        raise PluginError(f"{call} returned values that are not arrays of numbers: {error}") from None
    if wrong := [name for name, array in arrays.items() if array.dtype.kind not in "fiub"]:
        raise PluginError(f"{call} returned {wrong[0]!r} of type {arrays[wrong[0]].dtype}; expected numbers")
    return {name: np.array(array, dtype or array.dtype, order="C") for name, array in arrays.items()}


def like(returned: Any, expected: Arrays, call: str, dtype: DTypeLike | None = None) -> dict[str, NDArray[Any]]:
    """Return a dict of arrays that has the names and shapes of another one."""
    table = as_table(returned, call, dtype)
    shapes, wanted = ({name: each[name].shape for name in sorted(each)} for each in (table, expected))
    if shapes != wanted:
        raise PluginError(f"{call} returned arrays of the shapes {shapes}; expected {wanted}")
    return table
