"""What the tests share: commands in real processes, and small configs."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ees_mpi.config import Config, load

BIN = Path(sys.executable).parent
# A killed mpirun leaves its session folder behind, and a later one with the same process id then refuses to start.
SESSIONS = tempfile.TemporaryDirectory(prefix="ees")
atexit.register(SESSIONS.cleanup)
TINY = ("population.size=20", "run.generations=6", "noise.size=5000")


def environment(**more: str) -> dict[str, str]:
    """The environment of a user's shell, with more ranks than cores allowed."""
    names = {
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "PYTHONPATH": str(Path(__file__).parent),
        "TMPDIR": SESSIONS.name,
    }
    if os.getuid() == 0:
        names |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **names, **more}


def command(*arguments: object, ranks: int = 0) -> list[str]:
    """The words that run `ees-mpi ARGUMENTS`; under mpirun where ranks are given."""
    words = [str(BIN / "ees-mpi"), *map(str, arguments)]
    return [str(BIN / "mpirun"), "-n", str(ranks), *words] if ranks else words


def ees(*arguments: object, ranks: int = 0, timeout: float = 120, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `ees-mpi ARGUMENTS` and return what it said."""
    return subprocess.run(
        command(*arguments, ranks=ranks), capture_output=True, text=True, timeout=timeout, env=environment(**more)
    )


def train(out: Path, preset: str = "interference-maxvar", *settings: str, ranks: int = 0) -> Path:
    """Train a tiny run and return its file."""
    sets = [word for setting in (*TINY, *settings) for word in ("--set", setting)]
    done = ees("train", preset, *sets, "--out", out, ranks=ranks)
    assert done.returncode == 0, done.stderr + done.stdout
    return out


def info(path: Path) -> dict[str, object]:
    """What `ees-mpi info --json` says."""
    done = ees("info", path, "--json")
    assert done.returncode == 0, done.stderr
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


@pytest.fixture
def tiny() -> Callable[..., Config]:
    """Make a small config: tiny(preset, *settings)."""
    return lambda preset="interference-maxvar", *settings: load(preset, [*TINY, *settings])


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run file, not to be changed."""
    return train(tmp_path_factory.mktemp("finished") / "run.h5")


def walk(folder: Path, preset: str, *settings: str) -> Path:
    """Train a walking robot for a moment and return its file."""
    small = ["population.size=6", "task.steps=12", "noise.size=100000", "run.evaluate_mean_every=2"]
    return train(folder / f"{preset}.h5", preset, *small, "run.generations=3", *settings)


@pytest.fixture(scope="session")
def cheetah(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the cheetah, not to be changed."""
    return walk(tmp_path_factory.mktemp("cheetah"), "cheetah-maxent")


@pytest.fixture(scope="session")
def ant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the ant, not to be changed."""
    return walk(tmp_path_factory.mktemp("ant"), "ant-maxent")


@pytest.fixture(scope="session")
def species(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the ant with two means, its place noted at two steps; not to be changed."""
    return walk(tmp_path_factory.mktemp("species"), "ant-maxent-mixture", "task.behavior_steps=[6,12]")
