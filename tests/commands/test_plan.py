from pathlib import Path

import h5py
import pytest
import tomli_w
from support import stand_in_gpu
from support.program import done, ees, refusal

from ees_mpi import config, open_run
from ees_mpi.commands import plan
from ees_mpi.commands.plan import Costs, Nodes
from ees_mpi.ranks import Ranks

ANT = config.load("ant-maxent")  # N = 10,000
MIB = 1 << 20
COSTS = Costs("3 rollouts", 20.0, 0.3, update=0.03, commit=0.01, resident=30 * MIB, working=15 * MIB, table=1 << 30)


def test_the_plan_of_the_paper_adds_up() -> None:
    facts = plan.estimate(ANT, Nodes(7, 39), COSTS)
    assert facts["evaluate_seconds"] == 37 * 0.3  # the rank with the most individuals sets the pace
    assert facts["generation_seconds"] == sum(facts[f"{part}_seconds"] for part in ("evaluate", "update", "commit"))
    assert facts["core_hours"] == pytest.approx(273 * (20 + 100 * facts["generation_seconds"]) / 3600)
    assert facts["rank_bytes"] == 45 * MIB and facts["node_bytes"] == 39 * 45 * MIB + (1 << 30)
    text = "\n".join(plan.describe(facts))
    assert "273 on 7 nodes" in text and "1024 MiB noise table" in text and "3 rollouts" in text


def test_the_unperturbed_mean_costs_a_round_in_its_generations_if_all_ranks_have_as_many() -> None:
    assert plan.rounds(ANT, 250) == 40.1 and plan.rounds(ANT, 240) == 42  # a tenth of the generations evaluate it
    assert plan.rounds(config.load("ant-maxent", ["run.evaluate_mean_every=0"]), 250) == 40


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (Nodes(5, 50), Nodes(5, 49)),  # 250 ranks would need 41 rounds with the mean; 244 need no more
        (Nodes(4, 40), Nodes(4, 40)),
        (Nodes(600, 40), Nodes(251, 40)),  # nobody evaluates less than one individual
        (Nodes(1, 1), Nodes(1, 1)),
    ],
)
def test_a_plan_takes_as_few_ranks_as_need_no_longer(most: Nodes, expected: Nodes) -> None:
    assert plan.proposed(ANT, most) == expected


def test_the_line_for_slurm_asks_for_all_that_the_plan_computes() -> None:
    line = plan.sbatch(
        {**plan.estimate(ANT, Nodes(7, 39), COSTS), "gpus_per_node": 2}, ["my run.toml", "--out", "a.h5"]
    )
    assert line == (
        "sbatch --nodes=7 --ntasks-per-node=39 --mem=3584M --time=00:34:00 --hint=nomultithread --gres=gpu:2 "
        "jobs/train.slurm 'my run.toml' --out a.h5"
    )
    assert "--time=2-22:10:00" in plan.sbatch({**plan.estimate(ANT, Nodes(1, 1), COSTS), "hours": 56}, [])


@pytest.mark.parametrize(
    ("lines", "partition", "cores"),
    [
        ("2 2 64 short\n10 2 20 long*\n4 2 24+ long*", "", 40),
        ("2 2 64 short", "short", 128),
        ("sinfo: error", "", 0),
    ],
)
def test_the_ranks_of_a_node_are_the_cores_that_slurm_names(
    lines: str, partition: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sinfo").write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/words\nprintf "{lines}"\n')
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SBATCH_PARTITION", partition)
    monkeypatch.delenv("SLURM_JOB_PARTITION", raising=False)
    assert plan.cores_by_slurm() == cores
    assert ("--partition short" in (tmp_path / "words").read_text()) is bool(partition)
    assert plan.nodes_of(100, None, Ranks(), asked=False) == (
        Nodes(-(-100 // cores), min(100, cores)) if cores else Nodes(1, 100)
    )


def test_the_line_for_slurm_needs_the_ranks_of_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "cores_by_slurm", lambda: 0)
    code, said = refusal("plan", "ant-maxent", "--sbatch")
    assert code == 2 and "expected --ranks-per-node" in said
    assert plan.nodes_of(None, 40, Ranks(), asked=True) == Nodes(1, 40)


def test_the_size_of_a_generation_is_that_of_its_datasets(finished: Path) -> None:
    with open_run(finished) as run, h5py.File(finished) as file:
        stored = sum(file["generations"][name].nbytes for name in (*run, "checksums"))
        assert plan.row_bytes(run.config) * run.generations == stored


@pytest.mark.slow
@pytest.mark.standing_ranks
def test_ranks_that_time_a_plan_together_print_it_once() -> None:
    small = ("--set", "population.size=40", "--set", "noise.size=5000", "--ranks", 24)
    ended = ees("plan", "interference-maxent", *small, ranks=2)
    assert ended.returncode == 0 and ended.stdout.count("timed here") == 1, ended.stderr
    assert "21 on" not in ended.stdout and "22 on 11 nodes, 2 per node" in ended.stdout
    assert "24 ranks would need as long as 22" in ended.stderr
    for word in ("memory per rank", "memory per node", "start", "core-hours", "on 2 ranks at once", "not counted"):
        assert word in ended.stdout


def test_on_gpus_one_batch_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "batches.toml").write_text(stand_in_gpu.CONFIG)
    monkeypatch.setenv("EES_TEST_GPUS", "GPU-a,GPU-b")
    said = done("plan", tmp_path / "batches.toml", "--ranks", 4).stdout
    assert "timed here          a batch of 21 (" in said and "2 GPUs per node" in said


def test_code_that_is_not_deterministic_is_refused_as_train_does(tmp_path: Path) -> None:
    task = {"name": "function", "function": "support.random_parts:random", "parameters": 2, "behavior_dim": 1}
    parts = {"population": {"name": "normal", "size": 8, "std": 0.1}, "objective": {"name": "maxvar"}}
    (tmp_path / "own.toml").write_text(tomli_w.dumps({"task": task, **parts, "noise": {"size": 5000}}))
    words = (tmp_path / "own.toml", "--set", "run.generations=2")
    refused = refusal("plan", *words)
    assert refused[0] == 2 and "it is not deterministic: individual 0 was evaluated twice" in refused[1]
    said = done("plan", *words, "--set", "task.deterministic=false", "--set", "task.rollouts=3").stdout
    assert "8 individuals of 3 rollouts (" in said  # whose time is that of all three
