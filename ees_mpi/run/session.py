"""One session of a run: prepare the run, open its parts, check the user's code, create the file last, train, close."""

import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import EesError, Interrupted, RunFileError, before_rollouts, collective
from ees_mpi.generation import Record, State
from ees_mpi.ranks import Ranks
from ees_mpi.run.arrays import sizes_of
from ees_mpi.run.broadcast import read_config, read_on_root
from ees_mpi.run.evaluators import Evaluator, nobody
from ees_mpi.run.loop import Method, Sink, loop
from ees_mpi.run.parts import open_parts, uses_torch
from ees_mpi.run.progress import Counted, Progress
from ees_mpi.terminal import say

if TYPE_CHECKING:  # these import h5py, and only rank 0 has a file
    from ees_mpi.run.sinks import UserSink
    from ees_mpi.run.start import Prepared

LARGE_TABLE = 2**24  # random numbers: about half a second on one core


def run_session(
    ranks: Ranks,
    read: Callable[[], Config],
    prepare: "Callable[[Config], Prepared]",
    max_hours: float | None = None,
    watch: "UserSink | None" = None,
    curves: Path | None = None,
) -> Path:
    """Train until the last generation; return the path of the run file on every rank.

    Only rank 0 opens the run file. `read`: returns the config and runs no code of the user, so that the time limit
    holds for `prepare`, which does. `watch`: a function of the user; `curves`: a folder for TensorBoard.
    """
    ranks.stop_when_asked()
    if max_hours is not None:
        ranks.deadline = time.monotonic() + 3600 * max_hours
    prepared: Prepared | None = None  # on rank 0

    def prepare_run() -> tuple[Path, Config, State]:
        nonlocal prepared
        if curves:
            from ees_mpi.run import tensorboard

            tensorboard.check(curves)
        with before_rollouts():
            prepared = prepare(asked)
        return prepared.path, prepared.config, prepared.state

    asked = read_config(ranks, read)
    try:
        path, config, state = read_on_root(ranks, prepare_run)
        ranks.run_file = path
        if prepared and prepared.writer and (warning := prepared.writer.pop_warning()):
            say(f"warning: {warning}")
        if not ranks.any(prepared is not None and prepared.finished):
            _train(ranks, config, state, prepared, watch, curves)
        with ranks.together():
            if prepared:
                prepared.close()
    except EesError as error:
        with suppress(RunFileError):  # the first error says more, and the journal keeps everything
            # If other ranks may have failed, too, rank 0 must report it before they do; folding takes time.
            if prepared:
                prepared.close(fold=error.collective or ranks.size == 1)
        if isinstance(error, Interrupted):
            _check_there(ranks, prepared)
            raise collective(Interrupted(f"{error}, {how_to_continue(path)}")) from None
        raise
    except BaseException:
        with suppress(OSError):
            if prepared:
                prepared.close(fold=False)  # the process may go on, and resume the run
        raise
    if prepared:
        count = prepared.config.run.generations
        say(f"{prepared.named}: {count} generation{'s' * (count > 1)}, complete")
    return path


def on_others(max_hours: float | None) -> Callable[[Ranks], Path]:
    """Return the session of the ranks other than 0, which read no config and no file."""
    return partial(run_session, read=_on_rank_0, prepare=_on_rank_0, max_hours=max_hours)


def _on_rank_0(*words: object) -> NoReturn:
    raise TypeError("only rank 0 reads the config and prepares the file")


def how_to_continue(path: str | Path) -> str:
    """Return the end of a sentence about an interrupted run."""
    return f"and `ees-mpi resume {shlex.quote(str(path))}` continues the run"


def _check_there(ranks: Ranks, prepared: "Prepared | None") -> None:
    """Raise a RunFileError on all ranks if somebody has removed the run file: its generations are not saved."""
    with ranks.together():
        if prepared and not prepared.path.exists():
            raise RunFileError(f"{prepared.path} was removed while this run was writing; its generations are not saved")


def _train(
    ranks: Ranks,
    config: Config,
    state: State,
    prepared: "Prepared | None",
    watch: "UserSink | None",
    curves: Path | None,
) -> None:
    """Open the parts of the run, create its file or note the session in it, and train."""
    if prepared and config.noise.size >= LARGE_TABLE and config.method.name != "maml":
        say(f"{prepared.named}: a table of {config.noise.size:,} random numbers is being made")
    method, evaluator = _opened(ranks, config)
    with closing(evaluator), ExitStack() as watching:
        is_new = ranks.any(prepared is not None and prepared.is_new)
        if is_new and evaluator.described["device"] == "cpu" and config.task.own_code and config.task.deterministic:
            from ees_mpi.run.determinism import check_deterministic

            check_deterministic(config, method.ask(state), ranks)
        sinks: list[Sink] = []
        with ranks.together():
            if prepared:
                from ees_mpi.run.sinks import committing

                writer = prepared.begin(ranks, evaluator.described)  # creates a new file
                _greet(ranks, prepared)
                progress = watching.enter_context(Progress(config, state.generation, writer.pop_warning))
                sinks = [committing(writer), *_counting(ranks, config, state, evaluator, progress), progress]
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


def _counting(ranks: Ranks, config: Config, state: State, evaluator: Evaluator, progress: Progress) -> list[Sink]:
    """Count the individuals of the first generation in a log file: it may take minutes, and no pace is known yet."""
    if progress.has_bar:
        return []
    counted = Counted(ranks, config.population.size, f"generation {state.generation + 1}")
    evaluator.watch = counted

    def end(record: Record, following: State) -> None:
        evaluator.watch = nobody
        counted.close()

    return [end]


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
