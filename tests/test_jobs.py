"""The job scripts' decisions, with stand-ins for mpirun and SLURM; tests/cluster has the real ones."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.breaking import breaking
from support.program import BIN, CHECKOUT, MPIRUN, TIMEOUT, TINY, ees, environment, info, sets
from support.run_files import assert_same_bits

JOBS = CHECKOUT / "jobs"
PAPER = JOBS / "paper"
sys.path.insert(0, str(JOBS))  # the scripts import each other by name

import scaling  # noqa: E402
import worklist  # noqa: E402

WORDS = ["interference-maxvar", *sets(*TINY)]
NAME = "interference-maxvar-noise.size5000-population.size20-seed0.h5"
WORKS = 'while [ "$1" != ees-mpi ]; do shift; done\nexec "$@"'  # a launcher of one rank
SLURM = {"SLURM_JOB_ID": "77", "SLURM_SUBMIT_DIR": "/nowhere"}
TASK = {"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"}


class Place:
    """A user's folder, with stand-ins for programs, and where they say what they were called with."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log = folder / "log"
        self.log.write_text("")
        (folder / "bin").mkdir()
        show = f'if [ "$1" = show ]; then echo "   Command={JOBS}/train.slurm words"; exit; fi\n'
        self.program("scontrol", show + f'echo "$*" >>{self.log}')

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run(self, script: Path, *words: str, **more: str) -> tuple[int, str]:
        path = f"{self.folder}/bin:{BIN}:{os.environ['PATH']}"
        env = environment(**{"PATH": path, "TMPDIR": str(self.folder), **more})
        with (self.folder / "said").open("w") as said:  # not a pipe: what outlives the script must not keep us waiting
            line = ["bash", str(script), *words]
            done = subprocess.run(line, cwd=self.folder, env=env, stdout=said, stderr=said, timeout=TIMEOUT)
        return done.returncode, (self.folder / "said").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_copy_of_a_script_finds_the_others_and_ends_well_when_the_run_is_complete_and_not_if_more_is_asked_for(
    place: Place,
) -> None:
    place.program("mpirun", WORKS)
    spooled = Path(shutil.copy(JOBS / "train.slurm", place.folder / "slurm_script"))
    code, said = place.run(spooled, *WORDS, **SLURM)
    assert code == 0, said
    assert info(place.folder / "runs" / NAME)["complete"] is True
    assert place.log.read_text() == ""
    assert not list(place.folder.glob("ees-*"))  # the folder for mpirun's own files is gone
    place.program("mpirun", "exit 0")  # as when all ranks die under ULFM before they begin
    code, said = place.run(JOBS / "train.slurm", *WORDS, "--set", "run.generations=9", **SLURM)
    assert (code, place.log.read_text()) == (0, "requeue 77\n"), said


@pytest.mark.parametrize(
    ("cpus", "tasks", "more", "bound"),
    [
        ("40(x2),8", "40(x2),8", {}, True),
        ("40(x2),8", "4(x3)", {}, True),
        ("20(x2),8", "20(x2),8", {}, False),  # others may have the rest of the nodes
        ("40(x2),8", "80(x2),8", {}, False),  # two ranks on a core
        ("40(x2),8", "40(x2),8", {"EES_BIND": "none"}, False),
        ("20(x2),8", "20(x2),8", {"EES_BIND": "core"}, True),
    ],
)
def test_ranks_are_bound_to_cores_only_if_the_job_has_its_nodes_to_itself(
    place: Place, cpus: str, tasks: str, more: dict[str, str], bound: bool
) -> None:
    place.program("nproc", "echo 40")
    place.program("lscpu", "exit 1")
    place.program("sinfo", "printf '%s 40\\n' n1 n1 n2; echo n3 8")  # n1 is in two partitions
    given = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_CPUS_PER_NODE": cpus, "SLURM_TASKS_PER_NODE": tasks}
    place.program("launcher", f". {JOBS}/job.sh; launcher")
    _, said = place.run(place.folder / "bin" / "launcher", **SLURM, **given, **more)
    words = ["mpirun", *(["--map-by", "numa", "--bind-to", "core"] if bound else ["--bind-to", "none"])]
    assert said.split() == words


