import numpy as np
import pytest

from ees_mpi.optimizers import OPTIMIZERS, Adam, Ascent


def test_ascent_moves_by_lr_times_gradient_less_l2() -> None:
    theta = np.array([[1.0, -2.0]], np.float32)
    moved, _ = Ascent(lr=0.5, l2=0.1).step(theta, np.array([[1.0, 1.0]]), {})
    np.testing.assert_allclose(moved, [[1 + 0.5 * (1 - 0.1), -2 + 0.5 * (1 + 0.2)]], rtol=1e-6)


def test_adam_is_torchs_adam_uphill() -> None:
    torch = pytest.importorskip("torch")
    start = np.random.default_rng(0).normal(size=(1, 50)).astype(np.float32)
    weights = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    reference = torch.optim.Adam([weights], lr=0.01, weight_decay=0.05, maximize=False)
    ours, theta = Adam(lr=0.01, l2=0.05), start
    moments = ours.start(theta)
    for step in range(50):
        gradient = np.random.default_rng(step + 1).normal(size=(1, 50))
        weights.grad = -torch.tensor(gradient)
        reference.step()
        theta, moments = ours.step(theta, gradient, moments)
        assert theta.dtype == np.float32 and moments["first"].dtype == np.float64
    np.testing.assert_allclose(theta, weights.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_changes_nothing_in_place(name: str) -> None:
    optimizer = OPTIMIZERS.build({"name": name, "lr": 0.1})
    theta = np.ones((1, 3), np.float32)
    moments = optimizer.start(theta)
    kept = {key: value.copy() for key, value in moments.items()}
    optimizer.step(theta, np.ones((1, 3)), moments)
    assert (theta == 1).all()
    assert all(np.array_equal(kept[key], moments[key]) for key in kept)
