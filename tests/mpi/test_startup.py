"""Starting: a rank imports few modules, because a shared file system is slow to open many files."""

import sys
from importlib.util import find_spec
from pathlib import Path

from support.program import command, run, sets

UNUSED_ROOMS = ("analysis", "maml", "scg", "tasks.gymnasium", "tasks.mujoco", "tasks.custom", "ranks.mpi")
UNUSED = {"torch", "matplotlib", "scipy", "gymnasium", "mujoco", "imageio", "PIL", "xarray", "pandas", "mpi4py"}


def test_training_imports_no_room_of_the_package_and_no_library_that_it_does_not_use(tmp_path: Path) -> None:
    settings = sets("run.generations=1", "population.size=4", "noise.size=300000", "task.steps=2")
    words = command("train", "cheetah-maxent", *settings, "--out", tmp_path / "run.h5")
    done = run([sys.executable, "-X", "importtime", *words])
    assert done.returncode == 0, done.stderr
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert {"numpy", "h5py", "ees_mpi.tasks.bullet.world"} <= imported and not UNUSED & imported
    assert not [name for name in imported if name.startswith(tuple(f"ees_mpi.{room}" for room in UNUSED_ROOMS))]
    assert all(find_spec(f"ees_mpi.{room}") for room in UNUSED_ROOMS)
