"""Starting: a rank opens few files, for shared file systems hate many."""

import subprocess
import sys
from pathlib import Path

from conftest import BIN, environment

STARTED = Path(__file__).parents[2] / "tools" / "benchmarks" / "started.py"
FILES = 500  # at most, by the first rollout: Python's own, numpy's, h5py's, MPI's and ours


def test_a_rank_opens_fewer_than_500_files_before_its_first_rollout(tmp_path: Path) -> None:
    settings = ["run.generations=1", "population.size=4", "noise.size=300000", "task.steps=2"]
    sets = [word for setting in settings for word in ("--set", setting)]
    words = [str(BIN / "mpirun"), "-n", "2", sys.executable, str(STARTED), "train", "cheetah-maxent", *sets]
    env = environment(EES_STARTED=str(tmp_path))
    subprocess.run([*words, "--out", str(tmp_path / "run.h5")], check=True, capture_output=True, timeout=60, env=env)
    counts = [int(path.read_text().partition('"files": ')[2].rstrip("}")) for path in tmp_path.glob("*.json")]
    assert len(counts) == 2 and 200 < max(counts) < FILES
