"""`ees-mpi` that writes down which HDF5 files and journals each rank opens, into the folder EES_OPENED."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from ees_mpi import machine

machine.pin_threads()

import h5py  # noqa: E402

from ees_mpi.cli.main import main  # noqa: E402
from ees_mpi.store.safety import OpenedFile  # noqa: E402

opened: list[str] = []
open_file = h5py.File.__init__


def noting(self: h5py.File, name: Any, *arguments: Any, **options: Any) -> None:
    """Open an HDF5 file, and note its name."""
    if isinstance(name, OpenedFile):
        opened.append(os.path.basename(os.readlink(f"/proc/self/fd/{name.fileno()}")))
    open_file(self, name, *arguments, **options)


def note(event: str, arguments: tuple[Any, ...]) -> None:
    """Note a journal that Python opens."""
    if event == "open" and str(arguments[0]).endswith(".journal"):
        opened.append(os.path.basename(arguments[0]))


h5py.File.__init__ = noting
sys.addaudithook(note)
try:
    main()
finally:
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    Path(os.environ["EES_OPENED"], f"rank{rank}.json").write_text(json.dumps(opened))
