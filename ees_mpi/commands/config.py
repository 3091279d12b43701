"""`ees-mpi config`: the whole config of a preset, a config file or a run file."""

import os
from collections.abc import Sequence
from pathlib import Path

from ees_mpi.config import Config, load, parse
from ees_mpi.store.reader import open_run


def resolve(source: str, settings: Sequence[str]) -> Config:
    """Return the config of a preset, a .toml file or a run file, changed by `settings`."""
    path = Path(source)
    if path.suffix != ".toml" and os.path.exists(path) and not os.path.isdir(path):
        with open_run(path) as run:
            return parse(run.config.to_toml(), settings, f"the config in {path}")
    return load(source, settings)
