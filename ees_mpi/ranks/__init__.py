"""The ranks of a run, and everything that they do together.

`Ranks` is one process without MPI. `MpiRanks` has the same methods over MPI; its module is the only one that imports
mpi4py. Code that takes a `Ranks` works with both. It does not depend on the rank, except that only rank 0 writes.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ees_mpi.ranks.process import act_on_stops, begin_start, disarm, launched, note_stops

if TYPE_CHECKING:
    from ees_mpi.ranks.launch import UserLoop, call, run
    from ees_mpi.ranks.serial import Ranks

__all__ = [
    "Ranks",
    "UserLoop",
    "act_on_stops",
    "begin_start",
    "call",
    "disarm",
    "launched",
    "note_stops",
    "run",
]
_LATER = {"Ranks": "serial", "UserLoop": "launch", "call": "launch", "run": "launch"}  # these modules load numpy


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"ees_mpi.ranks.{_LATER[name]}"), name)
    raise AttributeError(f"module 'ees_mpi.ranks' has no attribute {name!r}")
