"""Policies that were trained elsewhere: a model of Stable-Baselines3, a state_dict, a file of arrays, a function.

`read` returns one; `fitted` returns a config whose task has its network.

The network is a perceptron. Its arrays have the names of torch: NAME.weight [outputs, inputs] and NAME.bias [outputs]
for each layer. Only a model of Stable-Baselines3 says its activation; a torch module is compared with the
rebuilt network. The arrays `observation_mean`, `observation_std` and `observation_clip`, if there are any, say how the
policy normalises its observations; without them it does not. A function may also return one flat vector, for tasks
without layers.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError, before_rollouts
from ees_mpi.foreign import array_files
from ees_mpi.foreign.array_files import NPZ, SB3, TORCH, Named, as_arrays
from ees_mpi.policies import ACTIVATIONS
from ees_mpi.registry import convert, flat, part_settings
from ees_mpi.registry.plugins import calling, imported
from ees_mpi.registry.toml import tables
from ees_mpi.tasks.locomotion import NETWORK

NORMALISER = ("observation_mean", "observation_std", "observation_clip")
MAX_NORMALISER = 1e15  # of a normaliser: networks compute in single precision
COUNT = 1e6  # observations that a stated normaliser stands for, if a run continues it
SUFFIXES = (*TORCH, NPZ, SB3)
COMPARED = 100  # random observations of a comparison
LIMIT = 4.0  # of these observations, as they are after the normaliser
TOLERANCE = 1e-4  # of the actions, as a share of the largest one
OTHER = "write another network as task.policy, see `ees-mpi docs plugins`"
CRITIC = re.compile(r"value|critic|vf|qf|q_net|q\d|target|std")  # in the names of layers that do not act


@dataclass(frozen=True)
class PolicySource:
    """A policy as the user names it for `measure` and `train --from`, with the options for other programs' policies."""

    policy: Any  # a path, "module:function", or in Python a function, a torch module or named arrays
    layers: tuple[str, ...] = ()  # their names, in order; empty: all of them
    normaliser: Path | None = None  # an npz with the arrays of the normaliser, if the policy has none
    activation: str | tuple[str, ...] = ()  # as `task.activation`; empty: unknown

    def __str__(self) -> str:
        named = isinstance(self.policy, (str, Path))
        return str(self.policy) if named else getattr(self.policy, "__name__", type(self.policy).__name__)

    @property
    def foreign(self) -> bool:
        """Whether another program made the policy: by the suffix of a file, or "module:function"."""
        if not isinstance(self.policy, (str, Path)):
            return True
        path = Path(str(self))
        if path.suffix == NPZ:
            return array_files.has_layers(path)
        if path.suffix in SUFFIXES:
            return not (path.is_file() and h5py.is_hdf5(path))  # a run file may have any name
        return ":" in str(self) and not path.exists()


@dataclass(frozen=True)
class ForeignPolicy:
    """A policy that was trained elsewhere, as one flat vector of parameters."""

    name: str  # of its file or function
    source: str
    parameters: Singles  # [D]
    layers: tuple[int, ...]  # sizes from observation to action; empty: only a flat vector is known
    mean: Floats  # [O] of the observations; empty: observations are not normalised
    std: Floats  # [O]
    clip: float  # of the normalised observations; 0: none
    settings: Mapping[str, Any] = field(default_factory=dict)  # keys of the task that are known: activation and others
    module: Any = None  # the torch module itself, if there is one

    @property
    def digest(self) -> str:
        """A hash of the parameters, the normaliser and the activation."""
        parts = (self.parameters, self.mean, self.std, np.array(self.clip))
        known = json.dumps(self.settings).encode() if self.settings else b""
        return hashlib.sha256(b"".join(part.tobytes() for part in parts) + known).hexdigest()

    @property
    def observation_sums(self) -> Floats:
        """The observation sums [1 + 2 O] that give the mean and std of the normaliser."""
        squares = np.square(self.std) + np.square(self.mean)
        return np.concatenate([[COUNT], COUNT * self.mean, COUNT * squares])


