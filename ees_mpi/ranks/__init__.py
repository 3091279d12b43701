"""The ranks of a run, and everything that they do together.

`Ranks` is one process without MPI. `World` has the same methods over MPI; its module is the only one that imports
mpi4py. Code that takes a `Ranks` works with both. It does not depend on the rank, except that only rank 0 writes.
"""

from ees_mpi.ranks.launch import call, run
from ees_mpi.ranks.launcher import launched
from ees_mpi.ranks.serial import Ranks
from ees_mpi.ranks.signals import accept_stop_signals, note_early_signals
from ees_mpi.ranks.user_loop import UserLoop

__all__ = ["Ranks", "UserLoop", "accept_stop_signals", "call", "launched", "note_early_signals", "run"]
