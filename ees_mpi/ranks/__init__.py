"""The ranks of a run and everything they do together.

`Ranks` is one process without MPI. `World` has the same face over MPI; its module is the only one that imports
mpi4py. Code that takes a `Ranks` works with both and has no branches on the rank, but for "rank 0 writes".
"""

from ees_mpi.ranks.alone import Ranks
from ees_mpi.ranks.launch import launched, run, tell

__all__ = ["Ranks", "launched", "run", "tell"]
