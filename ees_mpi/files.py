"""Writing an output file: it is checked before the work begins, and it is complete or absent."""

import errno
import glob
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ees_mpi.errors import ConfigError, EesError, RunFileError

OTHERS = {".npz": "policies", ".toml": "configs", ".journal": "journals", ".lock": "locks"}  # that have such names
SHELF = "shelf:"  # before the name of a trained mean of the package
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_writable(
    target: Path, option: str = "-o", suffixes: Sequence[str] = (), sources: Sequence[Path] = ()
) -> None:
    """Raise a ConfigError if `target` cannot be written, before any work is done.

    suffixes: of which the target must have one; sources: input files, which the target must not replace
    """
    check_not_input(target, option, sources)
    if suffixes and target.suffix.lower() not in suffixes:
        raise ConfigError(f"{option} {target}: expected a name that ends in {', '.join(suffixes)}")
    if target.is_dir():
        raise ConfigError(f"{option} {target}: this is a folder; expected the name of a file")
    if not (folder := folder_of(target)).is_dir():
        raise ConfigError(f"{option} {target}: {folder} is not a folder")
    probe = beside(folder / target.name)
    try:  # permissions are not enough: a file system can be read-only or full
        open(probe, "xb").close()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"{option} {target}: no file can be written there: {error.strerror}") from None


def check_no_folder(name: str, value: str | os.PathLike[str]) -> None:
    """Raise an error if the name of an output is that of a folder; a Path has no slash at its end any more."""
    if os.fspath(value).endswith("/") or not Path(value).name:
        raise ConfigError(f"{name} {value}: this is a folder; expected the name of a file")


def check_new(target: Path, overwrite: bool) -> None:
    """Raise a RunFileError if an output exists; the last check, so that `--overwrite` replaces it indeed."""
    if target.exists() and not overwrite:
        cure = "use --overwrite (in Python: overwrite=True) to replace it, or choose another name"
        raise RunFileError(f"{target} exists already; {cure}")


def check_folder(path: Path) -> None:
    """Raise an error if no run file can be created at a path; its folder may be missing."""
    if path.suffix in OTHERS:
        named, others = Path(path.stem).with_suffix(".h5"), f"names in {path.suffix} are those of {OTHERS[path.suffix]}"
        raise ConfigError(f"{path}: {others}; expected the name of a run file, such as {named}")
    if path.is_dir():
        raise RunFileError(f"{path} is a folder; expected the name of a run file, for example {path}/run.h5")
    if path.exists() and not path.is_file():
        raise RunFileError(f"{path} is not a plain file; expected the name of a run file")
    if not (folder := folder_of(path)).is_dir():
        raise RunFileError(f"{path}: {folder} is not a folder")


def folder_of(target: Path) -> Path:
    """Return the folder of an output; if it is missing, the folder in which it will be created."""
    return next(folder for folder in target.parents if os.path.lexists(folder))


def check_not_input(target: Path, option: str, sources: Sequence[Path]) -> None:
    """Raise a ConfigError if an output is one of the input files, also through a symbolic or hard link."""
    for source in sources:
        if target.exists() and source.exists() and target.samefile(source):
            raise ConfigError(f"{option} {target}: this is the input {source}; expected another name for the output")


def beside(target: Path) -> Path:
    """Return a unique temporary name in the folder of a file, with the same suffix."""
    return target.with_name(f".{target.stem}-{secrets.token_hex(6)}.new{target.suffix}")


@contextmanager
def replaced(target: Path, full_disk: type[EesError] = EesError, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary name to write to, and rename it to `target` at the end; an error leaves no file behind.

    The folder of the target is created, if it is missing. Without `overwrite`, the file of another process that was
    faster stays, and an error names this one: its work may have taken hours.
    """
    fresh, missing = beside(target), [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield fresh
        if target.exists() and not overwrite:
            kept = fresh.replace(target.with_stem(f"{target.stem}-{secrets.token_hex(3)}"))
            raise RunFileError(f"{target} exists now: another process has written it; this result is in {kept}")
        os.replace(fresh, target)
    except EesError as error:  # the user does not know the temporary name
        error.args = (str(error).replace(fresh.name, target.name),)
        raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise full_disk(f"{target} could not be written: {error.strerror}") from None
    finally:
        for left in fresh.parent.glob(f"{glob.escape(fresh.name)}*"):  # with its journal and lock
            left.unlink(missing_ok=True)
        for folder in missing:
            with suppress(OSError):  # it was not created, or is not empty
                folder.rmdir()


@contextmanager
def written(target: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file for writing, and rename it to `target` at the end."""
    text: dict[str, Any] = {} if "b" in mode else {"newline": "", "encoding": "utf-8"}
    with replaced(target) as fresh, open(fresh, mode, **text) as file:
        yield file