def test_without_a_queue_there_is_one_rank_for_each_core(place: Place) -> None:
    place.program("launcher", f". {JOBS}/job.sh; launcher")
    place.program("lscpu", "exit 1")
    _, said = place.run(place.folder / "bin" / "launcher")
    assert said.split() == ["mpirun", "--bind-to", "none", "-n", str(len(os.sched_getaffinity(0)))]


def test_without_a_queue_ranks_are_not_bound_and_a_wrong_binding_is_refused(place: Place) -> None:
    place.program("launcher", f". {JOBS}/job.sh; launcher")
    assert "--bind-to none" in " ".join(place.run(place.folder / "bin" / "launcher")[1].split())
    code, said = place.run(place.folder / "bin" / "launcher", EES_BIND="socket")
    assert code == 2 and "EES_BIND=socket: expected core or none" in said


def test_a_launcher_that_says_all_is_well_does_not_make_a_run_complete(place: Place) -> None:
    place.program("mpirun", "exit 0")
    code, said = place.run(JOBS / "train.slurm", *WORDS, **SLURM)
    assert (code, place.log.read_text()) == (0, "requeue 77\n"), said


def test_a_sweep_submits_an_array_with_a_task_for_each_run_and_a_task_trains_its_own_run(place: Place) -> None:
    place.program("sbatch", f'echo "$*" "${{PRTE_MCA_rmaps_default_mapping_policy:-}}" >>{place.log}')
    place.program("mpirun", WORKS)
    words = [*WORDS, *sets("population.std=0.2,0.5", "task.start=1.0"), "--seeds=3,7", "--max-hours", "1"]
    inherited = {"PRTE_MCA_rmaps_default_mapping_policy": ""}
    code, said = place.run(JOBS / "sweep.slurm", "--nodes=2", "--array=%3", *words, **inherited)
    script = JOBS / "sweep.slurm"
    assert (code, place.log.read_text()) == (0, f"--nodes=2 --array=0-3%3 {script} {' '.join(words)} \n"), said
    code, said = place.run(script, *words, **SLURM, **TASK)
    assert code == 0, said
    made = [path.name for path in (place.folder / "runs").iterdir()]
    assert made == [NAME.replace("-seed0", "-std0.5-start1.0-seed7")]
    assert info(place.folder / "runs" / made[0])["complete"] is True
    code, said = place.run(script, *words, **SLURM, **TASK | {"SLURM_ARRAY_TASK_ID": "4"})
    assert code == 0 and "the sweep has 4 runs" in said


@pytest.mark.parametrize(
    "words", [[], ["interference-maxvar", "--set"], [*WORDS, "--seeds", "2-1"], ["nonsense"]], ids=" ".join
)
def test_a_sweep_that_cannot_work_is_not_submitted(place: Place, words: list[str]) -> None:
    place.program("sbatch", f"echo submitted >>{place.log}")
    code, said = place.run(JOBS / "sweep.slurm", *words)
    assert (code, place.log.read_text()) == (2, "") and ("expected" in said or "unknown" in said), said


def test_a_job_of_one_run_refuses_a_sweep(place: Place) -> None:
    code, said = place.run(JOBS / "train.slurm", *WORDS, "--seeds", "0-1", **SLURM)
    assert (code, place.log.read_text()) == (2, "") and "bash jobs/sweep.slurm" in said, said


def test_a_task_of_an_array_puts_itself_back_into_the_queue_and_not_the_array(place: Place) -> None:
    place.program("mpirun", "exit 75")
    code, said = place.run(JOBS / "seeds.slurm", *WORDS, **SLURM, **TASK)
    assert (code, place.log.read_text()) == (0, "requeue 70_3\n"), said


@pytest.mark.parametrize("code", [2, 3])
def test_a_job_that_cannot_work_is_not_started_again(place: Place, code: int) -> None:
    place.program("mpirun", f"exit {code}")
    left, said = place.run(JOBS / "train.slurm", *WORDS, **SLURM)
    assert (left, place.log.read_text()) == (code, "") and "cannot work" in said


