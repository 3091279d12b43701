from pathlib import Path

import pytest
import tomli_w
from support import stand_in_gpu
from support.program import done, ees, refusal

from ees_mpi import config
from ees_mpi.commands import plan
from ees_mpi.commands.plan import Costs

ANT = config.load("ant-maxent")  # N = 10,000
MIB = 1 << 20
COSTS = Costs("3 rollouts", 0.3, 0.01, 30 * MIB, 15 * MIB, shared=1.0, fixed=0.02, table=1 << 30)


def test_the_plan_of_the_paper_adds_up() -> None:
    facts = plan.estimate(ANT, 275, 40, COSTS)
    assert facts["evaluate_seconds"] == 37 * 0.3  # the rank with the most individuals sets the pace
    assert facts["update_seconds"] == 1.0 / 275 + 0.02
    assert facts["generation_seconds"] == sum(facts[f"{part}_seconds"] for part in ("evaluate", "update", "commit"))
    assert facts["core_hours"] == pytest.approx(275 * 100 * facts["generation_seconds"] / 3600)
    assert facts["rank_bytes"] == 45 * MIB and facts["node_bytes"] == 40 * 45 * MIB + (1 << 30)
    text = "\n".join(plan.describe(facts))
    assert "275 on 7 nodes" in text and "1024 MiB noise table" in text and "3 rollouts" in text


def test_the_size_of_a_generation_is_that_of_its_datasets() -> None:
    individual = 2 * 8 + 8 + 4 + 1 + 8 + 1 + 4
    assert plan.row_bytes(ANT) == pytest.approx(10_000 * individual + 75_272 * 4 + 28 * 16, rel=0.01)
    three = config.load("ant-maxent", ["task.rollouts=3"])
    assert plan.row_bytes(three) - plan.row_bytes(ANT) == 8 * 10_000 * 3 * 2  # three places of each individual


@pytest.mark.slow
@pytest.mark.usefixtures("quick_noise")
def test_plan_on_the_command_line() -> None:
    ended = ees("plan", "ant-maxent", "--set", "task.steps=20", "--set", "population.size=400", "--ranks", 8)
    assert ended.returncode == 0, ended.stderr
    for word in ("memory per rank", "memory per node", "core-hours", "file", "timed here", "not counted"):
        assert word in ended.stdout


def test_on_gpus_one_batch_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "batches.toml").write_text(stand_in_gpu.CONFIG)
    monkeypatch.setenv("EES_TEST_GPUS", "GPU-a,GPU-b")
    said = done("plan", tmp_path / "batches.toml", "--ranks", 4).stdout
    assert "timed here          a batch of 21 (" in said and "2 GPUs per node" in said


def test_a_plan_of_maml_is_refused() -> None:
    assert refusal("plan", "cheetah-maml")[0] == 2


def test_code_that_is_not_deterministic_is_refused_as_train_does(tmp_path: Path) -> None:
    task = {"name": "function", "function": "support.random_parts:random", "parameters": 2, "behavior_dim": 1}
    parts = {"population": {"name": "normal", "size": 8, "std": 0.1}, "objective": {"name": "maxvar"}}
    (tmp_path / "own.toml").write_text(tomli_w.dumps({"task": task, **parts, "noise": {"size": 5000}}))
    words = (tmp_path / "own.toml", "--set", "run.generations=2")
    refused = refusal("plan", *words)
    assert refused[0] == 2 and "it is not deterministic: individual 0 was evaluated twice" in refused[1]
    done("plan", *words, "--set", "task.deterministic=false")
