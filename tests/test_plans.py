"""The lists of commands of the plans can be run: each line writes its own file, and its settings are those planned."""

import shlex

import plan
import pytest

from ees_mpi.config import check, load
from ees_mpi.errors import ConfigError


@pytest.mark.parametrize("name", plan.PLANS)
def test_each_command_of_a_plan_writes_its_own_file(name: str) -> None:
    lines = [shlex.split(line) for line in plan.blocks(name)]
    files = [words[words.index("--out") + 1] for words in lines]
    assert len(set(files)) == len(files) > 40
    assert all(words[0] == "ees-mpi" and not any("{" in word for word in words) for words in lines)


def test_a_plan_prints_its_blocks_in_the_order_in_which_they_are_asked_for() -> None:
    both = plan.blocks("heritability", ["ant-own", "ant-four"])
    own, four = (plan.blocks("heritability", [name]) for name in ("ant-own", "ant-four"))
    assert both == own + four and "-own-" in both[0]
    with pytest.raises(ConfigError, match=r"expected blocks text, released, .*, got four"):
        plan.blocks("paper", ["text", "four"])


def test_a_line_has_the_settings_of_its_plan() -> None:
    first, *_, last = plan.blocks("heritability", ["ant-staged"])
    assert first == (
        "ees-mpi train ant-maxent-authors --set task.engine=mujoco --set objective.normalization=whiten "
        "--set population.size=2500 --set task.rollouts=4 --set task.starts=own --set run.generations=50 "
        "--from ant-maxent-authors-first-mujoco-seed15.h5 --seed 15 "
        "--out ant-maxent-authors-staged-mujoco-seed15.h5 --resume"
    )
    name = "ant-maxent-authors-staged-mujoco-seed20"
    assert last == f"ees-mpi measure {name}.h5 --std 0.02 --count 200 --starts 20 --label {name} --out {name}-starts.h5"


def test_each_part_of_maml_goes_on_from_the_one_before() -> None:
    lines = [shlex.split(line) for line in plan.blocks("paper", ["maml"]) if " train " in line]
    outs, starts = ([words[words.index(name) + 1] for words in lines if name in words] for name in ("--out", "--from"))
    assert len(lines) == 60 and starts == [out for out in outs if "-part" in out]


@pytest.mark.parametrize("name", plan.PLANS)
def test_the_settings_of_a_plan_are_valid(name: str) -> None:
    pytest.importorskip("mujoco", exc_type=ImportError)
    lines = dict.fromkeys(tuple(shlex.split(line.split(" --seed ")[0])) for line in plan.blocks(name))
    for words in [words for words in lines if words[1] == "train"]:
        check(load(words[2], [words[place + 1] for place, word in enumerate(words) if word == "--set"]))
