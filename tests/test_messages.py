"""The messages to a user who makes a mistake: each names it, and what to do."""

import re
from pathlib import Path

import pytest
from support.program import done, refusal, sets
from support.run_files import assert_same_bits

import ees_mpi

CONFIG = """
[run]
generations = 2
fsync = false
[task]
name = "gymnasium"
env = "CartPole-v1"
hidden = [4]
steps = 20
[population]
size = 20
std = 0.1
[objective]
name = "maxent"
[noise]
size = 5000
"""
MODULE = """
import gymnasium, numpy as np
from ees_mpi.generation import Outcome
from support.own_tasks import Base

class Short(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, False, {}

class Bare(Short):
    def reset(self, seed=None, options=None):
        return np.zeros(4, np.float32)

gymnasium.register("Short-v0", Short, disable_env_checker=True)
gymnasium.register("Bare-v0", Bare, disable_env_checker=True)

def two(rollout):
    return rollout.observations[-1][:2]

calls = []

def varying(rollout):
    calls.append(rollout)
    return rollout.observations[-1][: 2 if len(calls) < 2 else 3]

class Varying(Base):
    def evaluate(self, index, *rest):
        return Outcome(index, (1.0,) * (1 + index // 3), 0.0, 1)
"""
CUSTOM = ("task.name=custom", "task.function=mine:Varying")


@pytest.fixture(autouse=True)
def folder(inside: Path) -> Path:
    """Run a test in a folder with a config and a module."""
    Path("my.toml").write_text(CONFIG)
    Path("mine.py").write_text(MODULE)
    return inside


@pytest.mark.parametrize(
    ("settings", "message", "absent"),
    [
        (["task.behavior=final_xy"], "final_xy: CartPole-v1 has no MuJoCo bodies; expected final_obs", "NoneType"),
        (["task.env=mine:Short-v0"], r"Short-v0: an observation has the shape \(3,\); expected \(4,\)", "gener"),
        (["task.env=mine:Bare-v0"], r"shape \(\); .* does reset\(\) return \(observation, info\)\?$", "gener"),
        (["task.env=mine:Absent-v0"], "The module mine was imported and does not register it", "needs its module"),
        (["task.hidden=[4,0]"], r"task.hidden\[1\]: expected int >= 1, got 0$", "population"),
    ],
)
def test_a_wrong_setting_is_refused_before_a_file_is_made(settings: list[str], message: str, absent: str) -> None:
    code, line = refusal("train", "my.toml", *sets(*settings), "--out", "run.h5")
    assert code == 2 and re.search(message, line) and absent not in line and not Path("run.h5").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["task.behavior=mine:varying"], "behavior mine:varying: expected 2 numbers, as at first, got 3$"),
        (list(CUSTOM), r"task.function mine:Varying: .*a behaviour of shape \(2,\); expected .*Outcome with \(1,\)"),
    ],
)
def test_an_error_in_the_first_generation_names_it_and_does_not_block_the_corrected_command(
    settings: list[str], message: str
) -> None:
    late = [*settings, "task.deterministic=false"]  # so that no rollout comes before the first generation
    code, line = refusal("train", "my.toml", *sets(*late), "--out", "run.h5")
    assert code == 1 and re.search(rf"generation 0, individual \d: .*{message}", line) and len(line) < 200
    done("train", "my.toml", "--out", "run.h5")
    assert refusal("train", "my.toml", "--out", "run.h5")[0] == 3  # it has generations now
    done("train", "my.toml", "--out", "other.h5")
    assert_same_bits(Path("run.h5"), Path("other.h5"))
    assert sorted(path.name for path in Path().glob("*.h5*")) == ["other.h5", "run.h5"]


@pytest.mark.usefixtures("quick_noise")
def test_at_least_ten_rollouts_feed_the_normaliser_by_default() -> None:
    def share(**settings: object) -> object:
        return ees_mpi.load_config("my.toml", settings).task.observation_share

    assert share() == 0.5 and share(**{"population.size": 6}) == 1.0
    assert share(**{"task.observation_share": 0.01}) == 0.01
    assert share(**{"task.name": "custom", "task.function": "mine:Varying"}) == 0.5
    assert ees_mpi.Strategy([0.0], size=20, std=0.1, observation_dim=2).config.task.observation_share == 0.5
