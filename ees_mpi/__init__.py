"""Evolvability ES as an MPI program."""

from typing import TYPE_CHECKING, Any

from ees_mpi import plugin
from ees_mpi.version import __version__

if TYPE_CHECKING:
    from ees_mpi.store.reader import Run, open_run

__all__ = ["Run", "__version__", "open_run"]


plugin.register()


def __getattr__(name: str) -> Any:
    # Late, so that `ees-mpi` can set thread counts before anything loads numpy.
    if name in ("Run", "open_run"):
        from ees_mpi.store import reader

        return getattr(reader, name)
    raise AttributeError(f"module 'ees_mpi' has no attribute {name!r}")
