"""MAML as a run: it learns to adapt, and its files serve everywhere."""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import TESTS, done, info, run, sets
from support.small_runs import advanced, shared

from ees_mpi import config
from ees_mpi.commands.verify import verify
from ees_mpi.errors import ConfigError, Interrupted
from ees_mpi.generation import State
from ees_mpi.maml import outer
from ees_mpi.ranks import Ranks
from ees_mpi.run.evaluators import Evaluator
from ees_mpi.run.file import open_run
from ees_mpi.run.loop import Method, loop
from ees_mpi.run.parts import first_state, open_parts

POINT = TESTS / "support" / "maml_point.toml"
SMALL = ("run.generations=3", "population.size=5", "maml.rollouts=3")
CHEETAH = (
    "run.generations=2",
    "population.size=2",
    "maml.rollouts=2",
    "maml.horizon=20",
    "task.steps=30",
    "noise.size=80000",
)


def opened(*names: str) -> tuple[Method, Evaluator, State]:
    loaded = config.load(str(POINT), names)
    return (*open_parts(loaded, Ranks()), first_state(loaded))


@pytest.fixture(scope="session")
def cheetah(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MAML run of the real robot, as small as can be."""
    words = ("train", "cheetah-maml-laptop", *sets(*CHEETAH), "--out")
    return shared(tmp_path_factory, "maml-cheetah", lambda path: done(*words, path))


@pytest.mark.slow
def test_after_training_one_gradient_step_at_least_triples_the_return() -> None:
    method, evaluator, state = opened("run.evaluate_mean_every=0")
    returns = []
    for _ in range(config.load(str(POINT)).run.generations):
        record, state = advanced(method, evaluator, state)
        fitness = np.stack([record.arrays["fitness_before"], record.arrays["fitness"]])
        right = record.arrays["sign"] > 0
        returns.append([fitness[:, right].mean(axis=1), fitness[:, ~right].mean(axis=1)])
    first, last = returns[0], np.mean(returns[-3:], axis=0)
    assert np.mean(first, axis=0)[1] < 0.1  # nothing was learned yet; 1.0 is as far as the point can go
    for before, after in last:  # to the right, to the left
        assert after > 0.4
        assert after >= 3 * before


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of one process."""
    return shared(tmp_path_factory, "maml-point", lambda path: done("train", POINT, *sets(*SMALL), "--out", path))


def test_every_generation_moves_within_the_bound(alone: Path) -> None:
    with open_run(alone) as run:
        means, log_std = run["mean"][:], run["log_std"][:]
        assert (np.diff(means, axis=0) != 0).any(axis=(1, 2)).all()
        assert (np.diff(log_std, axis=0) != 0).any()
        assert (run["divergence"][:] <= run.config.method.settings.kl_bound).all()
        assert set(run["sign"][0].tolist()) == {-1, 1}


def test_a_stop_ends_the_iteration_and_leaves_the_state_as_it_was() -> None:
    loaded, ranks = config.load(str(POINT), SMALL), Ranks()
    method, evaluator = open_parts(loaded, ranks)
    state, ranks.stopped_by = first_state(loaded), "SIGUSR1"
    with pytest.raises(Interrupted):
        loop(method, evaluator, state, 1, [], ranks)
    assert state.digest() == first_state(loaded).digest()


def test_a_file_verifies_and_says_what_it_is(cheetah: Path) -> None:
    done("verify", cheetah)
    facts = info(cheetah)
    assert facts["method"] == facts["objective"] == "maml"
    assert facts["evaluations"] == 2 * 2 * 2 * 2
    assert facts["steps"] == 2 * 2 * 2 * 2 * 20


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_adapt_takes_the_gradient_step_and_scores_mean_actions(cheetah: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("left", "again", "right", "early")]
    for path, direction, ranks in zip(files[:3], ("left", "left", "right"), (None, 2, None), strict=True):
        done("adapt", cheetah, "--direction", direction, "--evaluations", 3, "--out", path, ranks=ranks)
    policy = tmp_path / "policy.npz"
    done("adapt", cheetah, "--direction", "left", "--generation", 0, "--policy", policy, "--out", files[3])
    opened = [h5py.File(path) for path in files]
    left, again, right, early = opened
    assert left.attrs["method"] == b"gradient" and left.attrs["adaptation_steps"] == 2 * 20
    assert left.attrs["training_steps"] == 2 * 2 * 2 * 2 * 20 and early.attrs["training_steps"] == 0
    assert left["policy/mean"][:].tobytes() == again["policy/mean"][:].tobytes()
    assert left["evaluations/fitness"][:].tobytes() == again["evaluations/fitness"][:].tobytes()
    np.testing.assert_array_equal(left["evaluations/fitness"][:], -left["evaluations/behavior"][:, 0])
    with np.load(policy) as written:
        np.testing.assert_array_equal(written["learned_log_std"], early["policy/log_std"][:])
    with open_run(cheetah) as run:
        mean = run.state_arrays()["mean"][0]
    steps = [file["policy/mean"][:] - mean for file in (left, right)]
    assert all(step.any() for step in steps) and not np.array_equal(*steps)
    assert set(left["evaluations/reset_seed"][:].tolist()) == {1, 2, 3}
    for file in opened:
        file.close()


WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = None
from support.program import ees
for words in json.loads(sys.argv[1]):
    said = ees(*words)
    print(said.returncode, "pip install 'ees_mpi[torch]'" in said.stderr, said.stderr.count(chr(10)))
"""


def test_without_torch_the_missing_extra_is_named(cheetah: Path, tmp_path: Path) -> None:
    new = str(tmp_path / "new.h5")
    commands = [
        ["train", str(POINT), "--out", new],
        ["verify", str(cheetah)],
        ["adapt", str(cheetah), "--direction", "left", "--out", new],
    ]
    said = run([sys.executable, "-c", WITHOUT_TORCH, json.dumps(commands)])
    assert said.stdout.splitlines() == ["2 True 1"] * 3, said.stdout + said.stderr
    assert list(tmp_path.iterdir()) == []


def test_how_gradients_are_gathered_and_layers_kept_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = opened(*SMALL)
    _, usual = advanced(*parts)
    monkeypatch.setattr(outer, "GATHERED", 7)
    monkeypatch.setattr(outer, "KEPT", 0)
    _, other = advanced(*parts)
    assert other.digest() == usual.digest()


def test_learning_goes_on_from_another_run_with_its_deviations(alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "more.h5"
    done("train", POINT, *sets(*SMALL, "run.generations=1"), "--from", alone, "--out", out)
    with open_run(out) as run, open_run(alone) as source:
        np.testing.assert_array_equal(run["log_std"][0], source.state_arrays()["log_std"])


def test_a_generation_of_a_gpu_is_not_verified(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ees_mpi.run.file.Run.device", lambda self, generation: "cuda")
    with pytest.raises(ConfigError, match=r"the rollouts of its tasks happened once"):
        verify(Ranks(), alone, None, None)
