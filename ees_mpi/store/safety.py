"""Open an HDF5 file that may be damaged, or made by a stranger.

HDF5 files can refer to other files, and to code: external links, external storage, virtual datasets, filters. Run files
use none of these, except the checksum of HDF5. A file that does is refused before anything in it is read or written.
Dimension scales are never read: their lists of references are in heaps without a checksum, and HDF5 can hang in a
damaged heap. Texts of variable length are in such heaps, too, and are refused.
"""

import errno
import io
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from ees_mpi.errors import NO_RUN, ConfigError, EesError, RunFileError
from ees_mpi.store import hdf5
from ees_mpi.store.layout import FORMAT_VERSION

OBJECTS = 2000  # at most, in one file; a run file has less than 100
NO_DAMAGE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
Datasets = dict[str, Any]  # h5py.Dataset, by path
KINDS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING, h5py.h5t.ENUM)  # numbers, texts, truth values


class OpenedFile(io.FileIO):
    """An open file, for `h5py.File`. It is closed when h5py drops it."""

    def __del__(self) -> None:
        self.close()


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
    except Exception as error:  # damaged bytes can raise anything, in h5py, numpy, json and msgspec
        if isinstance(error, OSError) and error.errno in NO_DAMAGE:
            raise
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise RunFileError(f"{path} is damaged, or was not written by ees_mpi: {text}") from None


def open_hdf5(path: Path) -> h5py.File:
    """Open a file for reading and check that it is safe."""
    return open_datasets(path)[0]


def open_datasets(path: Path) -> tuple[h5py.File, Datasets]:
    """Open a file for reading and check that it is safe; return it with its datasets, which the check has opened."""
    file = _opened(path)
    try:
        with damage_reported(path):
            _check_version(file, path)
            return file, _safe_datasets(file, path)
    except BaseException:
        file.close()
        raise


def format_of(path: Path) -> str:
    """Return the format that a file names, of which nothing else is read; raise a RunFileError if it has none."""
    with _opened(path) as file, damage_reported(path):
        _check_version(file, path)
        return str(hdf5.attribute(file.attrs, "format"))


def _opened(path: Path) -> h5py.File:
    """Open an HDF5 file, which is not checked yet."""
    if path.is_dir():
        raise RunFileError(f"{path} is a folder; expected a run file")
    try:
        opened = OpenedFile(open_plain(real(path)))
    except FileNotFoundError:
        journal = path.with_name(f"{path.name}.journal")
        moved = f", but {journal} does: move or copy an unfinished run with its journal" if journal.exists() else ""
        raise RunFileError(f"{path} does not exist{moved}; expected a run file") from None
    try:
        # The writer replaces the file and never changes it in place: no lock is needed. HDF5 would refuse to open it by
        # its name without a lock, while another part of this process has it open with one.
        return h5py.File(opened, "r")
    except (OSError, RuntimeError, ValueError) as error:
        why = "is not a readable HDF5 file; expected a run file"
        if "truncated" in str(error):
            why = f"is truncated: more than its {path.stat().st_size} bytes are expected; copy it again"
        elif path.stat().st_size == 0:
            why = "is empty; expected a run file"
        elif path.suffix == ".toml":
            why = "is not a readable HDF5 file, but a config; expected a run file"
        elif path.suffix == ".npz":
            why = NO_RUN
        elif (beside := path.with_name(f"{path.name}.journal")).exists():
            why = (
                "is not a readable HDF5 file. With h5py before 3.16, older versions of ees_mpi wrote such files; "
                f"{beside} has the generations since the last fold, and stays as it is"
            )
        raise RunFileError(f"{path} {why}") from None


def _check_version(file: h5py.File, path: Path) -> None:
    """Raise a RunFileError unless ees_mpi has written a file, in the format of today."""
    version = 0
    attributes = file.attrs
    if "format" in attributes and "format_version" in attributes:
        number = attributes.get_id("format_version")
        if number.get_type().get_class() == h5py.h5t.INTEGER and number.shape == ():
            version = int(attributes["format_version"])
    if version == 0:
        raise RunFileError(f"{path} is HDF5, but not of ees_mpi: expected a run file")
    if version != FORMAT_VERSION:
        raise RunFileError(f"{path} has format {version}; this version of ees_mpi reads format {FORMAT_VERSION}")


def check_ours(path: Path) -> None:
    """Raise a RunFileError if `--overwrite` would replace a file that ees_mpi did not write."""
    if not path.is_file():
        return
    try:
        with open_hdf5(path) as file, damage_reported(path):
            ours = str(hdf5.attributes(file).get("format", "")).startswith("ees_mpi ")
    except RunFileError:
        ours = False
    if not ours:
        kept = "--overwrite does not replace it; choose another name"
        raise RunFileError(f"{path} was not written by ees_mpi, or is damaged: {kept}")


def _safe_datasets(file: h5py.File, path: Path) -> Datasets:
    """Return all datasets; raise a RunFileError if one refers to another file, or has data without a checksum.

    This is most of the work of opening a small file, so it uses the functions of HDF5 without h5py's groups.
    """
    found: Datasets = {}
    root = h5py.h5g.open(file.id, b"/")
    groups, seen = [("", root)], {h5py.h5o.get_info(root).addr}
    while groups:
        place, group = groups.pop()
        keys: list[bytes] = []
        group.links.iterate(keys.append, order=h5py.h5.ITER_NATIVE)  # sorted, HDF5 1.14 can crash in a damaged group
        for key in keys:
            name = f"{place}{key.decode('utf-8', 'surrogateescape')}"
            if group.links.get_info(key).type != h5py.h5l.TYPE_HARD:
                raise RunFileError(f"{path} is refused: /{name} is a link, which a run file never has")
            item = h5py.h5o.open(group, key)
            address = h5py.h5o.get_info(item).addr
            if address in seen or len(seen) > OBJECTS:
                raise RunFileError(f"{path} is refused: /{name} is a second name of an object, or one of too many")
            seen.add(address)
            if isinstance(item, h5py.h5g.GroupID):
                groups.append((f"{name}/", item))
                continue
            if not isinstance(item, h5py.h5d.DatasetID):
                raise RunFileError(f"{path} is refused: /{name} is no dataset")
            if problem := _problem(item, name):
                raise RunFileError(f"{path} is refused: /{name} {problem}")
            found[name] = h5py.Dataset(item, readonly=True)  # it remembers its shape and its type
    return found


def _problem(dataset: Any, name: str) -> str:
    """Return why a dataset is refused: data in other files, without a checksum, or of unusual types; else nothing."""
    plist, kind = dataset.get_create_plist(), dataset.get_type()
    filters = [plist.get_filter(number)[0] for number in range(plist.get_nfilters())]
    layout, grows = plist.get_layout(), name.startswith(("generations/", "sessions/"))
    if plist.get_external_count() or layout not in (h5py.h5d.COMPACT, h5py.h5d.CHUNKED):
        return "keeps its data in other files, or without a checksum"
    if filters != [h5py.h5z.FILTER_FLETCHER32] * (layout == h5py.h5d.CHUNKED):
        return "needs other filters than the checksum of HDF5 (fletcher32)"
    if plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        return "has a value for rows that were never written"
    if kind.get_class() not in KINDS or (isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()):
        return "holds neither numbers nor texts of a fixed length"
    size = 0 if grows else math.prod(map(int, dataset.shape or ())) * int(kind.get_size())
    if size > dataset.get_storage_size():
        return f"claims {size} bytes that the file does not have"
    return ""
