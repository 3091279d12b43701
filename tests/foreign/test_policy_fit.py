"""A policy of another program acts in a run as it does in its own program, or is refused with the reason."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import done, refusal, sets

import ees_mpi
from ees_mpi.config import Config, load
from ees_mpi.errors import ConfigError
from ees_mpi.foreign import policy_files
from ees_mpi.policies import ACTIVATIONS

SMALL = ("task.steps=12", "noise.size=50000")
SIZES = (26, 8, 5, 6)
torch = pytest.importorskip("torch")
TORCH: dict[str, Any] = {
    "tanh": torch.nn.Tanh,
    "relu": torch.nn.ReLU,
    "silu": torch.nn.SiLU,
    "elu": torch.nn.ELU,
    "identity": torch.nn.Identity,
}


def module(*activations: str, sizes: tuple[int, ...] = SIZES) -> Any:
    """Return a torch module with these activations, one for each layer."""
    torch.manual_seed(0)
    parts = []
    for pair, name in zip(itertools.pairwise(sizes), activations, strict=True):
        parts += [torch.nn.Linear(*pair), TORCH[name]()]
    return torch.nn.Sequential(*parts)


def fitted(policy: Any, *settings: str, **options: Any) -> Config:
    return policy_files.fitted(load("cheetah-maxent", [*SMALL, *settings]), policy_files.read(policy, **options))


@pytest.mark.parametrize(("name", "output"), [*((name, "identity") for name in sorted(ACTIVATIONS)), ("relu", "tanh")])
def test_a_module_with_its_activation_acts_as_it_does_in_torch(name: str, output: str) -> None:
    net = module(name, name, output)
    task: Any = fitted(net, activation=(name, name, output)).task
    network = task.network()
    network.load(policy_files.read(net).parameters)
    seen = np.random.default_rng(1).normal(0, 9, (30, 26)).astype(np.float32)
    found = np.stack([network.act(row) for row in seen])
    np.testing.assert_allclose(found, net(torch.from_numpy(seen)).detach().numpy(), atol=1e-5)


def test_a_wrong_activation_is_refused_with_the_difference() -> None:
    net = module("relu", "relu", "tanh")
    message = r"on 100 random observations its actions differ by up to 0\.\d+ from .*name its activation.*"
    message += r'--activation relu \(in Python: activation="relu"\)'
    for wrong in ({}, {"activation": "silu"}):
        with pytest.raises(ConfigError, match=message):
            fitted(net, **wrong)
    assert fitted(net, activation=("relu", "relu", "tanh")).task.activation == ("relu", "relu", "tanh")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"expected the activations tanh, relu, .*; got gelu"):
        fitted(net, activation="gelu")
    with pytest.raises(ConfigError, match="one for each of the 3 layers"):
        fitted(net, activation=("relu", "tanh"))


def test_a_state_dict_with_a_value_net_lists_its_layers_and_train_takes_the_proposed_option(tmp_path: Path) -> None:
    net = torch.nn.ModuleDict({"actor": module("relu", "relu", "identity"), "value_net": torch.nn.Linear(26, 1)})
    torch.save(net.state_dict(), tmp_path / "net.pt")
    few = sets(*SMALL, "population.size=2", "run.generations=1")
    words = ("train", "cheetah-es", *few, "--from", tmp_path / "net.pt", "--out", tmp_path / "run.h5")
    code, line = refusal(*words)
    assert code == 3 and "actor.0 (8, 26), actor.2 (5, 8), actor.4 (6, 5), value_net (1, 26)" in line
    option = line[line.index("--layers") :].split()
    assert option == ["--layers", "actor.0,actor.2,actor.4"]
    done(*words, *option, "--activation", "relu")
    with ees_mpi.open_run(tmp_path / "run.h5") as run:
        assert run.config.task.activation == "relu" and run.config.task.layers == SIZES
    code, line = refusal("train", "cheetah-es", *few, *sets("task.hidden=[8,5]"), "--from", tmp_path / "run.h5")
    assert code == 2 and 'set task.activation="relu"' in line  # the same parameters in a tanh network
    assert refusal("train", "cheetah-es", "--layers", "a")[0] == 2


def test_a_flat_vector_has_the_length_that_a_network_of_ones_own_counts() -> None:
    own = "task.policy=support.random_parts:Act"
    assert fitted(np.zeros(1), own).task.parameters == 1
    with pytest.raises(ConfigError, match=r"it has 2 parameters; the task has 1"):
        fitted(np.zeros(2), own)
