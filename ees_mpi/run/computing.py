"""What surrounds every call of this package. It imports no numpy, because threads must be set before numpy loads."""

from collections.abc import Iterator
from contextlib import contextmanager

from ees_mpi import machine
from ees_mpi.registry.search import searching


@contextmanager
def computing() -> Iterator[None]:
    """Compute with one thread in a block; modules are searched as before afterwards."""
    with machine.one_thread(), searching():
        from ees_mpi.registry import plugins

        plugins.forget()
        yield
