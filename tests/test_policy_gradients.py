"""jobs/examples/policy_gradients.py: both gradients are those of the variance, by finite differences."""

import itertools
import math
from functools import partial
from pathlib import Path

import numpy as np
import policy_gradients as program
import pytest
import torch
from torch import Tensor

import ees_mpi

torch.set_num_threads(1)

MU, STD, SPREAD = (0.3, -0.5), 0.4, 0.7


def places(theta: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Walk two steps on a line from 1 with the actions theta_t s_t + noise_t; return states and actions [n, 2]."""
    before = torch.ones(len(theta), dtype=torch.float64)
    first = theta[:, 0] * before + SPREAD * noise[:, 0]
    second = theta[:, 1] * (before + first) + SPREAD * noise[:, 1]
    return torch.stack([before, before + first], 1), torch.stack([first, second], 1)


def by_differences(moments: list[int]) -> list[float]:
    """Return the gradient of the exact variance, which Gauss-Hermite quadrature computes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    grid = torch.tensor(list(itertools.product(nodes, repeat=4)))
    share = torch.tensor([math.prod(each) for each in itertools.product(weights / weights.sum(), repeat=4)])[:, None]

    def variance(mu: Tensor) -> float:
        states, actions = places(mu + STD * grid[:, :2], grid[:, 2:])
        behavior = (states + actions)[:, moments]
        return float((share * (behavior - (share * behavior).sum(0)) ** 2).sum())

    steps = 1e-4 * torch.eye(2, dtype=torch.float64)
    mu = torch.tensor(MU, dtype=torch.float64)
    return [(variance(mu + step) - variance(mu - step)) / 2e-4 for step in steps]


def estimates(moments: list[int], batches: int = 40, count: int = 4000) -> dict[str, tuple[Tensor, Tensor]]:
    """Return mean and standard error of each gradient; "printed": only the last action counts, as in the paper."""
    generator, found = torch.Generator().manual_seed(0), {name: [] for name in (program.ES, program.POLICY, "printed")}
    mu = torch.tensor(MU, dtype=torch.float64, requires_grad=True)
    for _ in range(batches):
        drawn, noise = torch.randn(2, count, 2, generator=generator, dtype=torch.float64)
        theta = (mu + STD * drawn).detach()
        states, actions = places(theta, noise)
        policy = -((actions - (mu + STD * drawn) * states) ** 2) / (2 * SPREAD**2)
        densities = {
            program.ES: program.log_normal(theta, mu, STD)[:, None].expand(-1, len(moments)),
            program.POLICY: policy.cumsum(1)[:, moments],
            "printed": policy[:, moments],
        }
        behavior = (states + actions)[:, moments, None]
        for name, density in densities.items():
            found[name].append(torch.autograd.grad(program.variance(behavior, density), mu, retain_graph=True)[0])
    gathered = {name: torch.stack(each) for name, each in found.items()}
    return {name: (each.mean(0), each.std(0) / batches**0.5) for name, each in gathered.items()}


@pytest.mark.parametrize("moments", [[1], [0, 1]])
def test_both_gradients_are_that_of_the_variance_and_the_last_action_alone_is_not_enough(moments: list[int]) -> None:
    truth, found = torch.tensor(by_differences(moments)), estimates(moments)
    for name in (program.ES, program.POLICY):
        mean, error = found[name]
        assert (abs(mean - truth) < 4 * error).all() and (error < 0.05 * truth.norm()).all()
    mean, error = found["printed"]
    assert (abs(mean - truth) > 20 * error).any()


@pytest.mark.slow
@pytest.mark.usefixtures("quick_noise")
def test_the_program_measures_trains_prints_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    moments = {"at the end": (3,), "at six moments": (1, 3)}
    for name, value in {"SIZE": 8, "SEEDS": range(1), "SPREADS": (0.03, 0.3), "MOMENTS": moments, "END": (3,)}.items():
        monkeypatch.setattr(program, name, value)
    monkeypatch.setattr(program.noise, "__defaults__", (0, 3))
    monkeypatch.setattr(program.train, "__defaults__", (program.END, 0.3, 0, 2))
    monkeypatch.setattr(program.ends, "__defaults__", (0, 20))
    monkeypatch.setattr(ees_mpi, "Strategy", partial(ees_mpi.Strategy, config={"noise": {"size": 100_000}}))
    monkeypatch.setattr("sys.argv", ["policy_gradients.py", str(tmp_path / "noise.png")])
    program.main()
    assert len(capsys.readouterr().out.splitlines()) == 8 + 8 and (tmp_path / "noise.png").stat().st_size > 10_000
