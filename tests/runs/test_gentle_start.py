"""A run from a trained mean begins gently: Adam's first step is not corrected, and does not destroy the mean."""

from pathlib import Path

import numpy as np
import pytest
from support.program import TESTS, done, ees, info, needs_results, refusal, sets, train

from ees_mpi import load_config, open_run
from ees_mpi import train as train_here
from ees_mpi.optimizers.adam import Adam

SMALL = ("population.size=6", "task.steps=8", "task.hidden=[4,4]", "noise.size=5000", "run.generations=2")
RUNNING = TESTS.parent / "jobs" / "paper" / "shelf" / "gymnasium-cheetah-maxent.npz"


def corrected(path: Path) -> bool:
    """Return the value of the key in a run file."""
    with open_run(path) as run:
        found: bool = run.config.sections()["optimizer"]["correct_first"]
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trained run."""
    return train(tmp_path_factory.mktemp("trained") / "trained.h5", "ant-maxent", *SMALL)


def test_without_correction_the_first_step_is_a_tenth_and_later_steps_approach_the_usual_ones() -> None:
    start = {"mean": np.zeros((1, 3), np.float32)}
    gradient = {"mean": np.array([[1.0, -2.0, 0.5]])}
    usual, gentle = Adam(lr=0.01), Adam(lr=0.01, correct_first=False)
    first, moments = gentle.step(start, gradient, gentle.start(start))
    np.testing.assert_allclose(
        first["mean"], 0.1 * usual.step(start, gradient, usual.start(start))[0]["mean"], rtol=1e-6
    )
    for _ in range(60):
        before = first
        first, moments = gentle.step(first, gradient, moments)
    np.testing.assert_allclose(np.abs(first["mean"] - before["mean"]), 0.01, rtol=0.01)


@pytest.mark.parametrize("preset", ["ant-adapt", "ant-maxent-split"])
def test_a_run_from_a_trained_mean_writes_false_and_says_so_unless_the_user_sets_it(
    preset: str, trained: Path, tmp_path: Path
) -> None:
    words = ("train", preset, *sets(*SMALL), "--from", trained)
    said = done(*words, "--out", tmp_path / "gentle.h5").stdout
    assert not corrected(tmp_path / "gentle.h5") and "optimizer.correct_first=false" in said
    done(*words, "--set", "optimizer.correct_first=true", "--out", tmp_path / "fresh.h5")
    assert corrected(tmp_path / "fresh.h5")
    assert corrected(trained)


def test_the_python_function_follows_the_same_rule(trained: Path, tmp_path: Path) -> None:
    settings = {"run.generations": 1}
    sections = load_config("ant-adapt", {"population.size": 6}).sections()
    sections["task"] |= {"steps": 8, "hidden": [4, 4]}
    sections["noise"]["size"] = 5000
    train_here(sections, tmp_path / "chosen.h5", settings=settings, start=trained).close()
    assert corrected(tmp_path / "chosen.h5")  # the dict sets the key
    del sections["optimizer"]["correct_first"]
    train_here(sections, tmp_path / "gentle.h5", settings=settings, start=trained).close()
    train_here(load_config(sections), tmp_path / "config.h5", settings=settings, start=trained).close()
    assert not corrected(tmp_path / "gentle.h5") and not corrected(tmp_path / "config.h5")


def test_updates_of_a_run_from_a_trained_mean_are_verified_and_resumed(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "further.h5"
    words = ("train", "ant-adapt", *sets(*SMALL), "--out", out)
    done(*words, "--from", trained)
    assert "the same states" in done("verify", out, "--updates").stdout
    for more in (("--from", trained), ()):  # with and without --from, the file's value is taken
        done(*words, *more, "--resume")
    code, line = refusal(*words, "--resume", "--set", "optimizer.correct_first=true")
    assert code == 2 and "optimizer.correct_first is False in the file" in line


def test_a_run_from_a_trained_mean_that_began_with_corrected_steps_keeps_them(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "further.h5"
    words = ("train", "ant-adapt", *sets(*SMALL), "--from", trained, "--out", out)
    done(*words, "--set", "optimizer.correct_first=true")
    before = info(out)["state_sha256"]
    done(*words, "--resume")
    assert corrected(out) and info(out)["state_sha256"] == before


@needs_results
def test_the_first_update_from_a_trained_mean_keeps_most_of_the_spread(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    small = ("population.size=30", "task.steps=250", "noise.size=2000000", "run.generations=2", "task.device=cpu")
    # With three times the preset's rate, six of six seeds have gentle above 0.7 and fresh below 0.4; with once, two.
    more_sets = sets(*small, "run.evaluate_mean_every=0", "optimizer.lr=0.03")
    words = ("train", "mujoco-cheetah-es", *more_sets, "--from", RUNNING)
    kept = {}
    for name, more in (("gentle", []), ("fresh", sets("optimizer.correct_first=true"))):
        out = tmp_path / f"{name}.h5"
        found = ees(*words, *more, "--out", out)
        assert found.returncode == 0, found.stderr
        with open_run(out) as run:
            spread = run["behavior"][:].std(axis=1)[:, 0]
        kept[name] = spread[1] / spread[0]
    assert kept["gentle"] > 0.5 > kept["fresh"]