@pytest.mark.parametrize(
    ("restarts", "code", "requeued"), [(19, 75, True), (20, 75, False), (21, 75, False), (7, 1, True)]
)
def test_restarts_are_bounded(place: Place, restarts: int, code: int, requeued: bool) -> None:
    place.program("mpirun", f"echo launched >>launches; exit {code}")
    left, said = place.run(JOBS / "train.slurm", *WORDS, **SLURM, SLURM_RESTART_COUNT=str(restarts))
    assert (left == 0, place.log.read_text() != "") == (requeued, requeued), said
    assert (place.folder / "launches").exists() == (restarts < 21)  # SLURM may start a job again by itself, too


def test_a_job_that_gets_nothing_done_four_times_in_a_row_is_given_up(place: Place) -> None:
    place.program("mpirun", "exit 1")
    codes = [place.run(JOBS / "train.slurm", *WORDS, **SLURM, SLURM_RESTART_COUNT=str(n))[0] for n in (5, 6, 7, 8)]
    assert codes == [0, 0, 0, 1]
    assert place.log.read_text() == 3 * "requeue 77\n"
    assert place.run(JOBS / "train.slurm", *WORDS, **SLURM)[0] == 0  # submitted anew, it has new chances


def test_failures_are_counted_for_each_seed_separately(place: Place) -> None:
    fails_once = f"n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) >tries; [ $((n % 2)) = 1 ] || exit 1\n{WORKS}"
    place.program("mpirun", fails_once)
    code, said = place.run(JOBS / "seeds.sh", "--seeds", "0-1", *WORDS, EES_MAX_RESTARTS="1")
    assert code == 0, said
    assert len(list((place.folder / "runs").glob("*.h5"))) == 2
    assert not list((place.folder / "runs").glob("*.fruitless"))


def test_a_file_that_somebody_holds_is_tried_again_later(place: Place) -> None:
    held = f"mkdir -p runs; touch runs/{NAME}.lock; exit 3"
    place.program("mpirun", held)
    code, said = place.run(JOBS / "train.slurm", *WORDS, **SLURM)
    assert (code, place.log.read_text()) == (0, "requeue 77\n"), said


def test_a_time_limit_of_the_user_stops_a_job_without_a_queue(place: Place) -> None:
    place.program("mpirun", "echo launched >>launches; exit 75")
    code, said = place.run(JOBS / "train.sh", *WORDS, "--max-hours", "1")
    assert code == 75 and (place.folder / "launches").read_text() == "launched\n", said


def test_a_site_script_may_read_variables_that_are_not_set_and_shared_memory_of_killed_ranks_is_removed(
    place: Place,
) -> None:
    jobs = Path(shutil.copytree(JOBS, place.folder / "jobs", ignore=shutil.ignore_patterns("paper")))
    (jobs / "site.sh").write_text('[ -n "$NEVER_SET_BY_ANYONE" ] || export EES_RUNS=there\n')
    left = Path(f"/dev/shm/sm_segment.test-{os.getpid()}.{os.getuid()}.0")
    place.program("mpirun", f"sleep 0.05; touch {left}; {WORKS}")
    try:
        code, said = place.run(jobs / "train.sh", *WORDS)
        assert code == 0 and (place.folder / "there" / NAME).exists() and not left.exists(), said
    finally:
        left.unlink(missing_ok=True)


def test_a_job_that_gets_on_between_failures_is_not_given_up(place: Place) -> None:
    place.program("mpirun", f"export EES=1\n({WORKS.replace('exec ', '')})\nexit 1")
    code, said = place.run(JOBS / "train.slurm", *WORDS, **SLURM, SLURM_RESTART_COUNT="7")
    assert (code, place.log.read_text()) == (0, "requeue 77\n"), said


def test_ranks_that_never_come_together_are_ended_by_the_script(place: Place) -> None:
    place.program("mpirun", "exec sleep 600")
    code, said = place.run(JOBS / "train.sh", *WORDS, EES_QUIET_SECONDS="1", EES_MAX_RESTARTS="0")
    assert code == 1 and "no sign of life" in said, said


