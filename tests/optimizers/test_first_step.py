"""The key `optimizer.correct_first`, and the example of an optimizer of one's own, which was a built-in one."""

import shutil
from pathlib import Path

import numpy as np
from support.program import TESTS, done, refusal, sets, train

from ees_mpi import open_run
from ees_mpi.optimizers.adam import Adam

SMALL = ("population.size=6", "task.steps=8", "task.hidden=[4,4]", "noise.size=5000", "run.generations=2")
EXAMPLE = TESTS.parent / "jobs" / "examples" / "own_optimizer.py"


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


def test_a_run_from_a_trained_mean_has_the_adam_of_its_config(tmp_path: Path) -> None:
    trained = train(tmp_path / "trained.h5", "ant-maxent", *SMALL)
    words = ("train", "ant-adapt", *sets(*SMALL), "--from", trained)
    for name, more in ((True, ()), (False, ("--set", "optimizer.correct_first=false"))):
        done(*words, *more, "--out", tmp_path / f"{name}.h5")
        with open_run(tmp_path / f"{name}.h5") as run:
            assert run.config.sections()["optimizer"]["correct_first"] is name
    code, line = refusal(*words, "--out", tmp_path / "False.h5", "--resume")
    assert code == 2 and "optimizer.correct_first is False in the file" in line


def test_the_example_of_an_own_optimizer_trains_and_verifies(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'base = "interference-maxent"\n[optimizer]\nname = "custom"\nfunction = "own_optimizer:Trust"\n'
        "settings = { std = 0.5, l2 = 0.01 }\n"
    )
    shutil.copy(EXAMPLE, tmp_path)
    out = train(tmp_path / "run.h5", str(tmp_path / "own.toml"))
    assert "the same states" in done("verify", out, "--updates", "--trust").stdout
    with open_run(out) as run:
        moved = (np.diff(run["mean"][:], axis=0) != 0).any(axis=(1, 2))
    assert moved.tolist()[0] is False and moved[1:].any()  # the first generation has no average to compare with