def read(
    policy: Any, layers: Sequence[str] = (), normaliser: Path | None = None, activation: Any = ()
) -> ForeignPolicy:
    """Return the policy of another program; see `PolicySource` for the arguments."""
    text = str(PolicySource(policy))
    name = Path(text).stem if Path(text).suffix in SUFFIXES else text.rpartition(":")[2]
    known: dict[str, Any] = {}
    arrays: Named | NDArray[Any]
    module, names = None, list(layers)
    if isinstance(policy, (str, Path)) and Path(text).suffix == SB3:
        if names or activation:
            raise ConfigError(f"--layers, --activation: {text} says which layers act, and how; leave them out")
        arrays, names, known = array_files.read_sb3(Path(text))
    else:
        arrays, module = _load(policy, text)
    if not isinstance(arrays, dict):
        return _finished(name, text, arrays, (), _normaliser({}, normaliser, text))
    stated = {key: arrays.pop(key) for key in NORMALISER if key in arrays}
    in_order = names or [key.removesuffix(".weight") for key in arrays if key.endswith(".weight")]
    if not in_order:
        listed = ", ".join(list(arrays)[:6]) or "nothing"
        raise RunFileError(f"{text}: expected arrays NAME.weight and NAME.bias for each layer; it has {listed}")
    sizes, parts = _layers(arrays, in_order, text)
    spare = [key for key in arrays if key.rpartition(".")[0] not in in_order and key not in in_order]
    if spare and not names:
        raise RunFileError(f"{text}: {spare[0]} belongs to no layer; {_choice(arrays)}")
    statistics = _normaliser(stated, normaliser, text)
    made = _finished(name, text, np.concatenate(parts), sizes, statistics)
    settings = {**known, **({"activation": activation} if activation else {})}
    return replace(made, settings=settings, module=module)


def _finished(name: str, text: str, flat: NDArray[Any], sizes: tuple[int, ...], stated: Named) -> ForeignPolicy:
    """Return the policy; raise a RunFileError if its numbers are not finite or its normaliser does not fit."""
    mean, std = (np.asarray(stated.get(key, np.zeros(0)), np.float64).reshape(-1) for key in NORMALISER[:2])
    clips = np.asarray(stated.get("observation_clip", 0.0), np.float64).reshape(-1)
    clip = float(clips[0]) if len(clips) == 1 else math.nan
    with np.errstate(over="ignore"):
        flat = flat.astype(np.float32)
    if not np.isfinite(flat).all() or flat.ndim != 1 or not flat.size:
        raise RunFileError(f"{text}: its parameters are not finite numbers in one vector")
    expected = sizes[0] if sizes else len(mean)
    fits = len(mean) == len(std) and len(mean) in (0, expected) and (np.abs([*mean, *std]) <= MAX_NORMALISER).all()
    if not fits or not (std >= 1 / MAX_NORMALISER).all() or not (math.isfinite(clip) and clip >= 0):
        raise RunFileError(
            f"{text}: expected observation_mean and observation_std of {expected} numbers up to {MAX_NORMALISER:g}, "
            f"stds above 0, and an observation_clip of 0 or more; got {len(mean)} and {len(std)} numbers, and {clip:g}"
        )
    return ForeignPolicy(name, text, flat, sizes, mean, std, clip)


def _load(source: Any, text: str) -> tuple[Named | NDArray[Any], Any]:
    """Return named arrays, or one flat vector, of any kind of source; and the torch module, if there is one."""
    if isinstance(source, (str, Path)):
        if ":" not in text or Path(text).suffix in SUFFIXES:
            return array_files.read(Path(text)), None
        source = imported(text, "policy")
    if not hasattr(source, "state_dict") and callable(source):
        try:
            source = source()
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{text}: calling it raised {type(error).__name__}: {error}") from error
    if hasattr(source, "state_dict"):
        return as_arrays(source.state_dict(), text), source
    if isinstance(source, Mapping):
        return as_arrays(source, text), None
    flat = np.asarray(source)
    if flat.dtype.kind not in "fiu" or flat.ndim != 1:
        raise ConfigError(
            f"{text}: expected named arrays (NAME.weight, NAME.bias), a torch module or a flat vector; "
            f"got {type(source).__name__}"
        )
    return flat, None


