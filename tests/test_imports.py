"""A process imports only what it uses: a shared file system is slow to open many files, and extras may be missing."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.program import MPIRUN, TINY, command, run, sets

UNUSED_ROOMS = ("analysis", "maml", "strategy.scg", "tasks.gymnasium", "tasks.mujoco", "tasks.own", "ranks.mpi")
UNUSED = {"torch", "matplotlib", "scipy", "gymnasium", "mujoco", "imageio", "PIL", "xarray", "pandas", "mpi4py"}
CONFIGS = """
from ees_mpi import cli, config
from ees_mpi.run import session
from ees_mpi.strategy.objectives import OBJECTIVES
tasks = [config.load(name).task for name in config.preset_names()]
sizes = [(task.parameters, task.behavior_dim) for task in (*tasks, config.load("ant-es", ["task.engine=mujoco"]).task)]
OBJECTIVES.build({"name": "custom", "function": "no.such:function"})
"""
ENGINE = "from ees_mpi.config import load; load('ant-maxent', ['task.engine={}', 'task.steps=2']).task.open(0)"
PACKAGE = """
finders = list(sys.meta_path)
import ees_mpi
assert sys.meta_path == finders and not {"gymnasium", "numpy"} & sys.modules.keys()
import gymnasium
assert not [name for name in gymnasium.registry if name.startswith("ees_mpi/")]  # it registers nothing
import ees_mpi.envs
"""


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        pytest.param(
            CONFIGS, {"mujoco", "pybullet", "torch", "warp", "gymnasium", "matplotlib", "scipy"}, id="configs"
        ),
        pytest.param(ENGINE.format("mujoco"), {"pybullet", "gymnasium", "torch", "warp"}, id="mujoco"),
        pytest.param(ENGINE.format("bullet"), {"mujoco", "torch"}, id="bullet"),
        pytest.param(PACKAGE, {"pybullet"}, id="package"),
    ],
)
def test_python_imports_no_library_that_it_does_not_use(code: str, absent: set[str]) -> None:
    done = run([sys.executable, "-c", f"import sys\n{code}\nprint({absent!r} & sys.modules.keys())"])
    assert done.stdout == "set()\n", done.stderr


def test_reading_a_run_needs_no_mpi(finished: Path) -> None:
    read = f"with ees_mpi.open_run({str(finished)!r}) as run:\n    print(run.generations, run.individual(2, 3).shape)"
    done = run([sys.executable, "-c", f"import sys\nsys.modules['mpi4py'] = None\nimport ees_mpi\n{read}"])
    assert done.stdout == "6 (1,)\n", done.stderr


def test_help_loads_no_numpy() -> None:  # it makes half of the time
    loaded = run([sys.executable, "-X", "importtime", *command("--help")]).stderr
    assert "ees_mpi.cli.main" in loaded and "numpy" not in loaded


@pytest.mark.slow
def test_a_rank_that_writes_no_file_loads_no_command_line_no_config_text_and_no_hdf5(tmp_path: Path) -> None:
    shell = f'exec {sys.executable} -X importtime -m ees_mpi "$@" 2>{tmp_path}/$OMPI_COMM_WORLD_RANK'
    words = ("train", "interference-maxvar", *sets(*TINY), "--out", str(tmp_path / "run.h5"))
    assert run([MPIRUN, "-n", "2", "sh", "-c", shell, "sh", *words]).returncode == 0
    root, other = ({line.split()[-1] for line in (tmp_path / rank).read_text().splitlines()} for rank in "01")
    unused = {"click", "h5py", "tomllib", "tomli_w", "importlib.metadata", "ees_mpi.commands", "ees_mpi.store.writer"}
    assert "ees_mpi.store.writer" in root and "ees_mpi.run.session" in other
    assert not unused & other


def test_training_imports_no_room_of_the_package_and_no_library_that_it_does_not_use(tmp_path: Path) -> None:
    settings = sets("run.generations=1", "population.size=4", "noise.size=300000", "task.steps=2")
    words = command("train", "cheetah-maxent", *settings, "--out", tmp_path / "run.h5")
    done = run([sys.executable, "-X", "importtime", *words])
    assert done.returncode == 0, done.stderr
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert {"numpy", "h5py", "ees_mpi.tasks.bullet.world"} <= imported and not UNUSED & imported
    assert not [name for name in imported if name.startswith(tuple(f"ees_mpi.{room}" for room in UNUSED_ROOMS))]
    assert all(find_spec(f"ees_mpi.{room}") for room in UNUSED_ROOMS)
