"""The commands of the experiment on heritability can be run, and all arms have equal rollouts."""

import shlex

import heritability_plan as plan
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
