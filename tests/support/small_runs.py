"""Small run files, trained in this process."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ees_mpi.config import Config, load, parse
from ees_mpi.foreign.policy_files import PolicySource
from ees_mpi.generation import Outcomes, Record, State
from ees_mpi.metrics import logged
from ees_mpi.ranks import Ranks
from ees_mpi.run import starting_point
from ees_mpi.run.evaluators import Evaluator
from ees_mpi.run.loop import Method, committing, loop
from ees_mpi.run.parts import first_state, open_parts
from ees_mpi.run.start import begin_session, create
from support.run_files import edited

# The kinds of runs that figures and comparisons show: a preset, and settings.
KINDS: dict[str, tuple[str, ...]] = {
    "cheetah": ("cheetah-maxent",),
    "cheetah1": ("cheetah-maxent", "run.seed=1"),
    "cheetah-es": ("cheetah-es",),
    "narrow": ("cheetah-maxent", "population.std=0.005"),
    "running": ("cheetah-maxvar",),
    "ant": ("ant-maxent",),
    "ant1": ("ant-maxent", "run.seed=1"),
    "ant-es": ("ant-es",),
    "mixture": ("ant-maxent-mixture", "population.size=40"),
    "random": ("ant-adapt",),
    "maxvar": ("interference-maxvar",),
    "maxent": ("interference-maxent",),
    "maxent1": ("interference-maxent", "run.seed=1"),
    # These start from the ant.
    "seeded": ("ant-adapt",),
    "seeded1": ("ant-adapt", "run.seed=1"),
    "backwards": ("ant-adapt", "task.direction=180.0"),
    "split": ("ant-maxent-split", "population.size=40"),
}
FROM_ANT = ("seeded", "seeded1", "backwards", "split")

SMALL = ("population.size=8", "noise.size=100000", "run.generations=3", "run.fsync=false")


def trained(config: Config, report: Callable[..., object] = lambda record: None) -> State:
    """Train a config to its end without a file."""
    method, evaluator = open_parts(config, Ranks())
    with closing(evaluator):
        sinks = [lambda record, following: report(record)]
        return loop(method, evaluator, first_state(config), config.run.generations, sinks, Ranks())


def until(config: Config, generations: int) -> Config:
    """Return a config with another number of generations."""
    return replace(config, run=msgspec.structs.replace(config.run, generations=generations))


def advanced(method: Method, evaluator: Evaluator, state: State) -> tuple[Record, State]:
    """Return the record of one generation, and the state after it."""
    done: list[tuple[Record, State]] = []
    loop(method, evaluator, state, state.generation + 1, [lambda *both: done.append(both)], Ranks())
    return done[0]


def walk(
    path: Path, preset: str, *settings: str, start: Path | None = None, closed: bool = True, stops: Sequence[int] = ()
) -> Path:
    """Train a small run; `closed`: False leaves the last part in the journal, as in a running or killed run.

    `stops`: the generations after which it is folded, and the one with which it ends.
    """
    steps = [] if preset.startswith("interference") else ["task.steps=6"]
    config = load(preset, [*SMALL, *steps, *settings])
    state, note = first_state(config), ""
    if start:
        config, state, note = starting_point.load(PolicySource(start)).first_state(str(start), config)
    writer = create(path, config, state.arrays(), started_from=note)
    begin_session(writer, config, Ranks(), {"numpy": "0"})
    for stop in stops or (config.run.generations,):
        method, evaluator = open_parts(config, Ranks())
        with closing(evaluator):
            state = loop(method, evaluator, state, stop, [committing(writer)], Ranks())
        if stops and stop != stops[-1]:
            writer.fold()
    if closed:
        writer.close()
    else:
        writer.release()
    return path


def shared(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a file that the first worker of xdist which needs it makes, for all of them; tests do not change it."""
    own = factory.getbasetemp()
    path = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared" / f"{name}.h5"
    path.parent.mkdir(exist_ok=True)
    with path.with_suffix(".turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not path.exists():
            make(path)
    return path


class Zoo:
    """A small run of each kind, by name; each is trained when it is first used."""

    def __init__(self, factory: pytest.TempPathFactory):
        self.factory = factory

    def __getitem__(self, name: str) -> Path:
        return shared(self.factory, name, lambda path: self._train(path, name))

    def _train(self, path: Path, name: str) -> None:
        if not KINDS[name][0].startswith("interference"):
            pytest.importorskip("pybullet", exc_type=ImportError)
        start = self["ant"] if name in FROM_ANT else None
        walk(path, *KINDS[name], start=start, closed=name != "running")


def seeds(
    folder: Path, model: Path, name: str, behaviors: Sequence[np.ndarray], edit: Callable[[str], str] = str
) -> list[Path]:
    """Make copies of a run whose last generation has other behaviours, and their metrics; `edit` changes the config."""
    paths = []
    for number, behavior in enumerate(behaviors):
        path = folder / f"{name}-{number}.h5"
        path.write_bytes(model.read_bytes())
        with edited(path) as file:
            file.attrs["run_id"] = hashlib.blake2b(path.name.encode(), digest_size=16).hexdigest()
            text = file.attrs["config"] = edit(file.attrs["config"].decode())
            rows = file["generations"]
            places = np.resize(behavior, rows["behavior"].shape[1:])
            settings, valid = parse(text).metric_settings(), np.isfinite(places).all(axis=1)
            file.attrs["metrics"] = json.dumps(asdict(settings))
            found = Outcomes(places, rows["fitness"][-1], rows["length"][-1], valid, np.zeros((0, 1)))
            for array, values in {"behavior": places, "valid": valid, **logged(found, settings, Ranks())}.items():
                rows[array][-1] = values
        paths.append(path)
    return paths