def test_ranks_that_do_not_stop_when_told_are_ended_by_the_script(place: Place) -> None:
    place.program("mpirun", "trap : USR1; kill -USR1 $PPID; while true; do read -t 600 <> <(:); done")
    code, said = place.run(JOBS / "train.slurm", *WORDS, **SLURM, EES_GRACE_SECONDS="1")
    assert (code, place.log.read_text()) == (0, "requeue 77\n") and "did not stop" in said, said


def test_without_a_queue_a_failed_run_is_started_again_in_place(place: Place) -> None:
    place.program("mpirun", f"[ -e failed ] || {{ touch failed; exit 137; }}\n{WORKS}")
    code, said = place.run(JOBS / "seeds.sh", "-n", "2", "--seeds", "4-5", *WORDS)
    assert code == 0 and said.count("starting again") == 1, said
    assert [info(path)["seed"] for path in sorted((place.folder / "runs").glob("*.h5"))] == [4, 5]


def test_a_script_told_to_stop_saves_and_run_again_ends_with_the_same_bits(place: Place) -> None:
    slow = ('task.settings.how="until told"', "task.settings.at=5", "task.settings.seconds=0.2")
    words = breaking(place.folder / "stopped.h5", 0, *slow, 'task.settings.mark="waits"')[2:]
    # Tells the script once the ranks wait; mpirun and the ranks are real.
    place.program("told", "until [ -e waits ]; do kill -0 $1 || exit; read -t 0.05 <> <(:); done; kill -USR1 $1")
    place.program("mpirun", f'[ -e told ] || (touch told; exec told $PPID) &\nexec {MPIRUN} "$@"')
    code, said = place.run(JOBS / "train.sh", "-n", "2", *words)
    assert code == 75 and "Run the same command again" in said, said
    assert info(place.folder / "stopped.h5")["complete"] is False
    code, said = place.run(JOBS / "train.sh", "-n", "2", *words)
    assert code == 0, said
    whole = place.folder / "whole.h5"
    assert ees(*breaking(whole, 0, "task.settings.how=none")[1:]).returncode == 0
    assert_same_bits(place.folder / "stopped.h5", whole)


