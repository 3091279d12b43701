"""`ees-mpi export`: write a policy or the metrics of a run for other programs; arrays: `run.to_xarray()`.

`--policy`: an npz with the layers and the normaliser, and a loader that needs only numpy. `train --from` and `sample`
also start from the npz: it has the config of the run and the exact observation sums. `--csv`: the metrics as a table,
one row per generation.
"""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi.commands.arguments import check_committed, counted
from ees_mpi.contracts import Task
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_new, check_writable, written
from ees_mpi.outcomes import Singles
from ees_mpi.policies import MLP, by_layer, parameter_count
from ees_mpi.registry.marks import require
from ees_mpi.registry.plugins import split
from ees_mpi.runs import starting_point
from ees_mpi.runs.starting_point import StartingPoint
from ees_mpi.store.reader import Run
from ees_mpi.tasks.locomotion import PolicyTask
from ees_mpi.tasks.plugin_policy import LENGTH

LOADER = '''"""A policy exported by ees_mpi: `act = load("{name}")`, then `action = act(observation)`.

`act` takes one observation [{inputs}] or a batch [n, {inputs}], not normalised, and returns {returns}.
Bits of a batch may differ from those of single observations in the last digit.
"""
import numpy as np


def load(path):
    with np.load(path) as file:
        mean, std, layers = file["observation_mean"], file["observation_std"], [file[k] for k in file["layers"]]
    activations = [{activations}]

    def act(observation):
        x = np.clip((np.float32(observation) - mean) / std, -{clip}, {clip})
        for layer, activation in zip(layers, activations):  # (inputs + 1, outputs): the weights over the bias
            x = activation(np.concatenate([x, np.ones_like(x[..., :1])], axis=-1) @ layer)
        return {action}

    return act
'''

ACTIVATIONS = {
    "tanh": "np.tanh",
    "relu": "lambda x: np.maximum(x, 0)",
    "silu": "lambda x: x / (1 + np.exp(-x))",
    "elu": "lambda x: np.maximum(x, 0) + np.expm1(np.minimum(x, 0))",
    "identity": "lambda x: x",
}

OWN_LOADER = '''"""A policy exported by ees_mpi: `act = load("{name}")`, then `action = act(observation)`.

`act` takes one observation [{inputs}] or a batch [n, {inputs}], not normalised, and returns {returns}.
The network is {path}: its module must be beside this file or on the path. Call `load` before each rollout if
the network has a memory.
"""
import numpy as np
from {module} import {policy} as own


def load(path):
    with np.load(path) as file:
        mean, std, parameters = file["observation_mean"], file["observation_std"], file["parameters"]
    {begin}

    def act(observation):
        x = np.clip((np.float32(observation) - mean) / std, -{clip}, {clip})
        return np.stack([policy(row) for row in x]) if x.ndim > 1 else np.asarray(policy(x))

    return act
'''

SCORES = ".\nFor discrete actions it returns a score for each: take `act(observation).argmax(-1)`"
VECTORS = ("behavior_variance", "mean_behavior", "objective_value")  # metrics with several numbers per generation
FIRST_WORDS = LOADER.partition(",")[0]  # of every exported loader


def export_csv(run: Run, out: Path | None, overwrite: bool = False) -> Path:
    """Write the metrics, the times and the digests of all generations; return the file."""
    target = out or run.path.with_suffix(".csv")
    check_writable(target, suffixes=[".csv"], sources=[run.path])
    check_new(target, overwrite)
    check_committed(run)
    run.check_all()
    columns: dict[str, Any] = {"generation": np.arange(run.generations)}
    for name in run.names:
        if name in VECTORS:
            columns |= {f"{name}_{place}": column for place, column in enumerate(run[name][:].T)}
        elif name == "std":
            columns[name] = np.array([np.median(run[name][g]) for g in range(run.generations)])
        elif run[name].shape[1:] == ():
            columns[name] = run[name][:].astype(str) if run[name].dtype.kind == "S" else run[name][:]
    with written(target, "w") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return target


def export_policy(
    run: Run,
    out: Path | None = None,
    generation: int | None = None,
    individual: int | None = None,
    component: int | None = None,
    *,
    overwrite: bool = False,
) -> list[Path]:
    """Write a policy as `out` (npz) and its loader beside it; by default the mean of the final state."""
    if individual is not None and generation is None:
        generation = -1
    if generation is not None:
        check_committed(run)
        generation = counted("--generation", generation, run.generations)
    chosen = {"generation": generation, "individual": individual, "component": component}
    out = out or Path("-".join(["policy", *(f"{name}{n}" for name, n in chosen.items() if n is not None)]) + ".npz")
    task = check_policy(out, run.config.task, run.path, overwrite)
    start = starting_point.read(run, generation)
    if generation is not None and individual is not None:
        parameters = run.individual(generation, counted("--individual", individual, run.config.population.size))
    else:
        means = len(start.mean)
        if component is None and means > 1:
            raise ConfigError(f"{run.path} has {means} means; select --component 0 to {means - 1}, or an --individual")
        parameters = start.mean[counted("--component", component or 0, means)]
    return write_policy(out, task, start, parameters, starting_point.steps_until(run, start.about["generation"]))


