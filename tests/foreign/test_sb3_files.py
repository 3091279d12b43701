"""Models of Stable-Baselines3. Those in tests/data/sb3 are real ones, made by `jobs/examples/sb3_models.py`."""

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.evil import Evil
from support.program import TESTS, done

import ees_mpi
from ees_mpi.config import Config
from ees_mpi.errors import EesError
from ees_mpi.foreign import policy_files
from jobs.examples.sb3_models import observations

torch = pytest.importorskip("torch")
pytest.importorskip("gymnasium")

DATA = TESTS / "data" / "sb3"
SECTIONS: dict[str, Any] = {
    "task": {"name": "gymnasium", "env": "Pendulum-v1", "steps": 200},
    "population": {"name": "normal", "size": 4, "std": 0.1},
    "objective": {"name": "maxent"},
    "noise": {"size": 2000},
}


def fitted(path: Path) -> tuple[policy_files.ForeignPolicy, Any]:
    policy = policy_files.read(path)
    config: Config = policy_files.fitted(ees_mpi.load_config(SECTIONS), policy)
    return policy, config.task


def actions(policy: policy_files.ForeignPolicy, task: Any, seen: np.ndarray) -> np.ndarray:
    network = task.network()
    network.load(policy.parameters)
    return np.stack([network.act(row) for row in seen])


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_a_real_model_acts_and_scores_as_stable_baselines_recorded(name: str) -> None:
    policy, task = fitted(DATA / f"{name}.zip")
    with np.load(DATA / "expected.npz") as file:
        recorded, returns = file[f"{name}_actions"], file[f"{name}_returns"]
    np.testing.assert_allclose(actions(policy, task, observations()).clip(-2, 2), recorded, atol=1e-5)
    words = (0, policy.parameters, np.zeros(3), np.ones(3), False)
    found = [task.open(start).evaluate(*words).fitness for start in range(5)]
    np.testing.assert_allclose(found, returns, atol=1e-3)


@pytest.mark.usefixtures("quick_figures")
@pytest.mark.standing_ranks
@pytest.mark.slow
def test_a_model_is_measured_and_a_start_on_two_ranks(tmp_path: Path) -> None:
    model, task, run = DATA / "sac.zip", tmp_path / "task.toml", tmp_path / "run.h5"
    task.write_text(ees_mpi.load_config(SECTIONS, {"task.steps": 12, "run.generations": 2}).to_toml())
    done("train", task, "--from", model, "--out", run, ranks=2)
    task.write_text('[task]\nname = "gymnasium"\nenv = "Pendulum-v1"\nsteps = 12\n[noise]\nsize = 2000\n')
    words = ("--task", task, "--std", 0.1, "--count", 6)
    done("measure", model, *words, "--out", tmp_path / "measure.h5", ranks=2)
    with ees_mpi.open_run(run) as trained:
        assert trained["mean"][0, 0].tobytes() == policy_files.read(DATA / "sac.zip").parameters.tobytes()
        assert trained.config.task.activation == ("relu", "tanh") and trained.config.task.action_scale == (2.0,)
    done("resume", run, "--generations", 3)  # the file needs neither the zip nor torch


def model(path: Path, arrays: dict[str, Any], words: Any, limits: Any = ("[-1. 0.]", "[3. 1.]")) -> Path:
    """Write a zip with the layout of Stable-Baselines3."""
    weights = io.BytesIO()
    torch.save({name: torch.as_tensor(array) for name, array in arrays.items()}, weights)
    data = {"policy_kwargs": words, "action_space": {"low": limits[0], "high": limits[1]}}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data", json.dumps(data))
        file.writestr("policy.pth", weights.getvalue())
    return path


def layers(*names: str) -> dict[str, np.ndarray]:
    """Return the arrays of a network with 3 observations, 2 actions and layers of these names."""
    generator, found, inputs = np.random.default_rng(1), {}, 3
    for number, name in enumerate(names, start=1):
        outputs = 2 if number == len(names) else 4
        found[f"{name}.weight"] = generator.normal(size=(outputs, inputs)).astype(np.float32)
        found[f"{name}.bias"] = generator.normal(size=outputs).astype(np.float32)
        inputs = outputs
    return found


PPO = ("mlp_extractor.policy_net.0", "action_net")
TD3 = ("actor.mu.0", "actor.mu.2", "actor.mu.4")
ELU = {":type:": "<class 'dict'>", "activation_fn": "<class 'torch.nn.modules.activation.ELU'>"}


@pytest.mark.parametrize(
    ("names", "words", "activation", "scaled"),
    [
        (PPO, {}, "tanh", False),
        (PPO, ELU, "elu", False),
        (PPO, {"squash_output": True}, ["tanh", "tanh"], True),
        (("actor.latent_pi.0", "actor.mu"), {"use_sde": False}, ["relu", "tanh"], True),
        (TD3, ELU, ["elu", "elu", "tanh"], True),
    ],
    ids=["ppo", "elu", "squashed", "sac", "td3"],
)
def test_the_kinds_of_models_have_their_activations_and_limits(
    names: tuple[str, ...], words: dict[str, Any], activation: Any, scaled: bool, tmp_path: Path
) -> None:
    others = {"critic.qf0.0.weight": np.zeros((4, 5)), "value_net.weight": np.zeros((1, 4)), "log_std": np.zeros(2)}
    policy = policy_files.read(model(tmp_path / "model.zip", {**layers(*names), **others}, words))
    assert policy.layers == (3, *[4] * (len(names) - 1), 2)
    limits = ([2.0, 0.5], [1.0, 0.5]) if scaled else ([], [])
    assert policy.settings == {"activation": activation, "action_scale": limits[0], "action_shift": limits[1]}


def test_nothing_is_unpickled_and_damaged_models_are_refused(tmp_path: Path) -> None:
    mark, weights = tmp_path / "it-ran", io.BytesIO()
    torch.save({"action_net.weight": Evil(mark)}, weights)
    contents: list[dict[str, bytes]] = [
        {"data": pickle.dumps(Evil(mark)), "policy.pth": b""},
        {"data": b'{"policy_kwargs": {}}', "policy.pth": weights.getvalue()},
        {"data": b'{"policy_kwargs": {}}', "policy.pth": pickle.dumps(Evil(mark))},
        {"data": b"[" * 100_000, "policy.pth": b""},
        {"data": b"{}"},
    ]
    path = tmp_path / "model.zip"
    for files in contents:
        with zipfile.ZipFile(path, "w") as file:
            for name, text in files.items():
                file.writestr(name, text)
        with pytest.raises(EesError, match=r"expected a model of Stable-Baselines3|no dict of tensors"):
            policy_files.read(path)
    with pytest.raises(EesError, match=r"model\.save\(FILE\)$"):  # and no KeyError of the archive
        policy_files.read(path)
    path.write_bytes(b"no zip")
    with pytest.raises(EesError, match="expected a model of Stable-Baselines3"):
        policy_files.read(path)
    for options in (("action_net",), None, ()), ((), None, "relu"):
        with pytest.raises(EesError, match="says which layers act"):
            policy_files.read(DATA / "ppo.zip", *options)
    assert not mark.exists()