@pytest.mark.parametrize(
    "words",
    [
        *(["--scale", "2"], ["--scale", "small"], ["--seeds", "none"], ["--sale", "1"], ["--scale"]),
        *(["--runs", "a b"], ["--engine", "brax"], ["--minutes", "soon"]),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("script", ["reproduce.slurm", "reproduce.sh"])
def test_reproduce_refuses_what_it_does_not_know(place: Place, script: str, words: list[str]) -> None:
    code, said = place.run(PAPER / script, *words)
    assert code == 2 and said.startswith("job: "), said


def test_reproduce_submits_each_stage_after_those_it_builds_on(place: Place) -> None:
    place.program("sbatch", f'echo "$*" >>{place.log}; wc -l <{place.log}')
    code, said = place.run(PAPER / "reproduce.slurm", "--seeds", "4", "--nodes", "7", "--parallel", "2")
    assert code == 0, said
    jobs = {line.split("--stage ")[1].split()[0]: line for line in place.log.read_text().splitlines()}
    assert list(jobs) == [
        *("interference", "cheetah", "ant", "mixtures", "maml"),
        *("seeding", "splitting", "adaptation", "sampling", "figures", "statistics"),
    ]
    assert "--array=0-11%2" in jobs["ant"] and "--nodes=7" in jobs["ant"] and "--dependency" not in jobs["ant"]
    assert "--array=0-3%2" in jobs["mixtures"]  # half the seeds
    assert "--dependency=afterok:3 " in jobs["splitting"] and "--dependency=afterok:2:5 " in jobs["sampling"]
    assert "--dependency=afterok:1:2:3:4:5:6:7:8:9 " in jobs["statistics"] and "--nodes=1" in jobs["statistics"]
    assert all("--kill-on-invalid-dep=yes" in line and "--seeds 4" in line for line in jobs.values())


def test_reproduce_at_full_scale_uses_the_presets_as_they_are(place: Place) -> None:
    script = (
        '. "$0/experiments.sh"; check_options; for p in cheetah-es cheetah-maml ant-maxent-split; do sized $p; done'
    )
    done = subprocess.run(["bash", "-c", script, str(PAPER)], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("scale", ["0.15", "0.07", "0.5", "tiny"])
def test_reproduce_evolves_further_for_as_long_as_it_compares(scale: str) -> None:
    script = f'. "$0/experiments.sh"; scale={scale}; check_options; sized ant-adapt; after 20'
    env = environment(PATH=f"{BIN}:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-c", script, str(PAPER)], capture_output=True, text=True, check=True, env=env)
    lines = done.stdout.split()
    made = int(lines[1].removeprefix("run.generations="))
    assert made > int(lines[-1])  # the population after g updates is number g


def test_reproduce_tells_which_work_is_done_and_which_is_missing(place: Place) -> None:
    place.program("mpirun", WORKS)
    words = ["--scale", "tiny", "--seeds", "1", "--without-maml"]
    code, said = place.run(PAPER / "reproduce.sh", *words, "--stage", "interference")
    assert code == 0, said
    for stage, row in {"interference": "2 0 -", "adaptation": "0 4 4 of unknown length:"}.items():
        code, said = place.run(PAPER / "reproduce.sh", *words, "--status", "--stage", stage)
        assert code == 0 and f"{stage} {row}" in " ".join(said.split()), said
    assert not list((place.folder / "runs").rglob("cheetah*"))  # nothing was trained


def test_reproduce_on_gymnasiums_robots_begins_with_the_largest_runs_and_repeats_none(place: Place) -> None:
    script = '. "$0/experiments.sh"; robots=gymnasium; check_options; work'
    done = subprocess.run(["bash", "-c", script, str(PAPER)], capture_output=True, text=True, check=True)
    tasks = [(line.split()[0], line.split()[1], *line.split()[3:]) for line in done.stdout.splitlines()]
    assert tasks[:2] == [("largest", "1", "fresh", "cheetah-maxent", "0"), ("largest", "1", "fresh", "ant-maxent", "0")]
    assert len({task[1:] for task in tasks}) == len(tasks) and tasks[-1][0] == "collecting"
    assert list(dict.fromkeys(task[0] for task in tasks if task[1] == "short"))[:3] == [
        "cheetah",
        "adaptation",
        "sampling",
    ]
    code, said = place.run(PAPER / "reproduce.sh", "--robots", "gymnasium", "--status")
    assert code == 0 and "largest            0        2" in said, said  # and every config can be read


def test_reproduce_stops_in_time(place: Place) -> None:
    place.program("mpirun", f'echo "$*" >>{place.log}; exit 75')
    code, said = place.run(PAPER / "reproduce.sh", "--robots", "gymnasium", "--minutes", "2")
    words = place.log.read_text().split()
    assert code == 75 and "Run the same command again" in said and len(words) < 40, said
    assert 0.02 < float(words[words.index("--max-hours") + 1]) <= 2 / 60
    assert words[words.index("--out") + 1] == "runs/reproduce/mujoco-cheetah-maxent-seed0.h5"


def test_the_plan_has_its_blocks_in_order_and_inside_a_block_goes_seed_by_seed() -> None:
    script = '. "$0/experiments.sh"; engine=mujoco; check_options; work'
    done = subprocess.run(["bash", "-c", script, str(PAPER)], capture_output=True, text=True, check=True)
    tasks = [line.split() for line in done.stdout.splitlines()]
    counts = Counter(task[0] for task in tasks)
    assert list(counts) == ["ant", "seeding", "cheetah", "maml", "mixtures", "authors"]
    assert (
        counts["ant"] == 18 and counts["seeding"] == 27 + 3 and {tuple(task[1:3]) for task in tasks} == {("plan", "6")}
    )
    assert [task[4:] for task in tasks[:4]] == [
        ["ant-es", "0"],
        ["ant-maxvar", "0"],
        ["ant-maxent", "0"],
        ["ant-es", "1"],
    ]
    seeding = Counter(tuple(task[3:5]) for task in tasks if task[0] == "seeding")
    assert seeding == {
        **{("further", f"ant-{name}"): 6 for name in ("maxvar", "maxent")},
        ("random_gentle", "ant-adapt"): 6,
        ("fresh", "ant-adapt"): 3,
        ("further_fresh", "ant-maxent"): 3,
        **{(kind, "ant-es-backward"): 3 for kind in ("fresh", "further")},
    }


def test_runs_of_the_plan_in_the_results_are_done_and_later_work_starts_from_their_means(place: Place) -> None:
    made = place.folder / "results" / "ant-maxent-mujoco-seed0"
    made.mkdir(parents=True)
    (made / "run.json").write_text('{"generations": 30}')
    (made / "policy.npz").write_text("")
    script = f""". "$0/experiments.sh"; engine=mujoco; collected={place.folder}/results; check_options
        train() {{ echo "x train $*"; }}; for task in fresh further; do $task ant-maxent 0; $task ant-maxent 1; done"""
    done = subprocess.run(["bash", "-c", script, str(PAPER)], capture_output=True, text=True, check=True)
    work = worklist.read(done.stdout.splitlines(), place.folder / "results")
    assert [each.done() for each in work] == [True, False, False, False]
    assert [each.needs for each in work[2:]] == [made / "policy.npz", Path("runs/reproduce/ant-maxent-mujoco-seed1.h5")]


def test_seeds_side_by_side_end_with_the_same_bits_and_a_bad_run_does_not_end_the_others(place: Place) -> None:
    place.program("mpirun", f'case "$*" in *--seed\\ 1*) echo bad luck; exit 2 ;; esac\n{WORKS}')
    code, said = place.run(JOBS / "seeds.sh", "-j", "2", "--seeds", "0-2", *WORDS)
    names = [NAME.replace("seed0", f"seed{seed}") for seed in range(3)]
    assert code == 1 and f"failed: {Path(names[1]).stem}: exit code 2" in said and "2 done, 0 running" in said, said
    assert "bad luck" in (place.folder / "runs" / "logs" / f"{Path(names[1]).stem}.log").read_text()
    ees("train", *WORDS, "--seed", 2, "--out", place.folder / "alone.h5")
    assert_same_bits(place.folder / "alone.h5", place.folder / "runs" / names[2])
    place.program("mpirun", WORKS)
    code, said = place.run(JOBS / "seeds.sh", "-j", "2", "--seeds", "0-2", *WORDS)
    assert code == 0 and "1 done, 0 running" in said, said  # only the bad one was left


def test_runs_side_by_side_save_their_state_when_the_script_is_told_to_stop(place: Place) -> None:
    place.program(
        "mpirun", f"[ -e {place.folder}/asked ] || {{ touch {place.folder}/asked; kill -TERM $EES_SCRIPT; }}\n{WORKS}"
    )
    words = [*WORDS, "--set", "run.generations=100000", "--set", "run.fsync=false"]
    start = f'export EES_SCRIPT=$$; exec bash {JOBS}/seeds.sh "$@"'
    (place.folder / "start.sh").write_text(start)
    code, said = place.run(place.folder / "start.sh", "-j", "1", "--seeds", "0-1", *words)
    assert code == 75 and "Run the same command again to continue" in said, said


def test_a_machine_that_has_the_package_on_its_path_only_runs_it_as_a_module(place: Place) -> None:
    place.program("mpirun", WORKS)
    place.program("python3", f'exec {sys.executable} "$@"')
    shutil.copytree(JOBS, place.folder / "jobs", ignore=shutil.ignore_patterns("paper"))  # no .venv beside it
    code, said = place.run(place.folder / "jobs" / "train.sh", *WORDS, PATH=f"{place.folder}/bin:/usr/bin:/bin")
    assert code == 0 and info(place.folder / "runs" / NAME)["complete"] is True, said


@pytest.mark.parametrize("seeds", ["0-x", "x", "5-2", "0-", "-3", "0-1-2", ""])
def test_seeds_that_are_no_range_are_refused(place: Place, seeds: str) -> None:
    code, said = place.run(JOBS / "seeds.sh", "--seeds", seeds, *WORDS)
    assert code == 2 and "expected" in said and not list((place.folder / "runs").glob("*.h5"))


def test_both_formats_of_the_container_have_the_same_recipe() -> None:
    podman, apptainer = ((JOBS / "containers" / name).read_text() for name in ("Containerfile", "Apptainer.def"))
    for pattern in (r"debian:\w+", r"EXTRAS=([a-z,]+)$", r"bash (/tmp/container.sh /tmp/dist)"):
        found = [re.search(pattern, text, re.MULTILINE) for text in (podman, apptainer)]
        assert all(found) and found[0][0] == found[1][0]
    assert all(
        re.search(r"dist /tmp/dist\n.*jobs/containers/container.sh /tmp/container.sh", text)
        for text in (podman, apptainer)
    )


def test_a_container_without_one_wheel_is_not_built(place: Place) -> None:
    place.program("apt-get", f"echo installing >>{place.log}")
    code, said = place.run(JOBS / "containers" / "container.sh", str(place.folder), "analysis")
    assert code == 2 and "expected one wheel" in said and place.log.read_text() == ""


def test_scaling_measures_whole_curves_first_and_quick_points_before_slow_ones() -> None:
    points = scaling.wanted(scaling.options(["-n", "6", "--repeat", "2", "--each", "3", "--total", "12"]))
    assert [(each["repetition"], each["kind"], each["ranks"], each["individuals"]) for each in points] == [
        *(
            (again, kind, ranks, size)
            for again in (0, 1)
            for kind, ranks, size in [
                ("weak", 1, 3),
                ("weak", 2, 6),
                ("weak", 4, 12),
                ("weak", 6, 18),
                ("strong", 6, 12),
                ("strong", 4, 12),
                ("strong", 2, 12),
                ("strong", 1, 12),
            ]
        )
    ]
    large = scaling.wanted(scaling.options(["-n", "160", "--repeat", "1"]))
    assert [each["ranks"] for each in large if each["kind"] == "strong"] == [
        160,
        128,
        64,
        32,
        16,
    ]  # the others take long


def test_scaling_keeps_its_points_names_failed_ones_and_draws_them_beside_the_model(place: Place) -> None:
    place.program("mpirun", f"echo launched >>{place.log}\n{WORKS}")  # one rank, whatever -n says
    small = [
        *("--engine", "mujoco", "--steps", "3", "--each", "2", "--total", "2", "--generations", "2"),
        "--repeat",
        "1",
    ]
    small += ["--set", "task.hidden=[4,4]", "--set", "noise.size=5000"]
    code, said = place.run(JOBS / "scaling.sh", "-n", "2", *small)
    assert code == 1 and "failed: weak, 2 ranks" in said and "expected 2 ranks, but the run had 1" in said, said
    runs = place.folder / "runs"
    found = json.loads((runs / "scaling.json").read_text())
    assert [(row["kind"], row["ranks"], row["repetitions"]) for row in found["summary"]] == [
        ("strong", 1, 1),
        ("weak", 1, 1),
    ]
    assert all(len(point["seconds"]) == 2 and point["steps"] == [6, 6] for point in found["points"])
    assert [each["ranks"] for each in found["model"]] == 2 * [1, 2, 4, 8]
    assert {path.name for path in runs.iterdir()} == {"scaling.json", "scaling.log", "scaling.png"}
    place.log.write_text("")
    code, said = place.run(JOBS / "scaling.sh", "-n", "1", *small)
    assert (code, place.log.read_text()) == (0, ""), said  # nothing is missing
    told = scaling.options([*small, "--repeat", "2", "--minutes", "1e-9", "--out", str(runs / "scaling.json")])
    missing = [point for point in scaling.wanted(told) if not scaling.is_done(point, found["points"])]
    assert scaling.measure_all(told, missing, found) == (2, [])  # the time is over: both are left
    with pytest.raises(ValueError, match="steps: 3 there, 4 here"):
        scaling.begin(scaling.options([*small, "--steps", "4", "--out", str(told.out)]))
