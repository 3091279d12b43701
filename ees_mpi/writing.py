"""Writing a file that was asked for: checked before the work is done, and whole or not there."""

import errno
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from ees_mpi.errors import ConfigError, EesError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_writable(target: Path, option: str = "-o") -> None:
    """Refuse a name under which nothing can be written, before any work is done for it."""
    if target.is_dir():
        raise ConfigError(f"{option} {target}: this is a folder; expected the name of a file")
    if not target.parent.is_dir():
        raise ConfigError(f"{option} {target}: the folder {target.parent} does not exist")
    probe = beside(target)
    try:  # rights alone do not tell: file systems can be read-only, or take no files at all
        open(probe, "xb").close()
    except OSError as error:
        raise ConfigError(f"{option} {target}: no file can be written there: {error.strerror}") from None
    finally:
        probe.unlink(missing_ok=True)


def beside(target: Path) -> Path:
    """Return a name in the folder of a file that no other process has, with the same ending."""
    return target.with_name(f".{target.stem}-{secrets.token_hex(6)}.new{target.suffix}")


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """Give a name to write to, and rename it to its place when all is in it; on the way out nothing else stays."""
    fresh = beside(target)
    with _stoppable():
        try:
            yield fresh
            os.replace(fresh, target)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise EesError(f"{target} could not be written: {error.strerror}") from None
        finally:
            fresh.unlink(missing_ok=True)


@contextmanager
def written(target: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file beside its place and rename it when all is in it: it is whole or not there."""
    text: dict[str, Any] = {} if "b" in mode else {"newline": "", "encoding": "utf-8"}
    with replaced(target) as fresh, open(fresh, mode, **text) as file:
        yield file


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end the program as an exception does, so that what is half-written is removed."""
    plain = threading.current_thread() is threading.main_thread()
    if not plain or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