def _choice(arrays: Named) -> str:
    """Return the words that list all layers, and propose the option for those that act."""
    layers = {key.removesuffix(".weight"): array.shape for key, array in arrays.items() if key.endswith(".weight")}
    acting = [name for name, shape in layers.items() if len(shape) == 2 and not CRITIC.search(name)]
    listed = ", ".join(f"{name} {shape}" for name, shape in list(layers.items())[:20])
    option = f"--layers {','.join(acting) or 'NAME,...'}"
    return f"it has the layers {listed}; name the layers that act, in order (in Python: layers=[...]): {option}"


def _layers(arrays: Named, names: Sequence[str], text: str) -> tuple[tuple[int, ...], list[NDArray[Any]]]:
    """Return the sizes of the layers, and their weights and biases in the order of our flat vector."""
    parts: list[NDArray[Any]] = []
    sizes: tuple[int, ...] = ()
    for name in names:
        for key in (f"{name}.weight", f"{name}.bias"):
            if key not in arrays:
                raise RunFileError(f"{text}: it has no {key}; it has {', '.join(list(arrays)[:8])}")
        weight, bias = arrays[f"{name}.weight"], arrays[f"{name}.bias"]
        expected = (weight.shape[0], sizes[-1] if sizes else weight.shape[-1])
        if weight.shape != expected or bias.shape != expected[:1]:
            raise RunFileError(
                f"{text}: {name} has a weight of shape {weight.shape} and a bias of shape {bias.shape}; expected "
                f"{expected} and {expected[:1]}, after a layer of {expected[1]} outputs; {_choice(arrays)}"
            )
        sizes = (*(sizes or (weight.shape[1],)), weight.shape[0])
        parts += [weight.T.ravel(), bias]
    return sizes, parts


def _normaliser(stated: Named, path: Path | None, text: str) -> Named:
    """Return the arrays of the normaliser: those of the policy, or those of an npz."""
    if path is None:
        return stated
    if stated:
        raise ConfigError(f"--normaliser {path}: {text} has its own normaliser; leave it out")
    arrays = as_arrays(array_files.read_npz(path), f"--normaliser {path}")
    if not set(NORMALISER[:2]) <= set(arrays) <= set(NORMALISER):
        wanted, names = ", ".join(NORMALISER), ", ".join(arrays) or "no arrays"
        raise RunFileError(f"--normaliser {path}: expected {wanted} (the last one may be absent); got {names}")
    return arrays


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
        if name not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
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
    seen = np.random.default_rng(0).uniform(-limit, limit, (COMPARED, task.layers[0])).astype(np.float32)
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
            f"{policy.source}: on {COMPARED} random observations its actions differ by up to {difference:.3g} from "
            f"those of the rebuilt network ({_toml(task, 'activation')}); name its activation, for example "
            f'--activation relu (in Python: activation="relu"), or {OTHER}'
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
    theirs, ours = _network(task if isinstance(task, dict) else {}), _network(part_settings(config.task))
    for name in {**theirs, **ours}:
        pair = [json.dumps(network.get(name), default=str) for network in (theirs, ours)]
        if pair[0] != pair[1]:
            has, this = (f"no {name}" if value == "null" else value for value in pair)
            advice = f"leave out task.{name}" if pair[0] == "null" else f"set task.{name}={has}"
            raise ConfigError(f"{text}: its network has {has}, this config {this}; {advice}")


def _network(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a task that say which function a network is of its parameters."""
    return NETWORK | {key: value for key, value in flat(task) if key in NETWORK or key.startswith("policy_settings.")}
