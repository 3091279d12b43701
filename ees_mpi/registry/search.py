"""Where modules of the user are searched, and which file Python would import, found without importing it.

The order is Python's path, the folder of the config file, the present folder, the folder of the run file. So a file of
the user cannot replace an installed module. After a call everything is as before, `sys.path`, too.
"""

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# Of the call that is running, or between calls of what the user has loaded; the last file is the last.
FOLDERS: list[str] = []  # of config files
RUN_FOLDERS: list[str] = []  # of run files
INSTALLED = ("site-packages", "dist-packages")
Real = Callable[[str], str]  # returns the real path of a folder
_added: list[list[str]] = []  # to sys.path, by each call that is running


@contextmanager
def searching(*folders: str, runs: Sequence[str] = ()) -> Iterator[None]:
    """Search modules in these folders, too, during a call, and in all that it adds; nothing stays afterwards.

    runs: folders of run files
    """
    before = list(FOLDERS), list(RUN_FOLDERS)
    FOLDERS[:], RUN_FOLDERS[:] = folders, runs
    _added.append([])
    try:
        yield
    finally:
        FOLDERS[:], RUN_FOLDERS[:] = before
        for folder in _added.pop():
            with suppress(ValueError):  # the user's code may have removed it
                sys.path.remove(folder)


def beside(path: str | os.PathLike[str], run: bool = False) -> None:
    """Search modules also in the folder of a config file, or of a `run` file, until the call ends."""
    folders, folder = RUN_FOLDERS if run else FOLDERS, os.path.dirname(os.path.abspath(path))
    folders[:] = [*(other for other in folders if other != folder), folder]


@contextmanager
def on_path(module: str, from_file: bool) -> Iterator[None]:
    """Let Python find a module: until the call ends, or in the block if there is none.

    from_file: a run file names it, so it may be beside that file. Only the folder that has the module is searched: what
    it imports, but nobody has installed, could be anything in other folders.
    """
    importlib.invalidate_caches()  # the user may have just written the file
    with nullcontext() if _added else searching(*FOLDERS, runs=RUN_FOLDERS):
        folders = _folders(module) if from_file else [*FOLDERS, ""]
        fresh = [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
        sys.path += fresh
        _added[-1] += fresh
        yield


def places(run_files: bool) -> str:
    """Return the places in which modules are searched, in words; `run_files`: also beside them."""
    configs = "".join(f", beside the config in {folder}" for folder in FOLDERS)
    runs = "".join(f", beside the run file in {folder}" for folder in RUN_FOLDERS if run_files)
    present = f"in the present folder {os.getcwd()}{runs}; for another folder: PYTHONPATH=FOLDER"
    return f"on Python's path{configs}, {present}"


def files(module: str) -> dict[str, str] | None:
    """Return the files that `import package.module` would run now, by module; nothing is imported.

    A package without a file has "". None: there is no such module, or it has no file, as in a notebook or a zip.
    """
    importlib.invalidate_caches()
    found: dict[str, str] = {}
    path: Any = None
    words = module.split(".")
    for count in range(1, len(words) + 1):
        name = ".".join(words[:count])
        if name in sys.modules:
            file, path = file_of(sys.modules[name]), getattr(sys.modules[name], "__path__", ())
        else:
            spec = _found(name, path, _folders(module))
            file, path = _file(spec), getattr(spec, "submodule_search_locations", None) or ()
            if spec is None:
                return None
        found[name] = file
    return found if found[module] else None


def is_another(module: str) -> bool:
    """Return whether the config file has another file beside it than that of the loaded module."""
    name = module.partition(".")[0]
    file = _file(_found(name, None, FOLDERS[-1:])) if FOLDERS else ""
    beside = bool(file) and file.startswith(os.path.join(os.path.realpath(FOLDERS[-1]), ""))
    return beside and file != file_of(sys.modules[name])


def is_installed(file: str) -> bool:
    """Return whether an installer has put a file where it is."""
    return not {*INSTALLED}.isdisjoint(file.split(os.sep))


def digest_of(file: str) -> str:
    """Return the SHA-256 of a file; raise an OSError if it is missing."""
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def file_of(module: Any, real: Real = os.path.realpath, below: str = "") -> str:
    """Return the file of a loaded module; empty if it has none. This does not load a lazy module.

    real: may be one that remembers folders, which is faster for many modules; below: files elsewhere count as none
    """
    plain = type(module) is ModuleType  # `getattr_static` is slow; lazy modules are of other types
    file, name, spec = (
        vars(module).get(name) if plain else inspect.getattr_static(module, name, None)
        for name in ("__file__", "__name__", "__spec__")
    )
    other = isinstance(file, str) and file != _origin(spec)
    return _file(spec, real, below) or (_located(file, str(name), real, below) if other else "")


def _file(spec: Any, real: Real = os.path.realpath, below: str = "") -> str:
    origin = _origin(spec)
    return _located(origin, spec.name, real, below) if isinstance(origin, str) else ""


def _origin(spec: Any) -> Any:
    return getattr(spec, "origin", None) if getattr(spec, "has_location", False) else None


def _located(file: str, module: str, real: Real, below: str) -> str:
    """Return the path of a module's file, with the real path of the folder that Python searched; empty: it is gone.

    Links below that folder stay: what is beside a link is imported, not what is beside its target.
    """
    searched = file = os.path.abspath(file)
    for _ in range(1 + module.count(".") + os.path.basename(file).startswith("__init__.")):
        searched = os.path.dirname(searched)
    path = os.path.join(real(searched), file[len(searched) :].lstrip(os.sep))
    return path if path.startswith(below) and os.path.isfile(file) else ""


def _folders(module: str) -> list[str]:
    """Return the folder that has a module which a run file names; none if Python finds it without one."""
    name = module.partition(".")[0]
    if _found(name, None, []) is not None:
        return []
    return next(([folder] for folder in [*FOLDERS, "", *RUN_FOLDERS] if PathFinder.find_spec(name, [folder])), [])


def _found(name: str, path: Any, folders: list[str]) -> ModuleSpec | None:
    """Return the spec of a module; `path`: that of its package; None: of the top, which may be in `folders`, too."""
    for finder in sys.meta_path:
        if hasattr(finder, "find_spec") and (spec := finder.find_spec(name, path)) is not None:
            return spec
    return PathFinder.find_spec(name, folders) if path is None else None
