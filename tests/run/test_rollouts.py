"""`task.rollouts`: the outcome of an individual is the mean of several rollouts, each with its own seed."""

from pathlib import Path

import numpy as np
import pytest
from support import random_parts
from support.program import done
from support.random_parts import SMALL, train

import ees_mpi
from ees_mpi.generation import Outcome, mean_outcome
from ees_mpi.noise import stream

CARTPOLE = {"name": "gymnasium", "env": "CartPole-v1", "steps": 20, "hidden": [2], "observation_share": 1.0}
PARTS = {"population": {"name": "normal", "size": 8, "std": 0.1}, "objective": {"name": "maxvar"}}


def seeds(run: ees_mpi.Run, generation: int) -> list[int]:
    """Return the seeds of a generation, as the documentation describes them."""
    generator = stream(run.config.run.seed, "common starts", generation)
    return [int(seed) for seed in generator.integers(2**31, size=run.config.task.rollouts)]


def test_the_individuals_of_a_call_have_the_same_seeds(tmp_path: Path) -> None:
    with train(tmp_path / "run.h5", random_parts.seeded_rows, batch=True, **{"task.rollouts": 2}) as run:
        z = np.stack([run.individual(1, index) for index in range(8)])
        expected = np.mean([random_parts.seeded_rows(z, seed) for seed in seeds(run, 1)], axis=0)
        np.testing.assert_array_equal(run["behavior"][1], expected)
    assert "the same bits" in done("verify", tmp_path / "run.h5", "--individuals", 3).stdout


@pytest.mark.slow
def test_gymnasium_environments_are_reset_with_the_seeds_in_all_commands(tmp_path: Path) -> None:
    out, sample, measure = (tmp_path / f"{name}.h5" for name in ("run", "sample", "measure"))
    config = {"task": {**CARTPOLE, "rollouts": 3}, **PARTS}
    with ees_mpi.train(config, out, settings=SMALL) as run:
        assert (run["fitness"][:] == run["length"][:] / 3).all()  # a reward of 1 for each step
        assert (run["observation_count"][1] == run["length"][0].sum()) and run["fitness"][0].std() > 0
    ees_mpi.sample(out, 4, sample).close()
    ees_mpi.measure(str(out), std=[0.1, 0.2], count=4, out=measure).close()
    for path in (out, sample, measure):
        assert "the same bits" in done("verify", path, "--individuals", 2).stdout
    assert "the same bits as in the file" in done("replay", out, "--individual", 1).stdout
    assert "the same bits as in the file" in done("replay", out, "--mean", "--generation", 0).stdout


def test_one_invalid_rollout_makes_an_outcome_invalid() -> None:
    one, other = Outcome(3, (1.0, 2.0), 1.0, 5), Outcome(3, (np.nan, np.nan), np.nan, 2, valid=False)
    found = mean_outcome([one, other])
    assert not found.valid and found.length == 7 and np.isnan(found.fitness)
