"""What surrounds a call of this package: one thread, the places where modules of the user are searched, and digests.

The order is Python's path, the folder of the config file, the present folder. So a file of the user cannot replace an
installed module. The folder of a run file is not searched: such a file is data. After a call everything is as before,
`sys.path`, too.
"""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.machinery import PathFinder
from typing import Any

from ees_mpi import machine

FOLDERS: list[str] = []  # of config files: of the call that is running, or between calls of what the user has loaded
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED = PACKAGE + os.sep, os.path.dirname(os.__file__) + os.sep  # this package, and Python's own modules
SITE = ("site-packages", "dist-packages")
LOADED: set[str] = set()  # modules that were imported here; a file of one that a program had imported may be newer
_digests: dict[str, tuple[Any, str, set[str]]] = {}  # by module: its spec, its digest, the modules of configs it is for
MADE: dict[Hashable, Any] = {}  # of the user's code, by the call that is running, or after it
_added: list[list[str]] = []  # to sys.path, by each call that is running


@contextmanager
def searching(*folders: str) -> Iterator[None]:
    """Search modules in these folders, too, during a call, and in all that it adds; nothing stays afterwards."""
    before = list(FOLDERS)
    FOLDERS[:] = folders
    _added.append([])
    try:
        yield
    finally:
        FOLDERS[:] = before
        for folder in _added.pop():
            with suppress(ValueError):  # the user's code may have removed it
                sys.path.remove(folder)


@contextmanager
def computing() -> Iterator[None]:
    """Surround a call of this package: compute with one thread, and search modules as before afterwards.

    Threads must be set before numpy loads, so this module does not import it.
    """
    with machine.one_thread(), searching():
        MADE.clear()  # in a notebook, the user's code may have changed
        yield


def also(folders: Sequence[str]) -> None:
    """Search modules also in the folders of a config file, until the call ends."""
    FOLDERS[:] = [*(other for other in FOLDERS if other not in folders), *folders]


@contextmanager
def on_path() -> Iterator[None]:
    """Let Python find the user's modules: until the call ends, or in the block if there is none."""
    importlib.invalidate_caches()  # the user may have just written the file
    with nullcontext() if _added else searching(*FOLDERS):
        fresh = [folder for folder in dict.fromkeys([*FOLDERS, ""]) if folder not in sys.path]
        sys.path += fresh
        _added[-1] += fresh
        yield


def places() -> str:
    """Return the places in which modules are searched, in words."""
    configs = "".join(f", beside the config in {folder}" for folder in FOLDERS)
    present = f"in the present folder {os.getcwd()}; for another folder: PYTHONPATH=FOLDER"
    return f"on Python's path{configs}, {present}"


def is_another(module: str) -> bool:
    """Return whether the config file has another file beside it than that of the loaded module."""
    name = module.partition(".")[0]
    file = _real(getattr(_found(name), "origin", None))
    beside = bool(file) and file.startswith(os.path.join(os.path.realpath(FOLDERS[-1]), "")) if FOLDERS else False
    return beside and file != _real(getattr(sys.modules[name], "__file__", None))


def _real(file: Any) -> str:
    return os.path.realpath(file) if isinstance(file, str) else ""


def _found(name: str) -> Any:
    """Return the spec of a module that nobody has imported, as Python would find it; it may be beside the config."""
    for finder in sys.meta_path:
        if hasattr(finder, "find_spec") and (spec := finder.find_spec(name, None)) is not None:
            return spec
    return PathFinder.find_spec(name, FOLDERS[-1:])


def note_digests(main: str, folder: str) -> None:
    """Note the digests of a module of the user, and of those that it has imported from its folder."""
    others = {name for _, _, mains in _digests.values() for name in mains} - {main}
    for name in (LOADED & sys.modules.keys()) - others:
        spec = inspect.getattr_static(sys.modules[name], "__spec__", None)  # does not load a lazy module
        file = str(getattr(spec, "origin", None) or "")
        installed = file.startswith(INSTALLED) or not {*SITE}.isdisjoint(file.split(os.sep))
        if name != main and (installed or not file.startswith(folder)):
            continue
        known, digest, mains = _digests.get(name, (None, "", set()))
        with suppress(OSError, ValueError):  # it may have no file
            if known is not spec:  # a reload makes another spec
                with open(file, "rb") as opened:
                    digest = hashlib.file_digest(opened, "sha256").hexdigest()
            _digests[name] = spec, digest, mains | {main}


def sources(config: str) -> dict[str, str]:
    """Return digests of the files that a config (as TOML) names, and of those that they import from their folders.

    Sessions keep them, `machine.differences` compares them.
    """
    named = {main for _, _, mains in _digests.values() for main in mains if f'"{main}:' in config}
    return {f"own_code {name}": digest[:12] for name, (_, digest, mains) in _digests.items() if mains & named}
