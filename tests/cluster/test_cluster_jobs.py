"""The job scripts on a real SLURM. Run by `tools/test --cluster`: root, minutes."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.program import BIN, TINY, info, sets
from support.run_files import assert_same_bits
from support.slurm import SANDBOX, Site, await_end, await_requeue, call, call_in, facts, ranks_of, sandbox_up, until

NAME = "interference-maxvar-noise.size5000-population.size20-seed0.h5"
# Two minutes in a first life, seconds in a second one.
SLOW = """
[run]
generations = 400
[task]
name = "custom"
function = "support.slow_at_first:SlowAtFirst"
[population]
name = "normal"
size = 20
std = 0.5
[objective]
name = "maxvar"
[optimizer]
name = "ascent"
lr = 0.1
[noise]
size = 5000
"""


@pytest.fixture(scope="session", autouse=True)
def sandbox() -> Iterator[None]:
    with sandbox_up():
        yield


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "slow.toml").write_text(SLOW)
    yield Site(tmp_path)
    call("scancel", "--user=root")


def undisturbed(site: Site, *words: object) -> Path:
    """The same run on one process, away from SLURM."""
    call_in(site.folder, "ees-mpi", "train", *words, "--out", "undisturbed.h5")
    return site.folder / "undisturbed.h5"


def test_a_job_of_a_small_preset_finishes_on_two_nodes(site: Site) -> None:
    job = site.submit("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", "interference-maxvar", *sets(*TINY))
    await_end(job, site)
    run = site.runs / NAME
    assert (info(run)["complete"], info(run)["ranks"], info(run)["nodes"]) == (True, 4, 2)
    assert_same_bits(run, undisturbed(site, "interference-maxvar", *sets(*TINY)))


def test_a_job_cut_by_its_time_limit_is_requeued_by_itself_and_ends_with_the_bits_of_an_undisturbed_run(
    site: Site,
) -> None:
    limit = ("--time=1", "--signal=B:USR1@25")
    job = site.submit(*limit, "--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", "slow.toml")
    await_requeue(job, site)
    run = site.runs / "slow-seed0.h5"
    assert 0 < int(str(info(run)["generations"])) < 400
    await_end(job, site)
    assert (info(run)["complete"], info(run)["sessions"]) == (True, 2)
    said = site.output()
    assert "the time limit is near" in said and "started again" in said  # both lives, in one file
    assert_same_bits(run, undisturbed(site, "slow.toml"))


def test_a_seeds_array_of_four_leaves_four_good_files_and_a_task_that_is_told_to_stop_requeues_itself_alone(
    site: Site,
) -> None:
    words = ("slow.toml", *sets("task.settings.task=2"))
    job = site.submit("--array=0-3", "--ntasks-per-node=1", "jobs/seeds.slurm", *words)
    slow = site.runs / "slow-task.settings.task2-seed2.h5"
    until(lambda: slow.exists() and info(slow)["generations"], 60, site)
    call("scancel", "--signal=USR1", "--batch", f"{job}_2")
    await_requeue(job, site)
    await_end(job, site)
    assert {task["ArrayTaskId"]: task["Restarts"] for task in facts(job)} == {"0": "0", "1": "0", "2": "1", "3": "0"}
    runs = [info(site.runs / f"slow-task.settings.task2-seed{seed}.h5") for seed in range(4)]
    assert [(run["complete"], run["seed"]) for run in runs] == [(True, seed) for seed in range(4)]
    assert_same_bits(slow, undisturbed(site, *words, "--seed", "2"))


def test_a_sweep_is_an_array_with_a_file_for_each_run(site: Site) -> None:
    words = ("interference-maxvar", *sets(*TINY, "population.std=0.2,0.5"), "--seeds", "0-1")
    job = call_in(site.folder, "bash", "jobs/sweep.slurm", "--parsable", "--ntasks-per-node=1", *words).strip()
    await_end(job, site)
    runs = [info(path) for path in site.runs.glob("*.h5")]
    assert len(runs) == 4 and all(run["complete"] for run in runs)


def test_a_lost_node_puts_the_job_back_into_the_queue_and_it_ends_with_the_right_bits(site: Site) -> None:
    job = site.submit("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", "slow.toml")
    run = site.runs / "slow-seed0.h5"
    until(lambda: run.exists() and info(run)["generations"], 60, site)
    lost = {"n1", "n2"} - {facts(job)[0]["BatchHost"]}
    call(SANDBOX, "lose", lost.pop())
    await_requeue(job, site)
    call(SANDBOX, "up")
    await_end(job, site)
    assert info(run)["complete"] is True
    assert_same_bits(run, undisturbed(site, "slow.toml"))


def test_the_loss_of_the_node_that_runs_the_script_is_survived_too(site: Site) -> None:
    job = site.submit("--nodes=2", "--ntasks-per-node=1", "jobs/train.slurm", "slow.toml")
    run = site.runs / "slow-seed0.h5"
    until(lambda: run.exists() and info(run)["generations"], 60, site)
    call(SANDBOX, "lose", facts(job)[0]["BatchHost"])
    await_requeue(job, site)
    call(SANDBOX, "up")
    await_end(job, site)
    assert_same_bits(run, undisturbed(site, "slow.toml"))


def test_srun_starts_the_ranks_where_it_speaks_the_protocol_of_the_mpi(site: Site) -> None:
    words = ("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", "interference-maxvar", *sets(*TINY))
    await_end(site.submit(*words, EES_LAUNCH="srun --mpi=pmix"), site)
    run = site.runs / NAME
    assert (info(run)["complete"], info(run)["ranks"], info(run)["nodes"]) == (True, 4, 2)


def test_srun_with_another_protocol_is_refused_in_place_of_many_worlds_of_one(site: Site) -> None:
    words = ("--ntasks-per-node=2", "jobs/train.slurm", "interference-maxvar", *sets(*TINY))
    job = site.submit(*words, EES_LAUNCH="srun --mpi=pmi2", EES_MAX_RESTARTS="0")
    until(lambda: facts(job)[0]["JobState"] == "FAILED", 60, site)
    assert site.output().count("sees a world of size 1") == 1 and "--mpi=pmix" in site.output()
    assert not list(site.runs.glob("*.h5"))


def test_a_rank_that_dies_before_it_joins_the_others_is_noticed_and_the_job_goes_on(site: Site) -> None:
    program = site.folder / "ees-mpi"
    dies = '[ "${OMPI_COMM_WORLD_RANK:-}" != 1 ] || [ "${SLURM_RESTART_COUNT:-0}" != 0 ] || kill -KILL $$'
    program.write_text(f'#!/bin/bash\n{dies}\nexec {BIN}/ees-mpi "$@"\n')
    program.chmod(0o755)
    words = ("--ntasks-per-node=3", "jobs/train.slurm", "interference-maxvar", *sets(*TINY))
    path = f"{site.folder}:{BIN}:{os.environ['PATH']}"
    job = site.submit(*words, PATH=path, EES_QUIET_SECONDS="15")
    await_requeue(job, site)
    await_end(job, site)
    noticed = ("another rank of this node exited before MPI started", "no sign of life")  # by a rank, or by the script
    assert any(words in site.output() for words in noticed)
    assert info(site.runs / NAME)["complete"] is True


def test_maml_jobs_train_and_then_adapt_either_way(site: Site) -> None:
    small = sets("task.steps=8", "task.hidden=[4,4]", "noise.size=5000", "population.size=2", "run.generations=2")
    job = site.submit("--array=0-1", "--ntasks-per-node=1", "jobs/maml.slurm", "cheetah-maml", *small)
    await_end(job, site)
    keys = "noise.size5000-population.size2-hidden4x4-steps8"
    runs = [f"cheetah-maml-{keys}-seed{seed}" for seed in (0, 1)]
    adapted = {f"{run}-adapt-{direction}.h5" for run in runs for direction in ("left", "right")}
    assert {path.name for path in site.runs.glob("*.h5")} == {f"{run}.h5" for run in runs} | adapted


def test_reproduce_runs_the_whole_chain_to_figures_and_a_table_of_statistics(site: Site) -> None:
    coordinator = site.submit(
        "--ntasks-per-node=1", "jobs/paper/reproduce.slurm", "--scale", "tiny", "--ntasks-per-node", "1"
    )
    until(lambda: "statistics, 1 tasks" in site.output(), 60, site)
    jobs = re.findall(r"^job (\d+): (\w+), (\d+) tasks", site.output(), re.MULTILINE)
    assert len(jobs) == 11
    for number, _, tasks in [(coordinator, "", 1), *jobs]:
        await_end(number, site, 900)
        assert len(facts(number)) == int(tasks)
    results = site.runs / "reproduce"
    pictures = [path.stem for path in (results / "figures").glob("*.png")]
    assert {"interference", "cheetah", "ant", "maml", "adaptation", "adaptation-heatmaps", "feasibility"} <= set(
        pictures
    )
    assert {"locomotion-ant", "locomotion-cheetah", "mixture-maxent", "mixture-maxvar"} <= set(pictures)
    table = (results / "statistics.txt").read_text()
    assert table.count("## ") == 14 and table.count("Mann-Whitney U") == 14
    trained = [info(path) for path in results.glob("*-seed[0-9].h5")]
    assert len(trained) == 32 and all(run["complete"] for run in trained)


def test_a_lost_rank_on_another_node_costs_the_job_no_restart(site: Site) -> None:
    out = site.folder / "lost.h5"
    words = ("slow.toml", "--out", out, *sets("run.generations=60"))
    job = site.submit("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", *words)
    until(lambda: out.exists() and info(out)["generations"], 60, site)
    os.kill(ranks_of(out)[-1], signal.SIGKILL)
    await_end(job, site)
    assert facts(job)[0]["Restarts"] == "0"
    assert_same_bits(out, undisturbed(site, *words[:1], *words[3:]))


def test_scaling_is_measured_on_one_rank_on_a_whole_node_and_on_both(site: Site) -> None:
    small = ("--engine", "mujoco", "--steps", "3", "--each", "2", "--total", "4", "--generations", "2", "--repeat", "1")
    shape = ("--nodes=2", "--ntasks-per-node=2", "jobs/scaling.slurm")
    await_end(site.submit(*shape, *small, *sets("task.hidden=[4,4]", "noise.size=5000")), site, 300)
    rows = json.loads((site.runs / "scaling.json").read_text())["summary"]
    places = [(1, 1), (2, 1), (4, 2)]
    assert [(row["ranks"], row["nodes"]) for row in rows] == 2 * places and (site.runs / "scaling.png").exists()
    await_end(
        site.submit(
            *shape, *small[:-1], "2", *sets("task.hidden=[4,4]", "noise.size=5000"), EES_LAUNCH="srun --mpi=pmix"
        ),
        site,
        300,
    )
    rows = json.loads((site.runs / "scaling.json").read_text())["summary"]
    assert [(row["ranks"], row["nodes"], row["repetitions"]) for row in rows] == 2 * [(*place, 2) for place in places]
