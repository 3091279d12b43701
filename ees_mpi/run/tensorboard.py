"""Curves of a run for TensorBoard: rank 0 writes the metrics of each generation after its commit."""

import importlib
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ees_mpi.errors import ConfigError, MissingExtra, RunFileError
from ees_mpi.generation import Record, State
from ees_mpi.run.loop import Sink

WRITERS = ("tensorboardX", "torch.utils.tensorboard")  # the first one imports faster
QUEUE = 10_000  # points: more than a generation has
FLUSH_SECONDS = 1  # a kill may lose the points of this time


def check(folder: Path) -> None:
    """Raise an error if there is no package that writes curves, or if they cannot be written into `folder`."""
    _writer()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--tensorboard {folder}: expected a folder; {error.strerror}") from None


def _writer() -> Any:
    """Return the class that writes curves."""
    for name in WRITERS:
        try:
            return importlib.import_module(name).SummaryWriter
        except ImportError:
            continue
    raise MissingExtra("--tensorboard needs tensorboardX: pip install 'ees_mpi[tensorboard]'")


@contextmanager
def curves(folder: Path, run: Path, first: int) -> Iterator[Sink]:
    """Yield a sink that writes the metrics of a generation into the folder of a run, FOLDER/RUN.

    It writes one point per metric, except those that are not finite. `first`: generation
    """
    # A session that was killed, or a run that was overwritten, may have left points from here on: hide them.
    # The names of the files have seconds only, and two sessions may begin in one second.
    options = {"flush_secs": FLUSH_SECONDS, "filename_suffix": f".{first:08d}", "max_queue": QUEUE}
    others = {*threading.enumerate()}
    writer = _writer()(str(folder / run.stem), purge_step=first, **options)
    writing = {*threading.enumerate()} - others

    def update(record: Record, following: State) -> None:
        if not all(thread.is_alive() for thread in writing):  # its queue would be full soon, and wait for ever
            raise RunFileError(f"--tensorboard {folder}: the curves cannot be written any more")
        for name, value in record.metrics.items():
            if math.isfinite(value):
                writer.add_scalar(name, value, record.generation)

    try:
        yield update
    finally:
        try:
            writer.close()
        except OSError as error:  # of a full disk
            raise RunFileError(f"--tensorboard {folder}: {error.strerror}") from None
