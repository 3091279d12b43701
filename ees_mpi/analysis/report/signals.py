"""The signal of some gradients of a run, if it is quick to compute; otherwise the command that computes it."""

from collections.abc import Sequence

from ees_mpi.analysis.numbers.signals import LEGEND, table
from ees_mpi.analysis.numbers.tables import Row
from ees_mpi.commands.signal import SPLITS, choose, measure_signal
from ees_mpi.errors import EesError
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run

MOST = 2e9  # numbers of noise and of kernels that are added up, at most: a few seconds


def measured(run: Run) -> tuple[Sequence[Row], str]:
    """Return the table of signals and its legend; without a table: a sentence that says why."""
    try:
        generations = choose(run, None, None)
        size = run.config.population.size
        work = size * (run["mean"][0].size + size) * SPLITS * len(generations) + run.config.noise.size
        if work > MOST:
            return [], f"It takes some time to compute: ees-mpi signal {run.path.name}"
        return table(list(measure_signal(Ranks(), run, generations))), LEGEND
    except EesError as error:
        return [], f"Not measured: {error}"
