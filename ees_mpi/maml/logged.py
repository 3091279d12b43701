"""Updates computed again from the rollouts that a run has kept (`maml.log_iterations`)."""

from ees_mpi.generation.state import State
from ees_mpi.maml import trpo
from ees_mpi.maml.outer import one_by_one, outer_step, side_by_side
from ees_mpi.maml.rollouts import unstacked
from ees_mpi.maml.tracks import Tracks
from ees_mpi.ranks import Ranks
from ees_mpi.store import rollouts
from ees_mpi.store.reader import Run


def repeat_update(run: Run, generation: int, device: str | None = None) -> trpo.Step:
    """Return the outer step of an iteration, computed like a CPU rank, or like a GPU on a `device` of torch."""
    kept = unstacked(rollouts.read(run, generation))
    pairs = {index: pair for index, pair in kept.items() if run["valid"][generation][index]}
    moments = {"log_std": run["log_std"][generation]}
    state = State(generation, {"mean": run["mean"][generation]}, moments, run.observation_sums(generation))
    if device is None:
        learning = one_by_one(run.config, state, pairs)
    else:
        before, after = (
            Tracks.of([getattr(pair, moment) for pair in pairs.values()], device) for moment in ("before", "after")
        )
        learning = side_by_side(run.config, state, list(pairs), before, after)
    return outer_step(run.config, state, learning, len(pairs), Ranks())[0]
