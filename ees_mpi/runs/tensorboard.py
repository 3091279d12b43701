"""Curves of a run for TensorBoard: rank 0 writes the metrics of each generation after its commit."""

import importlib
import math
from pathlib import Path
from typing import Any

from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.generation.results import Record

WRITERS = ("tensorboardX", "torch.utils.tensorboard")  # the first one imports faster
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


class Curves:
    """Writes one point per metric and generation into a folder of the run: FOLDER/RUN. Without a folder: nothing."""

    def __init__(self, folder: Path | None, run: Path):
        self._folder = folder and folder / run.stem
        self._writer: Any = None

    def __enter__(self) -> "Curves":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def update(self, record: Record) -> None:
        """Write the metrics of a generation, except those that are not finite."""
        if self._folder is None:
            return
        if self._writer is None:
            # A session that was killed, or a run that was overwritten, may have left points from here on: hide them.
            # The names of the files have seconds only, and two sessions may begin in one second.
            options = {"flush_secs": FLUSH_SECONDS, "filename_suffix": f".{record.generation:08d}"}
            self._writer = _writer()(str(self._folder), purge_step=record.generation, **options)
        for name, value in record.metrics.items():
            if math.isfinite(value):
                self._writer.add_scalar(name, value, record.generation)
