"""The starting point of a run that begins from another run, or from a policy: mean(s), observation sums."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi import machine
from ees_mpi.arrays import Arrays, Floats, Singles
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.foreign import array_files, policy_files
from ees_mpi.foreign.policy_files import ForeignPolicy, PolicySource
from ees_mpi.generation import State, mean_std
from ees_mpi.registry import flat
from ees_mpi.registry.search import sources
from ees_mpi.registry.toml import tables
from ees_mpi.run.file import Run, is_study, open_run, starting_note, tell_missing
from ees_mpi.run.parts import split_mean, state_of

KINDS = (
    "expected a policy: a run file, .npz, .zip of Stable-Baselines3, .pt, shelf:NAME or module:function. "
    "A plain pickle is refused, because reading it can run code"
)


@dataclass(frozen=True)
class StartingPoint:
    """The mean(s) of a run at some generation, with the statistics that normalise their observations."""

    mean: Singles  # [K, D]
    observations: Floats  # [1 + 2 O]
    std: float
    about: dict[str, Any]  # the run, generation and digest, for the notes in a file
    layers: tuple[int, ...] = ()  # of an exported policy: the sizes of observation, hidden layers, action
    config: str = ""  # the TOML of the run; empty for a policy of another program
    learned: Arrays = field(default_factory=dict)  # what else was learned: `std`, `log_std`
    foreign: ForeignPolicy | None = None  # a policy that was trained elsewhere
    noted_std: float = 0.0  # of the run that a study began with; 0: not known

    @property
    def statistics(self) -> tuple[Floats, Floats]:
        """The mean and std [O] that normalise observations: a policy's are exact, training has a floor for the std."""
        if self.foreign and len(self.foreign.mean):
            return self.foreign.mean, self.foreign.std
        return mean_std(self.observations)

    @property
    def own_std(self) -> float | None:
        """The standard deviation of the run, the median of a learned one; None for a policy of another program."""
        return None if self.foreign else self.noted_std or float(np.median(self.learned.get("std", self.std)))

    def fit(self, config: Config) -> Config:
        """Return the config of a new run whose network is that of a policy of another program."""
        return policy_files.fitted(config, self.foreign) if self.foreign else config

    def first_state(self, name: str, config: Config) -> tuple[Config, State, str]:
        """Return the config of a run that starts here, with a note on changed code; its first state, and a JSON note.

        A mixture that starts from a single mean draws its means from the population of that run, as in the paper. A
        diagonal population that starts from another one continues with its std. `name`: of the starting point in
        messages.
        """
        start = self.fitted(f"--from {name}", config)
        stds = start.statistics[1], mean_std(start.observations)[1]
        if start.foreign and not np.allclose(*stds, rtol=1e-6):
            least = f"its smallest std is {stds[0].min():g}, and a run has stds of at least {stds[1].min():g}"
            raise ConfigError(f"--from {name}: a run cannot continue its normaliser: {least}")
        share = _key("task.observation_share", start.config)
        if share == 0 < config.task.observation_share and not start.observations[0]:
            expected = "expected task.observation_share=0, because this run would begin to normalise them"
            raise ConfigError(f"--from {name}: its policy has seen observations as they are; {expected}")
        mean, means = start.mean, config.population.components
        if len(mean) != means:
            if len(mean) != 1:
                expected = f"this config {means}; expected 1 or as many"
                raise ConfigError(f"--from {name}: it has {len(mean)} means, {expected}")
            mean = split_mean(config, mean, start.learned.get("std", np.float32(start.std)))
        state = state_of(config, mean, start.observations)
        learned = {each: start.learned.get(each, array) for each, array in state.learned.items() if each != "mean"}
        first = replace(state, learned=config.population.clip({"mean": mean, **learned}))
        for each, array in state.arrays().items():
            if (shape := first.arrays()[each].shape) != array.shape:
                raise ConfigError(f"--from {name}: its {each} has the shape {shape}; expected {array.shape}")
        if changed := code_change(start, config):
            changed += ". This run trains with the code as it is now"
            config = replace(config, notes=(*config.notes, changed))
        return config, first, json.dumps(start.about)

    def fitted(self, name: str, config: Config) -> "StartingPoint":
        """Return the starting point for the task of a config; raise a ConfigError if that has another network.

        name: of the starting point in messages
        """
        policy_files.check_network(name, self.config, config)
        task, start = config.task, self
        if self.foreign and not len(self.foreign.mean):  # it does not normalise, so its observations are not known
            start = replace(self, observations=np.zeros(1 + 2 * task.observation_dim))
        layers = tuple(task.layers) if start.layers else ()
        has = start.mean.shape[1], len(start.observations) // 2, start.layers
        if has != (task.parameters, task.observation_dim, layers):
            theirs, ours = _hidden(start.config), _hidden(config.to_toml())
            raise ConfigError(
                f"{name}: it has {has[0]} parameters, {has[1]} observations{theirs}; this config has "
                f"{task.parameters} parameters, {task.observation_dim} observations{ours}: another network or another "
                "task"
            )
        return start