def export_again(policy: Path, out: Path | None = None, *, overwrite: bool = False, trust: bool = False) -> list[Path]:
    """Write an exported policy, such as a trained mean of the package, with its loader."""
    start, out = starting_point.read_policy(policy), out or Path("policy.npz")
    config = configs.parse(start.config, (), f"the config in {policy}", trust, stored=True)
    task = check_policy(out, config.task, policy, overwrite)
    return write_policy(out, task, start, start.mean[0], start.about["training_steps"])


def check_policy(out: Path, task: Task, source: Path, overwrite: bool, option: str = "-o") -> PolicyTask:
    """Raise an error if a task has no network, or if its policy and the loader cannot be written; return the task."""
    if not isinstance(task, PolicyTask):
        raise RunFileError(f"{source}: its task has no policy network to export")
    check_writable(out, option, suffixes=[".npz"], sources=[source])
    loader = loader_of(out)
    if loader.is_dir():
        raise ConfigError(f"{option} {out}: its loader would be {loader}, which is a folder; choose another name")
    if loader.is_file() and not loader.read_bytes().startswith(FIRST_WORDS.format(name=out.name).encode()):
        reason = "which export did not write, or wrote for another policy"
        raise ConfigError(f"{option} {out}: its loader would replace {loader}, {reason}; choose another name")
    check_new(out, overwrite)
    return task


def loader_of(out: Path) -> Path:
    """Return the Python file beside a policy."""
    return out.with_name(re.sub(r"\W", "_", out.stem) + ".py")


def write_policy(out: Path, task: PolicyTask, start: StartingPoint, parameters: Singles, steps: int) -> list[Path]:
    """Write the parameters [D] of a policy that comes from a starting point, and the loader.

    steps: of the training
    """
    loader, (mean, std) = loader_of(out), start.statistics
    arrays, words = _own_network(task, parameters) if task.policy else _network(task, parameters, len(mean))
    clip = str(task.observation_clip) if task.observation_clip else "np.inf"
    returns = f"the action, not clipped{SCORES if hasattr(task, 'env') else ''}"
    words |= {"clip": clip, "name": out.name, "inputs": str(len(mean)), "returns": returns}
    with written(loader, "w") as text, written(out) as file:
        np.savez(
            file,
            observation_mean=mean.astype(np.float32),
            observation_std=std.astype(np.float32),
            **arrays,
            **starting_point.policy_arrays(start, parameters, steps),
        )
        text.write((OWN_LOADER if task.policy else LOADER).format(**words))
    return [out, loader]


def _network(task: PolicyTask, parameters: Singles, inputs: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the layers of our network. Their sizes come from the file, so that no code of the user is needed."""
    sizes = (inputs, *task.hidden)
    outputs = (parameters.size - parameter_count(sizes)) // (sizes[-1] + 1)
    layers = {f"layer{depth}": layer for depth, layer in enumerate(MLP((*sizes, outputs)).matrices(parameters))}
    activations = ", ".join(ACTIVATIONS[name] for name in by_layer(task.activation, len(layers)))
    scaled = f"np.float32({list(task.action_scale) or 1}) * x + np.float32({list(task.action_shift) or 0})"
    words = {"activations": activations, "action": scaled if task.action_scale or task.action_shift else "x"}
    return {"layers": np.array(list(layers)), **layers}, words


def _own_network(task: PolicyTask, parameters: Singles) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the words for the loader of the user's own network."""
    path = task.policy or ""
    module, policy = split(path, "task.policy")
    require(path, "task.policy")  # the loader will import it
    if task.settings_for(parameters.size):  # a function
        settings = {name: value for name, value in (task.policy_settings or {}).items() if name != LENGTH}
        begin = f"def policy(x):\n        return own(parameters, x, **{settings!r})"
    else:
        arguments = {"observations": task.layers[0], "actions": task.layers[-1], **(task.policy_settings or {})}
        begin = f"network = own(**{arguments!r})\n    network.load(parameters)\n    policy = network.act"
    return {"parameters": parameters}, {"path": path, "module": module, "policy": policy, "begin": begin}
