"""`ees-mpi sweep`: print one `ees-mpi train` command for each run of a sweep."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ees_mpi.config.sweeps import members, named


def sweep(source: str, settings: Sequence[str], seeds: Sequence[int], out: Path | None) -> list[str]:
    """Return a command line for every combination of values and seeds; `out`: the folder of the run files."""
    lines = []
    for run in named(source, members(settings, seeds)):
        chosen = [word for setting in run.settings for word in ("--set", setting)]
        seed = [] if run.seed is None else ["--seed", str(run.seed)]
        file = str((out or Path()) / run.file)
        lines.append(shlex.join(["ees-mpi", "train", source, *chosen, *seed, "--out", file]))
    return lines
