import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import CHECKOUT, done, train

from ees_mpi import Strategy, open_run
from ees_mpi.strategy.optimizers import OPTIMIZERS
from ees_mpi.strategy.optimizers.adam import Adam

BUILT_IN = [{"name": "ascent", "lr": 0.1}, {"name": "adam", "lr": 0.1}]


def test_adam_takes_the_steps_of_torchs_adam_but_uphill() -> None:
    torch = pytest.importorskip("torch")
    from torch.optim.adam import adam  # the class would import the compiler

    start = np.random.default_rng(0).normal(size=(1, 50)).astype(np.float32)
    weights = torch.tensor(start, dtype=torch.float64)
    first, second, steps = torch.zeros_like(weights), torch.zeros_like(weights), torch.tensor(0.0)
    usual = {"amsgrad": False, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "maximize": False}  # of torch.optim.Adam
    ours, learned = Adam(lr=0.01, l2=0.05), {"mean": start}
    moments = ours.start(learned)
    for step in range(50):
        gradient = np.random.default_rng(step + 1).normal(size=(1, 50))
        moved = [weights], [-torch.tensor(gradient)], [first], [second], [], [steps]
        adam(*moved, foreach=False, lr=0.01, weight_decay=0.05, **usual)
        learned, moments = ours.step(learned, {"mean": gradient}, moments)
        assert learned["mean"].dtype == np.float32 and moments["first"].dtype == np.float64
    np.testing.assert_allclose(learned["mean"], weights.numpy(), atol=1e-5)


def test_an_optimizer_of_the_user_may_change_the_gradient_in_place_and_its_norm_is_logged_as_it_was() -> None:
    norms = []
    for optimizer in ("ascent", {"name": "custom", "function": "support.own_tasks:Clipping"}):
        with Strategy(np.zeros(3), "maxvar", size=8, std=1.0, seed=1, optimizer=optimizer) as strategy:
            strategy.tell(np.exp(strategy.ask()))
            norms.append(strategy.metrics["gradient_norm"])
            assert np.abs(strategy.mean).max() == np.float32(0.001) or optimizer == "ascent"
    assert norms[0] == norms[1] > 0.01


@pytest.mark.parametrize("section", BUILT_IN, ids=lambda section: section["name"])
def test_further_learned_arrays_are_moved_as_the_mean_is_and_keep_their_own_moments(section: dict[str, Any]) -> None:
    optimizer = OPTIMIZERS.build(section)
    start, gradient = np.arange(3, dtype=np.float32)[None], np.array([[1.0, -2.0, 0.5]])
    alone, both = {"mean": start}, {"mean": start + 7, "log_std": start}
    moments, shared = optimizer.start(alone), optimizer.start(both)
    for _ in range(5):
        alone, moments = optimizer.step(alone, {"mean": gradient}, moments)
        both, shared = optimizer.step(both, {"mean": -gradient, "log_std": gradient}, shared)
    np.testing.assert_array_equal(both["log_std"], alone["mean"])
    assert not np.array_equal(both["mean"] - 7, alone["mean"])


def test_the_example_of_an_own_optimizer_trains_and_verifies(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'base = "interference-maxent"\n[optimizer]\nname = "custom"\nfunction = "own_optimizer:Trust"\n'
        "settings = { std = 0.5, l2 = 0.01 }\n"
    )
    shutil.copy(CHECKOUT / "jobs" / "examples" / "own_optimizer.py", tmp_path)
    out = train(tmp_path / "run.h5", str(tmp_path / "own.toml"))
    assert "the same states" in done("verify", out, "--updates", "--trust").stdout
    with open_run(out) as run:
        moved = (np.diff(run["mean"][:], axis=0) != 0).any(axis=(1, 2))
    assert moved.tolist()[0] is False and moved[1:].any()  # the first generation has no average to compare with
