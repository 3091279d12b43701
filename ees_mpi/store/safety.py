"""Open an HDF5 file that may be damaged, or made by a stranger.

HDF5 files can refer to other files, and to code: external links, external storage, virtual datasets, filters. Run files
use none of these. A file that does is refused before anything in it is read or written.
"""

import errno
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from ees_mpi.errors import ConfigError, EesError, RunFileError
from ees_mpi.store import texts
from ees_mpi.store.heaps import CheckedFile

OBJECTS = 2000  # at most, in one file; a run file has less than 100
NO_DAMAGE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
SLACK_BYTES = 1 << 20  # rows that were never written need no space
LAYOUTS = (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED)
KINDS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING, h5py.h5t.ENUM)  # numbers, texts, truth values


def real(path: str | Path) -> Path:
    """Return the path without symbolic links; the journal and the lock are beside that file."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; a zero byte in the name
        raise RunFileError(f"{path} is not a usable path: {error}") from None


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


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn every error of reading a damaged file into a RunFileError. This is the one place that does so."""
    try:
        yield
    except ConfigError as error:
        raise RunFileError(f"{path} cannot be read by this version of ees_mpi: {error}") from None
    except EesError:
        raise
    except OSError as error:
        if error.errno in NO_DAMAGE:
            raise
        raise RunFileError(_damaged(path, error)) from None
    except Exception as error:  # damaged bytes can raise anything, in h5py, numpy, json and msgspec
        raise RunFileError(_damaged(path, error)) from None


def _damaged(path: Path, error: Exception) -> str:
    text = " ".join(str(error).split())[:300] or type(error).__name__
    return f"{path} is damaged, or was not written by ees_mpi: {text}"


def open_hdf5(path: Path) -> h5py.File:
    """Open a file for reading and check that it is safe."""
    if path.is_dir():
        raise RunFileError(f"{path} is a folder; expected a run file")
    try:
        opened = CheckedFile(open_plain(real(path)))
    except FileNotFoundError:
        raise RunFileError(f"{path} does not exist") from None
    try:
        # The writer replaces the file and never changes it in place: no lock is needed.
        file = h5py.File(opened, "r")
    except (OSError, RuntimeError, ValueError) as error:
        raise RunFileError(f"{path} is not a readable HDF5 file, or truncated: {error}") from None
    try:
        check_safe(file, path)
    except BaseException:
        file.close()
        raise
    return file


def check_ours(path: Path) -> None:
    """Raise a RunFileError if `--overwrite` would replace a file that ees_mpi did not write."""
    if not path.is_file():
        return
    try:
        with open_hdf5(path) as file, damage_reported(path):
            ours = str(texts.attributes(file).get("format", "")).startswith("ees_mpi ")
    except RunFileError:
        ours = False
    if not ours:
        raise RunFileError(
            f"{path} was not written by ees_mpi, or is damaged: --overwrite does not replace it; delete it first, or "
            "choose another name"
        )


def check_safe(file: h5py.File, path: Path) -> None:
    """Raise a RunFileError if a file refers to anything outside itself, or claims more data than it can hold.

    This is most of the work of opening a small file, so it uses the functions of HDF5 without h5py's objects.
    """
    with damage_reported(path):
        size = file.id.get_filesize()
        if file.id.get_create_plist().get_sizes() != (8, 8):
            raise RunFileError(f"{path} is refused: its sizes and addresses do not have 8 bytes")
        root = h5py.h5g.open(file.id, b"/")
        groups = [("", root)]
        seen = {_address(root)}
        claimed = 0  # bytes
        while groups:
            place, group = groups.pop()
            for key in group:
                name = f"{place}/{key.decode('utf-8', 'surrogateescape')}"
                item = _own(group, key, name, path)
                if _address(item) in seen or len(seen) > OBJECTS:
                    raise RunFileError(f"{path} is refused: {name} is a second name of an object, or one of too many")
                seen.add(_address(item))
                if isinstance(item, h5py.h5g.GroupID):
                    groups.append((name, item))
                elif isinstance(item, h5py.h5d.DatasetID):
                    claimed += _check_dataset(item, name, path)
                    if claimed > size + SLACK_BYTES:
                        raise RunFileError(f"{path} is refused: its datasets claim {claimed} bytes in a file of {size}")
                else:
                    raise RunFileError(f"{path} is refused: {name} is neither a group nor a dataset")


def _own(group: h5py.h5g.GroupID, key: bytes, name: str, path: Path) -> Any:
    """Return a member of a group; refuse links that are followed by name."""
    link = group.links.get_info(key).type
    if link != h5py.h5l.TYPE_HARD:
        kind = "an external link" if link == h5py.h5l.TYPE_EXTERNAL else "a soft link"
        raise RunFileError(f"{path} is refused: {name} is {kind}, which a run file never has")
    return h5py.h5o.open(group, key)


def _check_dataset(dataset: h5py.h5d.DatasetID, name: str, path: Path) -> int:
    """Return the number of bytes that a dataset claims; refuse data in other files, filters, and unusual types."""
    plist, kind = dataset.get_create_plist(), dataset.get_type()
    problem = ""
    if plist.get_external_count() or plist.get_layout() not in LAYOUTS:
        problem = "keeps its data in other files"
    elif plist.get_nfilters():  # a few compressed bytes can grow to any size
        problem = "needs filters, which a run file never has; `h5repack -f NONE` removes them"
    elif plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        problem = "has a value for rows that were never written"
    elif kind.get_class() not in KINDS:
        problem = "holds neither numbers nor texts"
    if problem:
        raise RunFileError(f"{path} is refused: {name} {problem}")
    return math.prod(map(int, dataset.shape or ())) * int(kind.get_size())


def _address(item: Any) -> Any:
    return h5py.h5o.get_info(item).addr
