"""The mpirun beside this Python or on the PATH, and the environment in which the tools start it."""

import os
import shutil
import sys
from pathlib import Path

BESIDE = Path(sys.executable).parent / "mpirun"
MPIRUN = str(BESIDE if BESIDE.exists() else shutil.which("mpirun") or "mpirun")
SETTINGS = Path(__file__).with_name("mpirun.env")  # tools/setup.sh reads the same file


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which mpirun starts more ranks than cores, unbound, and also as root."""
    settings = dict(line.split("=", 1) for line in SETTINGS.read_text().splitlines())
    return {**os.environ, **settings, **more}
