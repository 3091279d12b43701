"""`ees-mpi` that writes down which run files and journals each rank opens, into the folder EES_OPENED."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from ees_mpi.cli.main import main

opened: list[str] = []


def note(event: str, arguments: tuple[Any, ...]) -> None:
    """Note a file that Python opens; HDF5 gets an open file."""
    if event == "open" and str(arguments[0]).endswith((".h5", ".journal")):
        opened.append(os.path.basename(arguments[0]))


sys.addaudithook(note)
try:
    main()
finally:
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    Path(os.environ["EES_OPENED"], f"rank{rank}.json").write_text(json.dumps(opened))