def _hidden(config: str) -> str:
    """Return the hidden layers in a config (as TOML) in words; empty if there are none."""
    hidden = _key("task.hidden", config)
    return "" if hidden is None else f" and task.hidden = {hidden}"


def _key(name: str, config: str) -> Any:
    """Return the value of a key in a config (as TOML); None if it is not there."""
    return dict(flat(tables(config, (), "config"))).get(name)


def parse(text: str) -> tuple[Path, int | None]:
    """Split RUN.h5[@generation]."""
    path, at, generation = text.rpartition("@")
    if not at or not (generation.isascii() and generation.isdigit()):
        path, generation = text, ""
    return Path(path), int(generation) if generation else None


def load(source: PolicySource, label: str = "", generation: int | None = None, trust: bool = False) -> StartingPoint:
    """Return the starting point that the option `--from` names: RUN.h5[@generation], POLICY.npz, or another policy.

    label: of another program's policy; generation: of a run, in place of @generation; trust: code of a run may run
    """
    text = str(source)
    if source.foreign:
        policy = policy_files.read(source.policy, source.layers, source.normaliser, source.activation)
        return of_policy(policy, label)
    if source.layers or source.normaliser or source.activation:
        only = "--layers, --normaliser and --activation are for policies of other programs only"
        raise ConfigError(f"{text}: {only}; leave them out")
    path, generation = (source.policy, generation) if isinstance(source.policy, Path) else parse(text)
    if path.suffix == ".npz":
        if generation is not None:
            raise ConfigError(f"{path}: an exported policy has one generation; leave out {generation}")
        return read_policy(path)
    other = isinstance(source.policy, str) and path.suffix not in (".h5", ".toml")
    if other and path.is_file() and not h5py.is_hdf5(path):
        meant = f"did you mean {path.with_suffix('')}:FUNCTION?" if path.suffix == ".py" else KINDS
        raise RunFileError(f"{path} is no policy that can be read; {meant}")
    with tell_missing(open_run(path, trust)) as run:
        if run.generations == 0 and generation is None:
            raise RunFileError(f"{path} has no committed generation yet")
        start = read(run, generation)
        steps = {"training_steps": steps_until(run, start.about["generation"])}
        return replace(start, about={**start.about, **steps})


def of_policy(policy: ForeignPolicy, label: str = "") -> StartingPoint:
    """Return the starting point of a policy that was trained elsewhere; `label`: its name in tables and figures."""
    about = {
        "path": Path(policy.source).name,
        "run_id": policy.digest[:32],
        "objective": label or policy.name,
        "method": "another program",
        "generation": 0,
        "state_sha256": policy.digest,
        "training_steps": 0,
    }
    sums = policy.observation_sums if len(policy.mean) else np.zeros(1)
    return StartingPoint(policy.parameters[None], sums, 0.02, about, foreign=policy)


def read(run: Run, generation: int | None) -> StartingPoint:
    """Return the starting point after the last generation of a run, or before another generation."""
    config, last = run.config, run.generations
    if generation is not None and -last <= generation < 0:
        generation += last  # from the end
    if generation is None or generation == last:
        state = State.from_arrays(run.state_arrays())
        generation, digest = state.generation, state.digest().hex()
        learned, sums = state.learned, state.observations
    else:
        if not 0 <= generation < last:
            raise ConfigError(f"generation {generation}: {run.path} has 0 to {last}")
        digest = run["state_sha256"][generation - 1].decode() if generation else ""
        learned, sums = run.learned(generation), run.observation_sums(generation)
    if is_study(run) and last:  # of any policy: those of other programs have no least std
        acted = run.observation_statistics(min(generation, last - 1))[1]
        ours = mean_std(sums)[1]
        if not np.allclose(acted, ours, rtol=1e-6):
            least = f"the smallest std of its normaliser is {acted.min():g}, and a run has stds of at least"
            raise ConfigError(f"{run.path}: {least} {ours.min():g}; expected the file of the policy instead")
    about = {
        "path": run.path.name,  # without its folder: files are passed on
        "run_id": run.run_id,
        "objective": config.method.algorithm,
        "method": config.method.name,
        **({"engine": config.task.engine} if config.task.engine else {}),
        "generation": generation,
        "state_sha256": digest,
    }
    note = starting_note(run)
    # A study evaluates a policy, and has trained none.
    code = note.get("own_code", {}) if is_study(run) else machine.own_code(run.machine(max(generation - 1, 0)))
    if code:
        about["own_code"] = code
    others = {name: array for name, array in learned.items() if name != "mean"}
    std, text, noted = config.population.std_at(generation), config.to_toml(), note.get("own_std", 0.0)
    return StartingPoint(learned["mean"], sums, std, about, config=text, learned=others, noted_std=noted)


