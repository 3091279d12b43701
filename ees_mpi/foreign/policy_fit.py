"""Fit the task of a config to a policy that was trained elsewhere; compare a torch module with the rebuilt network."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Singles
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.foreign.policy_files import ForeignPolicy
from ees_mpi.registry import convert, part_settings
from ees_mpi.registry.plugins import calling
from ees_mpi.registry.toml import tables

COUNT = 100  # random observations of a comparison
LIMIT = 4.0  # of these observations, as they are after the normaliser
TOLERANCE = 1e-4  # of the actions, as a share of the largest one
NETWORK = {"activation": "tanh", "action_scale": [], "action_shift": []}  # keys of a task, and their defaults
OTHER = "write another network as task.policy, see `ees-mpi docs plugins`"


def fitted(config: Config, policy: ForeignPolicy) -> Config:
    """Return the config with the network and the observations that the policy needs; notes say what has changed."""
    task: Any = config.task
    plugin, fields = getattr(task, "policy", None), getattr(task, "__struct_fields__", ())
    wanted: dict[str, Any] = {"observation_clip": policy.clip}
    if not len(policy.mean):
        wanted["observation_share"] = 0.0  # otherwise a run would begin to normalise
    if not plugin:
        wanted |= {**policy.settings, **({"hidden": policy.layers[1:-1]} if policy.layers else {})}
    changes = {name: value for name, value in wanted.items() if name in fields}
    names = changes.get("activation", ())
    for name in [names] if isinstance(names, str) else names:
        if name not in task.activations:
            known = ", ".join(task.activations)
            raise ConfigError(f"{policy.source}: expected the activations {known}; got {name}: {OTHER}")
    fitting = convert({**part_settings(task), **changes}, type(task), "task") if changes else task
    if policy.layers and fitting.layers and not plugin and policy.layers != tuple(fitting.layers):
        sizes = ", ".join(map(str, fitting.layers))
        raise ConfigError(f"{policy.source}: its layers have the sizes {policy.layers}; the task has ({sizes})")
    if (length := len(policy.parameters)) != fitting.parameters:  # also with layers: its network may be the user's own
        raise ConfigError(f"{policy.source}: it has {length} parameters; the task has {fitting.parameters}")
    notes = []
    if hasattr(fitting, "network") and policy.module is not None:
        _check_module(policy, fitting)
    elif hasattr(fitting, "activation") and policy.layers and not plugin and "activation" not in policy.settings:
        notes = [f"{policy.source} does not say its activation; {_toml(task, 'activation')} is taken (--activation)"]
    changed = [_toml(fitting, name) for name in fields if getattr(fitting, name) != getattr(task, name)]
    notes += [f"{policy.source} sets {', '.join(changed)}"] if changed else []
    return replace(config, task=fitting, notes=(*config.notes, *notes))


def _toml(task: Any, name: str) -> str:
    return f"task.{name} = {json.dumps(getattr(task, name))}"


def _check_module(policy: ForeignPolicy, task: Any) -> None:
    """Raise a ConfigError if a torch module acts otherwise than the network that is rebuilt from its parameters."""
    limit = min(policy.clip or LIMIT, LIMIT)
    seen = np.random.default_rng(0).uniform(-limit, limit, (COUNT, task.layers[0])).astype(np.float32)
    # A module with a normaliser takes either normalised observations, or observations as they are.
    inputs = [seen, *([(policy.mean + policy.std * seen).astype(np.float32)] if len(policy.mean) else [])]
    with before_rollouts(), calling(policy.source, "the module, which is compared with the rebuilt network,"):
        expected = [_module_actions(policy.module, rows, task.layers[-1]) for rows in inputs]
    network = task.network()
    network.load(policy.parameters)
    with np.errstate(all="ignore"):
        actions = np.stack([network.act(row) for row in seen])
        difference = min(float(np.abs(actions - reference).max()) for reference in expected)
    if not difference <= TOLERANCE * max(np.abs(each).max() for each in expected):
        raise ConfigError(
            f"{policy.source}: on {COUNT} random observations its actions differ by up to {difference:.3g} from those "
            f"of the rebuilt network ({_toml(task, 'activation')}); name its activation, for example --activation relu "
            f'(in Python: activation="relu"), or {OTHER}'
        )


def _module_actions(module: Any, seen: Singles, size: int) -> NDArray[Any]:
    """Return the actions [n, size] of a torch module, which does not learn meanwhile."""
    import torch

    first = next(iter(module.parameters()))
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            actions = module(torch.as_tensor(seen).to(first.device, first.dtype)).detach().cpu().numpy()
    finally:
        for part, mode in modes.items():
            part.training = mode
    if actions.shape != (len(seen), size):
        raise ValueError(f"it returned the shape {actions.shape}, expected {(len(seen), size)}")
    return np.asarray(actions, np.float64)


def check_network(text: str, toml: str, config: Config) -> None:
    """Raise a ConfigError if the network of a run is another function of its parameters than that of a config.

    toml: the config of the run; empty for a policy of another program, which `fitted` has checked
    """
    if not toml or not hasattr(config.task, "activation"):
        return
    task = tables(toml, (), f"the config in {text}").get("task")
    for name, default in NETWORK.items():
        pair = (task if isinstance(task, dict) else {}).get(name, default), part_settings(config.task)[name]
        theirs, ours = (json.dumps(value, default=str) for value in pair)
        if theirs != ours:
            raise ConfigError(f"{text}: its network has {theirs}, this config {ours}; set task.{name}={theirs}")
