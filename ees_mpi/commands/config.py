"""`ees-mpi config`: the whole config of a preset, a config file or a run file; in Python also of a dict."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ees_mpi.commands.arguments import text_of
from ees_mpi.config import Config, load, parse
from ees_mpi.store.reader import open_run


def resolve(source: Any, settings: Sequence[str]) -> Config:
    """Return the config of a preset, a .toml file, a run file, a dict or a Config, changed by `settings`."""
    text = text_of(source)
    if text is not None:
        config = parse(text, settings, trusted=True)
        return replace(config, task=config.task.resolved())
    if is_run_file(source):
        with open_run(source) as run:
            return parse(run.config.to_toml(), settings, f"the config in {source}")
    return load(os.fspath(source), settings)


def is_run_file(source: Any) -> bool:
    """Return True if a source names a file other than a .toml file."""
    return isinstance(source, (str, os.PathLike)) and Path(source).suffix != ".toml" and Path(source).is_file()
