"""A new run file of a config, and one that is continued: what the writer of the store notes for a run."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ees_mpi.arrays import Arrays
from ees_mpi.config import Config
from ees_mpi.machine import PROGRAM, commit
from ees_mpi.noise import Noise
from ees_mpi.run.arrays import layout_of
from ees_mpi.store import writer
from ees_mpi.store.writer import Writer

NO_LEARNED = ("generation", "observations")  # arrays of a state beside those that are learned


def create(
    path: Path,
    config: Config,
    state: Arrays,
    overwrite: bool = False,
    force: bool = False,
    kind: str = "run",
    started_from: str = "",
) -> Writer:
    """Create a new file.

    kind: run or study; started_from: JSON about the run that the means come from
    """
    noise, layout = Noise(config.noise_seed, config.noise.size), layout_of(config)
    learned = {name: state[name].shape for name in state if "/" not in name and name not in NO_LEARNED}
    attributes = {
        "program": PROGRAM,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **_of_config(config),
        "seed": config.run.seed,
        "noise_seed": noise.seed,
        "noise_size": noise.size,
        "noise_digest": noise.digest(),
        "learned": json.dumps(learned),
        "metrics": json.dumps(asdict(config.metric_settings(layout.sizes["behavior_dim"]))),
        "kind": kind,
        "started_from": started_from,
    }
    return writer.create(
        path,
        layout.arrays,
        layout.sizes,
        attributes,
        state,
        after="state_sha256",
        clock="seconds_clock",
        fsync=config.run.fsync and kind == "run",  # a study is in place when it is complete
        fold_minutes=config.run.fold_minutes,
        overwrite=overwrite,
        force=force,
    )


def resume(path: Path, config: Config, force: bool = False) -> Writer:
    """Lock a run file, fold the journal of its last writer, and return a new writer."""
    return writer.resume(path, config.run.fsync, config.run.fold_minutes, force)


def begin_session(file: Writer, config: Config, ranks: int, nodes: int, machine: dict[str, str], **more: Any) -> None:
    """Note the ranks, the machine and the config that write from now on; `more`: an earlier start, for example."""
    note_config(file, config)
    values = {
        "ranks": ranks,
        "nodes": nodes,
        "host": os.uname().nodename,
        "machine": json.dumps({**machine, "commit": commit()}),
        "config": config.to_toml(),
    }
    file.begin_session({**values, **more})


def note_config(file: Writer, config: Config) -> None:
    """Change the config in the file, if it is another one: for example after a loop whose length was not known."""
    if file.attributes["config"] != config.to_toml():
        file.change(_of_config(config))


def _of_config(config: Config) -> dict[str, Any]:
    return {"config": config.to_toml(), "until": config.run.generations}
