"""The job scripts on a real SLURM. Run by `tools/test --cluster`: root, minutes."""

import json
import os
import shutil
import signal
import sys
import sysconfig
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
    begun,
    call,
    call_in,
    edit,
    facts,
    ranks_of,
    sandbox_up,
    until,
)

MPIRUN, SRUN = "mpirun --bind-to none", "srun --mpi=pmix --kill-on-bad-exit=1"
SMALL = ("interference-maxvar", *sets(*TINY))
# A minute in a first life, seconds in a second one.
SLOW = """
[run]
generations = 150
[task]
name = "custom"
function = "support.own_tasks:SlowAtFirst"
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


def test_a_script_copied_elsewhere_with_edited_lines_works_alone_and_a_complete_file_is_not_trained_again(
    tmp_path: Path,
) -> None:
    alone = tmp_path / "mine.sh"
    shutil.copy(CHECKOUT / "jobs" / "train.slurm", alone)
    edit(alone)
    shape = ("--nodes=2", "--ntasks-per-node=2", "--output=%j.out", "mine.sh")
    jobs = []
    for _ in range(2):
        jobs.append(call_in(tmp_path, "sbatch", "--parsable", *shape, *SMALL, "--out", "run.h5").strip())
        until(lambda: facts(jobs[-1])[0]["JobState"] == "COMPLETED", 120)
    run = info(tmp_path / "run.h5")
    assert (run["complete"], run["ranks"], run["nodes"], run["sessions"]) == (True, 4, 2, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.sh", "run.h5", *(f"{job}.out" for job in jobs)}
    call_in(tmp_path, "ees-mpi", "train", *SMALL, "--out", "alone.h5")
    assert_same_bits(tmp_path / "run.h5", tmp_path / "alone.h5")


def test_a_job_at_its_time_limit_goes_back_into_the_queue_and_ends_with_the_bits_of_an_undisturbed_run(
    site: Site,
) -> None:
    limit = ("--time=2", "--signal=B:USR1@80")  # SLURM may send the signal a minute early
    words = ("slow.toml", *sets("run.generations=60", "task.settings.dawdle=1.0"), "--out", site.out)
    job = site.submit(*limit, "--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", *words)
    await_requeue(job, site, 180)
    assert 0 < int(str(info(site.out)["generations"])) < 60
    await_end(job, site)
    assert int(str(info(site.out)["sessions"])) == 2 and site.output().count("back into the queue") == 1
    assert_same_bits(site.out, undisturbed(site, *words[:-2]))


@pytest.mark.parametrize("launch", [MPIRUN, "srun --mpi=pmix"])
@pytest.mark.parametrize("wrong", ["--set=run.sed=1", "--sed=1"])
def test_a_wrong_config_ends_the_job_with_its_code(site: Site, launch: str, wrong: str) -> None:
    words = ("--ntasks-per-node=2", "jobs/train.slurm", *SMALL, wrong, "--out", "wrong.h5")
    assert await_failure(site.submit(*words, EES_LAUNCH=launch), site) == "2:0"
    assert "sed" in site.output()


def test_a_cancelled_job_does_not_go_back_into_the_queue(site: Site) -> None:
    job = site.submit("--ntasks-per-node=2", "jobs/train.slurm", "slow.toml", "--out", site.out)
    until(lambda: begun(site.out), 60, site)
    call("scancel", job)
    until(lambda: facts(job)[0]["JobState"] == "CANCELLED", 60, site)
    assert facts(job)[0]["Restarts"] == "0" and "back into the queue" not in site.output()


def test_an_array_leaves_a_file_for_each_line_and_a_task_that_is_told_to_stop_requeues_itself_alone(
    site: Site,
) -> None:
    words = ("slow.toml", *sets("task.settings.task=3"))
    (site.folder / "list").write_text(call_in(site.folder, "ees-mpi", "sweep", *words, "--seeds", "0-3"))
    with (site.folder / "list").open("a") as more:
        more.write("ees-mpi sample slow-seed0.h5 --count 20 --trust --out sampled.h5\n")
    job = site.submit("--array=1-4", "--ntasks-per-node=1", "jobs/array.slurm", "list")
    slow = site.folder / "slow-seed2.h5"
    until(lambda: begun(slow), 60, site)
    call("scancel", "--signal=USR1", "--batch", f"{job}_3")
    await_requeue(job, site)
    await_end(job, site)
    assert {task["ArrayTaskId"]: task["Restarts"] for task in facts(job)} == {"1": "0", "2": "0", "3": "1", "4": "0"}
    runs = [info(site.folder / f"slow-seed{seed}.h5") for seed in range(4)]
    assert [(run["complete"], run["seed"]) for run in runs] == [(True, seed) for seed in range(4)]
    assert_same_bits(slow, undisturbed(site, *words, "--seed", "2"))
    await_end(site.submit("--array=5", "--ntasks-per-node=2", "jobs/array.slurm", "list"), site)
    assert (site.folder / "sampled.h5").exists()


@pytest.mark.parametrize(
    ("launch", "lost"), [(MPIRUN, "another node"), (MPIRUN, "the script's node"), (SRUN, "another node")]
)
def test_a_job_that_has_lost_a_node_goes_on_later_with_the_right_bits(site: Site, launch: str, lost: str) -> None:
    words = ("jobs/train.slurm", "slow.toml", "--out", site.out)
    job = site.submit("--nodes=2", "--ntasks-per-node=2", *words, EES_LAUNCH=launch)
    until(lambda: begun(site.out), 60, site)
    host = facts(job)[0]["BatchHost"]
    call(SANDBOX, "lose", host if lost == "the script's node" else ({"n1", "n2"} - {host}).pop())
    await_requeue(job, site)
    call(SANDBOX, "up")
    await_end(job, site)
    assert_same_bits(site.out, undisturbed(site, "slow.toml"))


@pytest.mark.parametrize("launch", [MPIRUN, SRUN])
def test_after_a_killed_rank_the_job_fails_and_the_same_line_goes_on_from_the_last_commit(
    site: Site, launch: str
) -> None:
    words = ("slow.toml", *sets("run.generations=60"), "--out", site.out)
    line = ("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", *words)
    before = set(Path("/dev/shm").glob("ees-mpi-*"))
    job = site.submit(*line, EES_LAUNCH=launch)
    until(lambda: begun(site.out), 60, site)
    os.kill(ranks_of(site.out)[-1], signal.SIGKILL)
    await_failure(job, site)
    assert set(Path("/dev/shm").glob("ees-mpi-*")) <= before  # the noise table lost its name when all ranks held it
    await_end(site.submit(*line, EES_LAUNCH=launch), site)
    assert int(str(info(site.out)["sessions"])) == 2
    assert_same_bits(site.out, undisturbed(site, *words[:-2]))


def test_a_rank_that_dies_before_it_joins_the_others_ends_the_job(site: Site) -> None:
    program = site.folder / "ees-mpi"
    dies = '[ "${OMPI_COMM_WORLD_RANK:-}" != 1 ] || kill -KILL $$'
    program.write_text(f'#!/bin/bash\n{dies}\nexec {BIN}/ees-mpi "$@"\n')
    program.chmod(0o755)
    words = ("--ntasks-per-node=3", "jobs/train.slurm", *SMALL, "--out", site.out)
    path = f"{site.folder}:{BIN}:{os.environ['PATH']}"
    await_failure(site.submit(*words, PATH=path, EES_MPI_START_MINUTES="0.3"), site)


def test_a_container_brings_everything_to_a_host_without_python(site: Site) -> None:
    host = site.folder / "host"
    host.mkdir()
    for program in [*Path("/usr/bin").iterdir(), *Path("/usr/sbin").iterdir()]:
        if not program.name.startswith("python") and not (host / program.name).is_symlink():
            (host / program.name).symlink_to(program)
    contain = host / "contain"
    contain.write_text(f'#!/bin/bash\nPATH={BIN}:$PATH exec "$@"\n')
    contain.chmod(0o755)
    assert not any(shutil.which(name, path=str(host)) for name in ("python3", "ees-mpi", "mpirun"))
    words = ("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", *SMALL, "--out", site.out)
    await_end(site.submit(*words, PATH=str(host), EES_LAUNCH=SRUN, EES_RUN="contain"), site)
    assert info(site.out)["complete"] is True


def test_an_environment_is_staged_to_the_local_disks_by_one_line(site: Site) -> None:
    built = site.folder / "built" / "ees"
    call(sys.executable, "-m", "venv", "--without-pip", built)
    packages = next(built.glob("lib/python*/site-packages"))
    shutil.copytree(CHECKOUT / "ees_mpi", packages / "ees_mpi", ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    (built / "bin" / "ees-mpi").write_text("#!/var/tmp/ees/bin/python\nfrom ees_mpi.__main__ import main\nmain()\n")
    (built / "bin" / "ees-mpi").chmod(0o755)
    call("tar", "-C", built.parent, "-cf", site.folder / "ees.tar", "ees")
    script = site.folder / "jobs" / "train.slurm"
    script.write_text(script.read_text().replace("# sbcast", "sbcast"))
    words = ("--nodes=2", "--ntasks-per-node=2", "jobs/train.slurm", *SMALL, "--out", site.out)
    usual = "/usr/sbin:/usr/bin:/sbin:/bin"  # no ees-mpi is there
    await_end(
        site.submit(*words, PATH=usual, PYTHONPATH="", EES_LAUNCH=SRUN, LD_LIBRARY_PATH=f"{sys.prefix}/lib"), site
    )
    run = info(site.out)
    assert (run["complete"], run["nodes"]) == (True, 2)


@pytest.mark.parametrize("launch", [MPIRUN, SRUN])
def test_scaling_is_one_command_that_compares_both_nodes_with_one(site: Site, launch: str) -> None:
    small = ("interference-maxent", "--from", "", *sets("population.size=8", "noise.size=5000"), "--each", "4")
    job = site.submit("--nodes=2", "--ntasks-per-node=2", "jobs/scaling.py", *small, EES_LAUNCH=launch)
    await_end(job, site, 300)
    said = (site.folder / f"slurm-{job}.out").read_text()
    rows = json.loads(said.partition("send: ")[2])["rows"]
    places = [(row["kind"], row["ranks"], row["nodes"]) for row in rows]
    assert places == [("strong", 2, 1), ("strong", 4, 2), ("weak", 1, 1), ("weak", 2, 1), ("weak", 4, 2)]
