"""Check that a state, and the outcomes of an interrupted generation, are those of a run with this config.

A stranger's file can have the right hashes, but arrays that no run with its config has. `Run` checks them here, before
anything uses them.
"""

from collections.abc import Mapping

import numpy as np

from ees_mpi.config import Config, Evolution
from ees_mpi.errors import EesError
from ees_mpi.outcomes import Arrays, Outcomes, Singles

LARGEST = 1e100  # no sum of observations is larger
Kinds = dict[str, tuple[str, tuple[int, ...]]]  # the type and the shape of each array


def check_state(state: Arrays, config: Config, sizes: Mapping[str, int], trains: bool) -> None:
    """Raise a ValueError unless a state has the arrays of a run with this config.

    sizes: the lengths of the axes of the file; trains: False for a sample, which has neither moments nor a memory
    """
    means = np.zeros((sizes["component"], sizes["parameter"]), np.float32)
    sums = np.zeros(1 + 2 * sizes.get("observation_dim", 0))
    expected = _kinds({"generation": np.array(0, np.int64), "mean": means, "observations": sums})
    own = _own(config, means, trains)
    for name, kind in (expected | (own or {})).items():
        if name not in state or (state[name].dtype.str, state[name].shape) != kind:
            got = f"{state[name].dtype} {state[name].shape}" if name in state else "none"
            raise ValueError(f"its state needs an array {name}, {kind[0]} {kind[1]}; got {got}")
    memory = _memory(config, sizes["behavior_dim"]) if trains else {}
    for name, array in state.items():
        known = name in expected or name in memory or (own is None and not name.startswith("memory/"))
        if not known and name not in (own or {}):
            raise ValueError(f"its state has an array {name[:80]}, which a run with its config does not have")
        if array.dtype.kind not in "biuf" or (
            name in memory and (array.dtype.str, array.shape[1:]) != (memory[name][0], memory[name][1][1:])
        ):
            raise ValueError(f"its state has an array {name[:80]} of another type or shape than its config asks for")
    _check_numbers(state)
    if hasattr(getattr(config.method, "optimizer", None), "beta1"):  # Adam raises numbers to the power of its steps
        steps = state.get("moments/steps", state["generation"])
        if not 0 <= steps <= state["generation"]:
            raise ValueError(f"its optimizer counts {steps} steps")


def _own(config: Config, means: Singles, trains: bool) -> Kinds | None:
    """Return the arrays of the population and of the optimizer; None if only the user's code or the task knows them."""
    if not config.task.sizes_known and not isinstance(config.method, Evolution):
        return None
    try:
        learned = config.population.learned(means)
        moments = config.method.moments(config.task, learned) if trains else {}
    except EesError:  # code that may not run, or is not here
        return None
    return _kinds({**learned, **{f"moments/{name}": array for name, array in moments.items()}})


def _kinds(arrays: Arrays) -> Kinds:
    return {name: (array.dtype.str, array.shape) for name, array in arrays.items()}


def _memory(config: Config, behavior_dim: int) -> Kinds:
    """Return the arrays that the objective remembers; the number of their rows varies."""
    if not isinstance(config.method, Evolution):
        return {}
    one = Outcomes(
        np.zeros((1, behavior_dim)), np.zeros(1), np.ones(1, np.int64), np.ones(1, np.bool_), np.zeros((0, 1))
    )
    return _kinds({f"memory/{name}": array for name, array in config.method.objective.remember(one, {}).items()})


def _check_numbers(state: Arrays) -> None:
    """Raise a ValueError for numbers that no run has."""
    for name, array in state.items():
        if "/" not in name and not np.isfinite(array).all():
            raise ValueError(f"its {name} is not finite")
    sums = state["observations"]
    if sums[0] < 0 or np.abs(sums).max() > LARGEST or state["generation"] < 0:
        raise ValueError("its sums of observations or its generation are numbers that no run has")
