"""One session of a run: prepare the run, open its parts, check the user's code, create the file last, train, close."""

import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import EesError, Interrupted, RunFileError, before_rollouts, collective
from ees_mpi.generation import State
from ees_mpi.ranks import Ranks
from ees_mpi.run.arrays import sizes_of
from ees_mpi.run.evaluators import Evaluator, counting
from ees_mpi.run.loop import Method, Sink, UserSink, committing, loop
from ees_mpi.run.parts import config_of_all, open_parts, uses_torch
from ees_mpi.run.progress import Progress
from ees_mpi.terminal import say

if TYPE_CHECKING:  # it imports h5py, and only rank 0 has a file
    from ees_mpi.run.start import Prepared

LARGE_TABLE = 2**24  # random numbers: about half a second on one core


def run_session(
    ranks: Ranks,
    read: Callable[[], Config] | None = None,
    prepare: "Callable[[Config], Prepared] | None" = None,
    max_hours: float | None = None,
    watch: UserSink | None = None,
    curves: Path | None = None,
) -> Path:
    """Train until the last generation; return the path of the run file on every rank.

    Only rank 0 opens the run file, and needs `read` and `prepare`. `read`: returns the config and runs no code of the
    user, so that the time limit holds for `prepare`, which does. `watch`: a function of the user; `curves`: a folder
    for TensorBoard.
    """
    ranks.stop_when_asked()
    if max_hours is not None:
        ranks.deadline = time.monotonic() + 3600 * max_hours
    asked = config_of_all(ranks, read)
    prepared: Prepared | None = None  # on rank 0
    try:
        with ranks.together(), before_rollouts():
            if curves and ranks.is_root:
                from ees_mpi.run import tensorboard

                tensorboard.check(curves)
            if prepare and ranks.is_root:
                prepared = prepare(asked)
        path, config, state, is_new = ranks.from_root(prepared.for_all if prepared else None)
        ranks.run_file = path
        if prepared and prepared.writer and (warning := prepared.writer.pop_warning()):
            say(f"warning: {warning}")
        if state.generation < config.run.generations:
            _train(ranks, config, state, is_new, prepared, watch, curves)
        with ranks.together():
            if prepared:
                prepared.close()
    except BaseException as error:
        with suppress(OSError):  # the first error says more, and the journal keeps everything
            # If other ranks may have failed, too, rank 0 must report it before they do; folding takes time.
            if prepared:
                prepared.close(fold=isinstance(error, EesError) and (error.collective or ranks.size == 1))
        if not isinstance(error, Interrupted):
            raise
        with ranks.together():
            if prepared and not path.exists():
                said = f"{path} was removed or moved while this run was writing"
                raise RunFileError(f"{said}. If it was moved, it can be resumed with its journal beside it") from None
        again = f"and `ees-mpi resume {shlex.quote(str(path))}` continues the run"
        raise collective(Interrupted(f"{error}, {again}")) from None
    if prepared:
        count = config.run.generations
        say(f"{prepared.named}: {count} generation{'s' * (count > 1)}, complete")
    return path


def _train(
    ranks: Ranks,
    config: Config,
    state: State,
    is_new: bool,
    prepared: "Prepared | None",
    watch: UserSink | None,
    curves: Path | None,
) -> None:
    """Open the parts of the run, create its file or note the session in it, and train."""
    if prepared and config.noise.size >= LARGE_TABLE and config.method.name != "maml":
        say(f"{prepared.named}: a table of {config.noise.size:,} random numbers is being made")
    method, evaluator = _opened(ranks, config)
    with closing(evaluator), ExitStack() as watching:
        if is_new and evaluator.described["device"] == "cpu" and config.task.own_code and config.task.deterministic:
            from ees_mpi.run.determinism import check_deterministic

            check_deterministic(config, method.ask(state), ranks)
        sinks: list[Sink] = []
        with ranks.together():
            if prepared:
                writer = prepared.begin(ranks, evaluator.described)  # creates a new file
                _greet(ranks, prepared)
                progress = watching.enter_context(Progress(config, state.generation, writer.pop_warning))
                sinks = [committing(writer), progress]
                if not progress.has_bar:  # in a log file: the first generation may take minutes
                    name = f"generation {state.generation + 1}"
                    first = watching.enter_context(ExitStack())
                    first.enter_context(counting(evaluator, ranks, config.population.size, name))
                    sinks.insert(1, lambda record, following: first.close())
                if curves:
                    from ees_mpi.run import tensorboard

                    sinks.append(watching.enter_context(tensorboard.curves(curves, writer.path, state.generation)))
                if watch:
                    sinks.append(watch)
        loop(method, evaluator, state, config.run.generations, sinks, ranks)


def _opened(ranks: Ranks, config: Config) -> tuple[Method, Evaluator]:
    """Check that all ranks compute alike, and open the parts of the run on each of them."""
    ranks.check_alike(machine.fingerprint(uses_torch(config)))
    with before_rollouts():
        sizes = repr((sizes_of(config), config.task.device)).encode()
        ranks.check_same(sizes, "the task, in its sizes or its device,")
        config.method.check(config.task, config.population)  # a module may be missing on one node only
        return open_parts(config, ranks)


def _greet(ranks: Ranks, prepared: "Prepared") -> None:
    """Print the generations and the number of ranks, with warnings."""
    config, first = prepared.config, prepared.state.generation
    size = config.population.size
    workers = f"{ranks.size} rank{'s' * (ranks.size > 1)} on {ranks.nodes} node{'s' * (ranks.nodes > 1)}"
    rollouts = size * config.task.rollouts * config.method.rollouts
    said = f"{prepared.named}: generations {first} to {config.run.generations} begin on {workers}"
    say(f"{said}, with {rollouts:,} rollout{'s' * (rollouts > 1)} each")
    for note in config.notes:
        say(f"note: {note}")
    slices = config.noise.slices(config.task.parameters)
    if slices < size and prepared.is_new:
        say(f"warning: the noise table has {slices} noise vectors for {size} individuals (noise.size)")
