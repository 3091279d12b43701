import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ees

from ees_mpi import open_run
from ees_mpi.policies import MLP, mean_std


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("walked") / "run.h5"
    sets = [
        "population.size=6",
        "task.steps=10",
        "noise.size=100000",
        "run.generations=2",
        "task.observation_share=1.0",
    ]
    words = [word for setting in sets for word in ("--set", setting)]
    assert ees("train", "cheetah-maxvar", *words, "--out", out).returncode == 0
    return out


@pytest.mark.parametrize(
    "choice", [[], ["--generation", 1], ["--individual", 3], ["--generation", 0, "--individual", 5]]
)
def test_an_exported_policy_acts_with_the_bits_of_ours_and_needs_only_numpy(
    walked: Path, tmp_path: Path, choice: list[object]
) -> None:
    out = tmp_path / "policy.npz"
    done = ees("export", walked, "--policy", *choice, "-o", out)
    assert done.returncode == 0 and done.stdout.split() == [str(out), str(tmp_path / "policy.py")]
    observation = np.random.default_rng(0).normal(size=26).astype(np.float32)
    program = (
        "import sys, numpy as np; import policy; act = policy.load('policy.npz'); "
        "assert not any(m.startswith('ees_mpi') for m in sys.modules); "
        f"sys.stdout.buffer.write(act(np.array({observation.tolist()}, np.float32)).tobytes())"
    )
    theirs = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True).stdout
    policy = MLP((26, 256, 256, 6))
    with open_run(walked) as run:
        if choice:
            generation = 0 if "--generation" in choice and choice[1] == 0 else 1
            individual = choice[-1] if "--individual" in choice else None
            flat = (
                run["mean"][generation][0] if individual is None else run.individual(generation, int(str(individual)))
            )
            statistics = run["observation_mean"][generation], run["observation_std"][generation]
        else:
            state = run.state_arrays()
            flat, statistics = state["mean"][0], mean_std(state["observations"])
    policy.load(np.ascontiguousarray(flat))
    policy.normalise(*statistics)
    assert policy.act(observation).tobytes() == theirs


def test_the_loader_is_short() -> None:
    from ees_mpi.export import LOADER

    assert len([line for line in LOADER.splitlines() if line.strip()]) <= 12


def test_what_cannot_be_exported_is_told(walked: Path, finished: Path, tmp_path: Path) -> None:
    assert ees("export", finished, "--policy", "-o", tmp_path / "p.npz").returncode == 3
    assert ees("export", walked, "--policy", "-o", tmp_path / "p.txt").returncode == 2
    assert ees("export", walked, "--policy", "--individual", 6, "-o", tmp_path / "p.npz").returncode == 2
    assert list(tmp_path.iterdir()) == []
