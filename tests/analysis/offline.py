"""Small run files for the analysis, and its commands, in this process: nothing here needs MPI."""

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import h5py
import numpy as np

from ees_mpi.cli import main as cli
from ees_mpi.runs import starting_point as origin
from ees_mpi.config import load
from ees_mpi.noise import NoiseTable
from ees_mpi.ranks import Ranks
from ees_mpi.state import first_state
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import Job, train

SMALL = ("population.size=8", "noise.size=100000", "run.generations=3", "run.fsync=false")


class Said(NamedTuple):
    code: int
    out: str
    err: str


def ees(*arguments: object) -> Said:
    """Run `ees-mpi ARGUMENTS` here."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["ees-mpi", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as leaving:
            return Said(int(leaving.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("main returned")


def refused(*arguments: object) -> tuple[int, str]:
    """Run a command that must fail with one line, say nothing else, and leave no file."""
    before = sorted(os.listdir())
    said = ees(*arguments)
    assert said.err.startswith("ees-mpi: ") and said.err.count("\n") == 1 and said.out == "", said
    assert sorted(os.listdir()) == before
    return said.code, said.err


def walk(path: Path, preset: str, *settings: str, start: Path | None = None, closed: bool = True) -> Path:
    """Train a small run for real; `closed`: False leaves it as a running or killed one is, in its journal."""
    steps = [] if preset.startswith("interference") else ["task.steps=6"]
    config = load(preset, [*SMALL, *steps, *settings])
    state, note = origin.first_state_from(str(start), config) if start else (first_state(config), "")
    writer = RunWriter.create(path, config, state.arrays(), started_from=note)
    writer.begin_session(0, 1, 1, {"numpy": "0"})
    noise = NoiseTable(config.noise_seed, config.noise.size, Ranks())
    train(Job(config, config.task.open(config.run.seed), noise, Ranks()), state, writer)
    if closed:
        writer.close()
    else:
        writer._journal.close()
        writer._lock.release()
    return path


def seeds(
    folder: Path, model: Path, name: str, behaviors: Sequence[np.ndarray], edit: Callable[[str], str] = str
) -> list[Path]:
    """Make runs like another, whose offspring of the last generation ended elsewhere; `edit` changes their config."""
    paths = []
    for number, behavior in enumerate(behaviors):
        path = folder / f"{name}-{number}.h5"
        path.write_bytes(model.read_bytes())
        with h5py.File(path, "r+") as file:
            file.attrs["run_id"] = f"{name}-{number}"
            file.attrs["config"] = edit(str(file.attrs["config"]))
            rows = file["generations/behavior"]
            rows[-1] = np.resize(behavior, rows.shape[1:])
        paths.append(path)
    return paths