def code_change(start: StartingPoint, config: Config) -> str:
    """Return a sentence that the user's code is another one than that which trained a run; empty if it is not."""
    here = machine.own_code(sources(config.to_toml()))
    return machine.code_change(here, start.about.get("own_code", {}), f"{start.about['path']} was trained with it")


def steps_until(run: Run, generation: int) -> int:
    """Return the number of steps of a run before a generation."""
    return sum(int(np.asarray(run["length"][g]).sum()) for g in range(generation))


def policy_arrays(start: StartingPoint, parameters: Singles, steps: int) -> dict[str, Any]:
    """Return the arrays of an exported policy from which `read_policy` makes its starting point.

    parameters [D]: of the policy; one of the means of `start`, or an individual; steps: of the training
    """
    about = {**start.about, "std": start.std, "training_steps": steps}
    if start.noted_std:
        about["own_std"] = start.noted_std
    if len(start.mean) > 1 or parameters.tobytes() != start.mean[0].tobytes():  # not the mean of the whole run
        about["state_sha256"] = hashlib.sha256(parameters.tobytes()).hexdigest()
    facts = {"about": json.dumps(about), "config": start.config}
    learned = {f"learned_{name}": array for name, array in start.learned.items()}
    return {**facts, **learned, "observation_sums": start.observations}


def read_policy(path: Path) -> StartingPoint:
    """Return the starting point of a policy that `ees-mpi export --policy` wrote."""
    arrays = array_files.read_npz(path)
    try:
        mean, sizes = _parameters(arrays)
        observations, mean_of_all = _finite(arrays, "observation_sums", np.float64), arrays["observation_mean"]
        if observations.shape != (1 + 2 * len(mean_of_all),):
            raise ValueError(f"its observation_sums do not fit its {len(mean_of_all)} observations")
        about = dict(json.loads(str(arrays["about"])))
        needed = ("path", "generation", "run_id", "objective", "state_sha256", "training_steps")
        missing = [name for name in needed if name not in about]
        if missing:
            raise ValueError(f"its note has no {missing[0]}")
        std, noted, config = float(about.pop("std")), about.pop("own_std", 0.0), str(arrays["config"])
        others = [name for name in arrays if name.startswith("learned_")]
        learned = {name.removeprefix("learned_"): _finite(arrays, name) for name in others}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        other = "" if "parameters" in arrays else "; another program's has NAME.weight and NAME.bias for each layer"
        raise RunFileError(f"{path} is not a policy of `ees-mpi export --policy`: {reason}{other}") from None
    return StartingPoint(mean[None], observations, std, about, sizes, config, learned, noted_std=noted)


def _finite(arrays: Arrays, name: str, dtype: Any = None) -> NDArray[Any]:
    """Return an array, perhaps as another type; raise a ValueError if it has anything but finite numbers."""
    if arrays[name].dtype.kind in "fiu":
        with np.errstate(over="ignore"):
            numbers = arrays[name].astype(dtype or arrays[name].dtype)
        if np.isfinite(numbers).all():
            return numbers
    raise ValueError(f"its {name} is not an array of finite numbers")


def _parameters(arrays: Arrays) -> tuple[Singles, tuple[int, ...]]:
    """Return the parameters [D] of an exported policy and the sizes of its layers; none for a network of the user."""
    if "layers" not in arrays:
        mean = _finite(arrays, "parameters", np.float32)
        if mean.ndim != 1:
            raise ValueError("its parameters are not a vector")
        return mean, ()
    layers = [_finite(arrays, name, np.float32) for name in arrays["layers"].tolist()]
    sizes = (*(len(layer) - 1 for layer in layers), layers[-1].shape[1])
    mean = np.concatenate([layer.ravel() for layer in layers])
    if [layer.shape for layer in layers] != [(a + 1, b) for a, b in pairwise(sizes)]:
        raise ValueError("its layers are not matrices that fit together")
    return mean, sizes
