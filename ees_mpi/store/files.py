"""Files of the store: names, opening what may be anything, replacing a file at once, and errors in words."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ees_mpi.errors import ConfigError, EesError, RunFileError

NO_DAMAGE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)


def beside(path: Path, ending: str) -> Path:
    """Return the name of a file that belongs to a run file: `RUN.h5.journal`, for example."""
    return path.with_name(f"{path.name}.{ending}")


def open_plain(path: Path) -> int:
    """Open a file for reading, but follow no symbolic link; raise a RunFileError unless it is a plain file."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)  # a FIFO must not block
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else error.strerror
        raise RunFileError(f"{path} cannot be read: {why}") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise RunFileError(f"{path} is not a plain file")
    return number


def occupy_streams() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr: a file with its number would get all output."""
    number = 0
    while number < 3:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)


def sync(path: Path) -> None:
    """Write a file to disk, or the names in a folder, so that they survive a crash of the machine."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file, and rename it over `path` at the end; an error removes it."""
    fresh = beside(path, "folding")
    fresh.unlink(missing_ok=True)  # a link that somebody placed there is not followed
    try:
        yield fresh
        sync(fresh)
        os.replace(fresh, path)
        sync(path.parent)
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def hdf5_errors() -> Iterator[None]:
    """Turn an error of h5py about the file system, such as a full disk, into an OSError with its number."""
    try:
        yield
    except RunFileError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        number = re.search(r"errno = (\d+)", str(error))
        if number:
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from None
        if isinstance(error, OSError) and error.errno:
            raise
        raise OSError(errno.EIO, " ".join(str(error).split())[:300]) from None


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn every error of reading a damaged file into a RunFileError. This is the one place that does so."""
    try:
        yield
    except ConfigError as error:
        raise RunFileError(f"{path} cannot be read by this version of ees_mpi: {error}") from None
    except EesError:
        raise
    except Exception as error:  # damaged bytes can raise anything, in h5py, numpy and json
        if isinstance(error, OSError) and error.errno in NO_DAMAGE:
            raise
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise RunFileError(f"{path} is damaged, or was not written by ees_mpi: {text}") from None


@contextmanager
def write_errors(path: Path, advice: str = "") -> Iterator[None]:
    """Turn an OSError into a RunFileError; `advice`: its last sentence."""
    try:
        yield
    except RunFileError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        said = f"cannot write {path}: {why}"
        raise RunFileError(f"{said}. {advice}" if advice else said) from None
