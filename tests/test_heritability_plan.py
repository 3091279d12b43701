"""The commands of the experiment on heritability can be run, and all arms have equal rollouts."""

import shlex

import heritability_plan as plan
import numpy as np
import pytest
from support.program import needs_results

from ees_mpi.config import check, load

pytestmark = needs_results


@pytest.mark.parametrize("robot", ["cheetah", "ant"])
def test_every_training_is_a_config_with_the_same_number_of_rollouts(robot: str) -> None:
    pytest.importorskip("mujoco", exc_type=ImportError)
    lines = [shlex.split(line) for line in plan.experiment(robot, range(2))]
    trainings = [words for words in lines if words[1] == "train"]
    outs = [words[words.index("--out") + 1] for words in lines]
    assert len(trainings) == 2 * len(plan.ARMS) and len(set(outs)) == len(lines) == 2 * len(trainings)
    assert [words[2] for words in lines if words[1] == "measure"] == [out for out in outs if "starts" not in out]
    for words in trainings:
        config = load(words[2], [words[place + 1] for place, word in enumerate(words) if word == "--set"])
        check(config)
        assert config.population.size * config.task.rollouts == plan.ROLLOUTS and config.task.engine == "mujoco"


def test_the_commonest_quarter_has_two_neighbouring_sectors_and_only_places_far_away() -> None:
    turns = np.array([0.06, 0.94, 0.95, 0.3, 0.7])  # the first three are in the first and the last of eight sectors
    place = 6 * np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)
    assert plan.quarter(np.vstack([place, [[1.0, 1.0], [-1.0, 1.0]]])) == 3 / 5
    assert plan.quarter(np.zeros((2, 2))) == 0
