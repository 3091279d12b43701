"""What surrounds every call of this package. It imports no numpy, because threads must be set before numpy loads."""

from collections.abc import Iterator
from contextlib import contextmanager

from ees_mpi import machine
from ees_mpi.registry import trusting


@contextmanager
def computing(trust: bool) -> Iterator[None]:
    """Compute with one thread in a block; `trust`: run the code that run files name."""
    with machine.one_thread(), trusting(trust):
        from ees_mpi.registry import own

        own.forget()
        yield
