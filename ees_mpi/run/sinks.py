"""What rank 0 does with each generation: the run file commits it first; then others watch."""

from collections.abc import Callable

from ees_mpi.errors import Interrupted
from ees_mpi.generation import Record, State
from ees_mpi.run.loop import Sink
from ees_mpi.store.writer import Writer


def committing(writer: Writer) -> Sink:
    """Return the sink that commits generations to a run file."""
    return lambda record, following: writer.append(record.arrays, following.arrays())


class UserSink:
    """Calls a function of the user after each commit. If it raises, the run stops, and can be resumed."""

    def __init__(self, function: Callable[[Record], object]):
        self._function = function
        self.error: BaseException | None = None  # of the function: it is raised when all ranks have left

    def __call__(self, record: Record, following: State) -> None:
        try:
            self._function(record)
        except BaseException as error:
            self.error, saved = error, f"{following.generation} generations are saved"
            error.add_note(f"on_generation raised this; {saved}")
            raise Interrupted(f"on_generation raised {type(error).__name__} on rank 0: {error}; {saved}") from error
