from typing import Any

import numpy as np
import pytest

from ees_mpi.optimizers import OPTIMIZERS
from ees_mpi.optimizers.adam import Adam
from ees_mpi.optimizers.ascent import Ascent

BUILT_IN = [{"name": "ascent", "lr": 0.1}, {"name": "adam", "lr": 0.1}]


def test_no_built_in_optimizer_is_forgotten_here() -> None:
    assert {"custom", *(section["name"] for section in BUILT_IN)} == set(OPTIMIZERS)


def test_ascent_moves_by_lr_times_gradient_less_l2() -> None:
    theta = np.array([[1.0, -2.0]], np.float32)
    moved, _ = Ascent(lr=0.5, l2=0.1).step({"mean": theta}, {"mean": np.array([[1.0, 1.0]])}, {})
    np.testing.assert_allclose(moved["mean"], [[1 + 0.5 * (1 - 0.1), -2 + 0.5 * (1 + 0.2)]], rtol=1e-6)


@pytest.mark.slow
def test_adam_takes_the_steps_of_torchs_adam_but_uphill() -> None:
    torch = pytest.importorskip("torch")
    start = np.random.default_rng(0).normal(size=(1, 50)).astype(np.float32)
    weights = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    reference = torch.optim.Adam([weights], lr=0.01, weight_decay=0.05, maximize=False)
    ours, learned = Adam(lr=0.01, l2=0.05), {"mean": start}
    moments = ours.start(learned)
    for step in range(50):
        gradient = np.random.default_rng(step + 1).normal(size=(1, 50))
        weights.grad = -torch.tensor(gradient)
        reference.step()
        learned, moments = ours.step(learned, {"mean": gradient}, moments)
        assert learned["mean"].dtype == np.float32 and moments["first"].dtype == np.float64
    np.testing.assert_allclose(learned["mean"], weights.detach().numpy(), atol=1e-5)


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
