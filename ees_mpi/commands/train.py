"""`ees-mpi train`: the request becomes a session of training."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ees_mpi import config as configs
from ees_mpi.commands.arguments import check_no_mean
from ees_mpi.commands.requests import TrainRequest, changes_of, policy_of
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_folder, check_not_input
from ees_mpi.ranks import Ranks
from ees_mpi.run import session, start
from ees_mpi.run.file import check_ours
from ees_mpi.run.loop import UserSink
from ees_mpi.run.parts import first_state
from ees_mpi.run.start import Prepared
from ees_mpi.store.writer import has_generations

if TYPE_CHECKING:
    from ees_mpi.foreign.policy_files import PolicySource
    from ees_mpi.run.starting_point import StartingPoint


def job_of(request: TrainRequest, watch: UserSink | None = None) -> Callable[[Ranks], Path]:
    """Return the job that trains on all ranks, and returns the path of the run file."""
    if request.resume and request.overwrite:
        raise ConfigError("resume and overwrite exclude each other")
    source: Any = check_no_mean(request.config)
    if request.start is None and (request.layers or request.normaliser or request.activation):
        raise ConfigError("--layers, --normaliser and --activation describe the policy of --from; add --from")
    short = {"run.generations": request.generations, "run.seed": request.seed}
    settings = (*changes_of(request.settings), *((key, value) for key, value in short.items() if value is not None))
    return partial(
        session.run_session,
        read=partial(start.read, source, settings, request.trust),
        prepare=partial(prepare, request),
        max_hours=request.max_hours,
        watch=watch,
        curves=None if request.tensorboard is None else Path(request.tensorboard).absolute(),
    )


def prepare(request: TrainRequest, config: Config) -> Prepared:
    """Prepare the run of a request, on rank 0: a new one, or with `resume` that of an existing file."""
    given: Any = request.config
    config = start.whole(given, config)
    named = _named(request, config)
    path = Path.cwd() / named
    check_folder(path)
    source = None if request.start is None else policy_of(request.start, request)
    begin = _starting_point(source, path, request.trust) if source else None
    if request.overwrite:
        check_ours(path)
    elif path.exists() and not request.resume and has_generations(path):
        configs.check(config)
        check_ours(path)
        cure = "use --resume to continue it, --overwrite to start again, -o for another file"
        cure += " (in Python: resume=True, overwrite=True, out=...)"
        raise RunFileError(f"{named} exists already; {cure}")
    if begin:
        config = begin.fit(config)
    configs.check(config)
    if request.resume and path.exists():
        about, generations = begin.about if begin else None, config.run.generations
        try:
            return replace(start.reopen(path, generations, request.force, config, about, request.trust), named=named)
        except ConfigError:  # perhaps the command was corrected after its first generation had failed
            if has_generations(path):
                raise
    elif request.resume:
        config = replace(config, notes=(*config.notes, f"there is no {named} to resume: a new run begins"))
    config.method.try_out(config.task, config.population)
    new = partial(Prepared, path, named, is_new=True, overwrite=request.overwrite, force=request.force)
    if begin:
        config, state, note = begin.first_state(str(source), config)
        return new(config, state, started_from=note)
    if config.run.needs_start:
        name = given if isinstance(given, (str, Path)) else "config"
        raise ConfigError(f"{name}: its means come from a trained run; expected --from RUN.h5 (run.needs_start)")
    return new(config, first_state(config))


def _starting_point(source: "PolicySource", path: Path, trust: bool) -> "StartingPoint":
    """Return the starting point of `--from`, which is not the file to write."""
    from ees_mpi.run import starting_point  # imports readers of other programs' policies

    if ":" not in str(source):
        check_not_input(path, "--out", [starting_point.parse(str(source))[0]])
    return starting_point.load(source, trust=trust)


def _named(request: TrainRequest, config: Config) -> Path:
    """Return the name of the run file."""
    source: Any = request.config
    if request.out is not None or isinstance(source, Path):
        return Path(request.out or source)
    if not isinstance(source, str):
        raise ConfigError("out: expected the name of the run file; only a preset or a file gives it a name")
    from ees_mpi.config.sweeps import file_name

    return Path(file_name(source, config.run.seed))
