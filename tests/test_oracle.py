"""Run files hold what a second, plain implementation of the algorithm computes: `support/oracle.py`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import oracle, own_functions

import ees_mpi
from ees_mpi.strategy.populations import diagonal

NORMAL = {"name": "normal", "size": 30, "std": 0.1}
ODD = {"name": "normal", "size": 31, "std": 0.1, "antithetic": False}
LARGE = {"name": "normal", "size": 150, "std": 0.1}  # more pairs than are summed in single precision
MIXTURE = {"name": "mixture", "size": 30, "std": 0.1, "components": 3}
DIAGONAL = {"name": "diagonal", "size": 30, "std": 0.1}
ASCENT = {"name": "ascent"}
STEEP = {"name": "ascent", "lr": 0.05}
KEYS = {"lr": 0.03, "l2": 0.05, "correct_first": False}
MAXENT = {"name": "maxent", "bandwidth": 1.0}
NARROW = {"name": "maxent", "bandwidth": 0.4, "normalization": "ranks"}
NOVELTY = {"name": "novelty", "neighbors": 4, "added": 7, "archive_size": 20}
BLEND = {
    "name": "blend",
    "parts": [{**NOVELTY, "share": 0.3}, {**NARROW, "share": 0.5}, {"name": "fitness", "share": 1.0}],
}
COMMON, OWN = {"rollouts": 3, "starts": "common"}, {"rollouts": 3, "starts": "own"}
KINDS: dict[str, dict[str, Any]] = {
    "fitness": {"objective": {"name": "fitness"}},
    "maxvar": {"objective": {"name": "maxvar"}},
    "maxvar of ranks": {"objective": {"name": "maxvar", "normalization": "ranks"}, "optimizer": ASCENT},
    "maxent": {"objective": {"name": "maxent"}},
    "maxent of width 1": {"objective": MAXENT},
    "maxent of ranks by the rule": {"objective": {"name": "maxent", "normalization": "ranks"}},
    "maxent of ranks": {"objective": NARROW, "optimizer": KEYS},
    "repeatable, common starts": {"objective": {"name": "repeatable"}, "task": COMMON},
    "repeatable, own starts": {"objective": {"name": "repeatable"}, "task": OWN},
    "novelty": {"objective": {"name": "novelty"}},
    "novelty, small archive": {"objective": NOVELTY, "task": {"rollouts": 2, "starts": "fixed"}},
    "blend": {"objective": BLEND},
    "one own start": {"task": {"starts": "own"}, "optimizer": {**ASCENT, "lr": 0.02, "l2": 0.1}},
    "large": {"population": LARGE},
    "not antithetic": {"population": ODD, "task": OWN},
    "mixture": {"population": MIXTURE},
    "mixture, fitness": {"population": {**MIXTURE, "antithetic": False}, "objective": {"name": "fitness"}},
    "decay": {"population": {**NORMAL, "std_decay": 0.8, "std_min": 0.05}, "optimizer": ASCENT},
    "mixture, decay": {"population": {**MIXTURE, "std_decay": 0.9}},
    "diagonal": {"population": DIAGONAL, "optimizer": {"l2": 0.1}},
    "diagonal, limits": {"population": DIAGONAL, "optimizer": STEEP, "objective": {"name": "fitness"}},
}


def config_of(task: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Return a config; `task`: keys of the task."""
    run = {"generations": 6, "seed": 3, "evaluate_mean_every": 2, "fsync": False}
    parts = {"population": NORMAL, "objective": MAXENT, "noise": {"size": 5000}}
    name = "started" if task.get("starts") else "waves"
    size = {"parameters": own_functions.PARAMETERS, "behavior_dim": 2, "start": 0.3}
    own = {"name": "function", "function": f"support.own_functions:{name}", **size, **task}
    return {"run": run, **parts, "task": own, **sections}


def observations(z: Any) -> Any:
    """Return what an individual observed [T, O] in the user's loop."""
    return np.outer(np.arange(4), z[:3])


def compare(path: Path, config: dict[str, Any], *computed: dict[str, Any]) -> None:
    """Compare all arrays of a run file but the times, and the state after the last generation."""
    *generations, last = computed
    # Only a mixture's sums have another order here than in the package.
    same = {"rtol": 1e-5, "atol": 1e-7} if config["population"]["name"] == "mixture" else {"rtol": 0, "atol": 0}
    with ees_mpi.open_run(path) as run:
        names = {name for name in run if not name.startswith("seconds_")} - {"state_sha256", "slowest_rank"}
        assert run.generations == len(generations) and names == generations[0].keys() - {"z"}
        for number, arrays in enumerate(generations):
            for name in names:
                np.testing.assert_allclose(run[name][number], arrays[name], **same, err_msg=f"{name} of {number}")
            for index, z in enumerate(arrays["z"]):
                np.testing.assert_allclose(run.individual(number, index), z, **same)
        state = {name: array for name, array in run.state_arrays().items() if name != "generation"}
    assert state.keys() == last.keys()
    for name, array in state.items():
        np.testing.assert_allclose(array, last[name], **same, err_msg=f"{name} after the last generation")


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_has_the_numbers_of_the_oracle(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "diagonal, limits":  # which are far away
        monkeypatch.setattr(oracle, "RANGE", 1.005)
        monkeypatch.setattr(diagonal, "RANGE", 1.005)
    config = config_of(**{"task": {}, **KINDS[kind]})
    out = tmp_path / "run.h5"
    ees_mpi.train(config, out).close()
    task = getattr(own_functions, config["task"]["function"].split(":")[1])
    compare(out, config, *oracle.run(config, task, oracle.first_means(config)))


@pytest.mark.parametrize("population", [NORMAL, MIXTURE], ids=["normal", "mixture of different means"])
def test_a_recorded_loop_has_the_numbers_and_the_observation_statistics_of_the_oracle(
    population: dict[str, Any], tmp_path: Path
) -> None:
    run = {"seed": 3, "generations": 5, "evaluate_mean_every": 0}
    config = config_of({"observation_share": 0.4}, run=run, population=population)
    out, means = tmp_path / "run.h5", np.linspace([0.2], [0.35], population.get("components", 1)) * [1, 1, -1, 1, 1]
    how = {"config": {"noise": config["noise"]}, "observation_dim": 3, "observation_share": 0.4, "record": out}
    with ees_mpi.Strategy(means, MAXENT, population=population, seed=3, **how) as es:
        for _ in range(run["generations"]):
            z = es.ask()
            behavior, fitness = zip(*map(own_functions.waves, z), strict=True)
            valid = np.isfinite(behavior).all(axis=1)
            es.tell(behavior, fitness, valid=valid, observations=[observations(row) for row in z[es.sampled]])
    config["task"] = {**config["task"], "name": "own_loop"}
    compare(out, config, *oracle.run(config, own_functions.waves, means, observations))
