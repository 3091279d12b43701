"""The job scripts on a real SLURM. Run by `tools/test --cluster`: root, minutes."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.program import BIN, CHECKOUT, TINY, info, sets
from support.run_files import assert_same_bits
from support.slurm import (
    SANDBOX,
    Site,
    await_end,
    await_failure,
    await_requeue,
    call,
    call_in,
    edit,
    facts,
    hurried,
    ranks_of,
    sandbox_up,
    until,
)

SMALL = ("interference-maxvar", *sets(*TINY))
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


def test_a_script_copied_elsewhere_with_edited_lines_works_alone_on_two_nodes(tmp_path: Path) -> None:
    alone = tmp_path / "mine.sh"
    shutil.copy(CHECKOUT / "jobs" / "train.slurm", alone)
    edit(alone)
    shape = ("--nodes=2", "--ntasks-per-node=2", "--output=%j.out", "mine.sh")
    job = call_in(tmp_path, "sbatch", "--parsable", *shape, *SMALL, "--out", "run.h5").strip()
    until(lambda: facts(job)[0]["JobState"] == "COMPLETED", 120)
    run = info(tmp_path / "run.h5")
    assert (run["complete"], run["ranks"], run["nodes"]) == (True, 4, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.sh", "run.h5", f"{job}.out"}
    call_in(tmp_path, "ees-mpi", "train", *SMALL, "--out", "alone.h5")
    assert_same_bits(tmp_path / "run.h5", tmp_path / "alone.h5")


def test_a_job_cut_by_its_time_limit_is_requeued_by_itself_and_ends_with_the_bits_of_an_undisturbed_run(
    site: Site,
) -> None:
    limit = ("--time=2", "--signal=B:USR1@25")  # SLURM may send the signal a minute early
    out = site.folder / "cut.h5"
    words = ("slow.toml", *sets("run.generations=60", "task.settings.dawdle=1.0"))
    job = site.submit(*limit, "--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", *words, "--out", out)
    await_requeue(job, site, 180)
    assert 0 < int(str(info(out)["generations"])) < 60
    await_end(job, site)
    assert info(out)["complete"] is True and int(str(info(out)["sessions"])) > 1
    assert "the time limit is near" in site.output() and "back into the queue" in site.output()
    assert not out.with_name("cut.h5.starts").exists()
    assert_same_bits(out, undisturbed(site, *words))


def test_a_generation_longer_than_the_time_limit_ends_the_job_after_three_starts(site: Site) -> None:
    words = ("slow.toml", *sets("task.settings.seconds=300.0"), "--out", "long.h5")
    job = site.submit("--time=1", "--signal=B:USR1@50", "--ntasks-per-node=1", "jobs/train.slurm", *words)
    until(lambda: hurried(job) and "three starts without a new generation after 0" in site.output(), 600, site)
    until(lambda: facts(job)[0]["JobState"] in ("FAILED", "TIMEOUT"), 60, site)
    assert facts(job)[0]["Restarts"] == "2" and site.output().count("back into the queue") == 2


def test_a_wrong_config_ends_the_job_at_once(site: Site) -> None:
    job = site.submit("--ntasks-per-node=2", "jobs/train.slurm", *SMALL, "--set", "run.sed=1", "--out", "wrong.h5")
    await_failure(job, site)
    assert facts(job)[0]["Restarts"] == "0" and "run.sed" in site.output()


def test_a_cancelled_job_does_not_go_back_into_the_queue(site: Site) -> None:
    out = site.folder / "cancelled.h5"
    job = site.submit("--ntasks-per-node=2", "jobs/train.slurm", "slow.toml", "--out", out)
    until(lambda: out.exists() and info(out)["generations"], 60, site)
    call("scancel", job)
    until(lambda: facts(job)[0]["JobState"] == "CANCELLED", 60, site)
    assert facts(job)[0]["Restarts"] == "0" and "back into the queue" not in site.output()
    assert info(out)["generations"]


def test_an_array_leaves_a_file_for_each_line_and_a_task_that_is_told_to_stop_requeues_itself_alone(
    site: Site,
) -> None:
    words = ("slow.toml", *sets("task.settings.task=3"))
    (site.folder / "list").write_text(call_in(site.folder, "ees-mpi", "sweep", *words, "--seeds", "0-3"))
    with (site.folder / "list").open("a") as more:
        more.write("ees-mpi sample slow-seed0.h5 --count 20 --trust --out sampled.h5\n")
    job = site.submit("--array=1-4", "--ntasks-per-node=1", "jobs/array.slurm", "list")
    slow = site.folder / "slow-seed2.h5"
    until(lambda: slow.exists() and info(slow)["generations"], 60, site)
    call("scancel", "--signal=USR1", "--batch", f"{job}_3")
    await_requeue(job, site)
    await_end(job, site)
    assert {task["ArrayTaskId"]: task["Restarts"] for task in facts(job)} == {"1": "0", "2": "0", "3": "1", "4": "0"}
    runs = [info(site.folder / f"slow-seed{seed}.h5") for seed in range(4)]
    assert [(run["complete"], run["seed"]) for run in runs] == [(True, seed) for seed in range(4)]
    assert_same_bits(slow, undisturbed(site, *words, "--seed", "2"))
    await_end(site.submit("--array=5", "--ntasks-per-node=2", "jobs/array.slurm", "list"), site)
    assert (site.folder / "sampled.h5").exists()


def test_a_lost_node_puts_the_job_back_into_the_queue_and_it_ends_with_the_right_bits(site: Site) -> None:
    out = site.folder / "lost.h5"
    job = site.submit("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", "slow.toml", "--out", out)
    until(lambda: out.exists() and info(out)["generations"], 60, site)
    lost = {"n1", "n2"} - {facts(job)[0]["BatchHost"]}
    call(SANDBOX, "lose", lost.pop())
    await_requeue(job, site)
    call(SANDBOX, "up")
    await_end(job, site)
    assert info(out)["complete"] is True
    assert_same_bits(out, undisturbed(site, "slow.toml"))


def test_the_loss_of_the_node_that_runs_the_script_is_survived_too(site: Site) -> None:
    out = site.folder / "lost.h5"
    job = site.submit("--nodes=2", "--ntasks-per-node=1", "jobs/train.slurm", "slow.toml", "--out", out)
    until(lambda: out.exists() and info(out)["generations"], 60, site)
    call(SANDBOX, "lose", facts(job)[0]["BatchHost"])
    await_requeue(job, site)
    call(SANDBOX, "up")
    await_end(job, site)
    assert_same_bits(out, undisturbed(site, "slow.toml"))


@pytest.mark.parametrize("launch", ["mpirun --bind-to none", "srun --mpi=pmix --kill-on-bad-exit=1"])
def test_after_a_lost_rank_the_job_goes_on_from_the_last_commit(site: Site, launch: str) -> None:
    out = site.folder / "lost.h5"
    words = ("jobs/train.slurm", "slow.toml", *sets("run.generations=60"), "--out", out)
    job = site.submit("--nodes=2", "--ntasks-per-node=2", *words, EES_LAUNCH=launch)
    until(lambda: out.exists() and info(out)["generations"], 60, site)
    os.kill(ranks_of(out)[-1], signal.SIGKILL)
    await_requeue(job, site)
    await_end(job, site)
    assert int(str(info(out)["sessions"])) > 1
    assert_same_bits(out, undisturbed(site, *words[1:4]))


def test_srun_with_another_protocol_is_refused_in_place_of_many_worlds_of_one(site: Site) -> None:
    words = ("--ntasks-per-node=2", "jobs/train.slurm", *SMALL, "--out", "run.h5")
    job = site.submit(*words, EES_LAUNCH="srun --mpi=pmi2")
    until(lambda: "sees a world of size 1" in site.output(), 60, site)
    assert "--mpi=pmix" in site.output() and not list(site.folder.glob("*.h5"))
    call("scancel", job)


def test_a_rank_that_dies_before_it_joins_the_others_is_noticed_and_the_job_goes_on(site: Site) -> None:
    program = site.folder / "ees-mpi"
    dies = '[ "${OMPI_COMM_WORLD_RANK:-}" != 1 ] || [ "${SLURM_RESTART_COUNT:-0}" != 0 ] || kill -KILL $$'
    program.write_text(f'#!/bin/bash\n{dies}\nexec {BIN}/ees-mpi "$@"\n')
    program.chmod(0o755)
    words = ("--ntasks-per-node=3", "jobs/train.slurm", *SMALL, "--out", "run.h5")
    path = f"{site.folder}:{BIN}:{os.environ['PATH']}"
    job = site.submit(*words, PATH=path, EES_MPI_START_MINUTES="0.3")
    await_requeue(job, site)
    await_end(job, site)
    assert info(site.folder / "run.h5")["complete"] is True


def test_maml_jobs_train_and_then_adapt_either_way(site: Site) -> None:
    small = sets("task.steps=8", "task.hidden=[4,4]", "noise.size=5000", "population.size=2", "run.generations=2")
    job = site.submit("--array=0-1", "--ntasks-per-node=1", "jobs/maml.slurm", "cheetah-maml", *small)
    await_end(job, site, 240)
    endings = ("", "-adapt-left", "-adapt-right")
    expected = {f"cheetah-maml-seed{seed}{ending}.h5" for seed in (0, 1) for ending in endings}
    assert {path.name for path in site.folder.glob("*.h5")} == expected


def test_scaling_is_measured_on_one_rank_on_a_whole_node_and_on_both(site: Site) -> None:
    small = ("--engine", "mujoco", "--steps", "3", "--each", "2", "--total", "4", "--generations", "2", "--repeat", "1")
    shape = ("--nodes=2", "--ntasks-per-node=2", "jobs/scaling.slurm")
    await_end(site.submit(*shape, *small, *sets("task.hidden=[4,4]", "noise.size=5000")), site, 300)
    rows = json.loads((site.folder / "scaling.json").read_text())["summary"]
    places = [(1, 1), (2, 1), (4, 2)]
    assert [(row["ranks"], row["nodes"]) for row in rows] == 2 * places and (site.folder / "scaling.png").exists()
    await_end(
        site.submit(
            *shape, *small[:-1], "2", *sets("task.hidden=[4,4]", "noise.size=5000"), EES_LAUNCH="srun --mpi=pmix"
        ),
        site,
        300,
    )
    rows = json.loads((site.folder / "scaling.json").read_text())["summary"]
    assert [(row["ranks"], row["nodes"], row["repetitions"]) for row in rows] == 2 * [(*place, 2) for place in places]
