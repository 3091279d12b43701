"""The job scripts' decisions, with stand-ins for mpirun and SLURM; tests/cluster has the real ones."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support.program import BIN, CHECKOUT, done, environment, sets

from ees_mpi import config as configs

JOBS = CHECKOUT / "jobs"
PAPER = JOBS / "paper"
sys.path.insert(0, str(JOBS))

import scaling  # noqa: E402

SCRIPTS = {  # the words of each, what it starts, and what goes back into the queue
    "train.slurm": (("ant-maxent", "-o", "a run.h5"), "ees-mpi train ant-maxent -o a run.h5 --resume", "70"),
    "array.slurm": (("list",), "ees-mpi train cheetah-es --set task.hidden=[4, 4] --out=a run.h5 --resume", "60_2"),
}
LIST = "ees-mpi train other --out o.h5\nees-mpi train cheetah-es --set 'task.hidden=[4, 4]' '--out=a run.h5' --resume\n"
JOB = {"SLURM_JOB_ID": "70", "SLURM_JOB_NUM_NODES": "4", "SLURM_ARRAY_JOB_ID": "60", "SLURM_ARRAY_TASK_ID": "2"}
# Tells the script that the limit is near, and stops when the script passes it on.
NEAR = "trap 'kill %1; exit 75' USR1; tail -f /dev/null & kill -USR1 $PPID; wait"


class Site:
    """A user's folder and a site's programs, which say what they were called with."""

    def __init__(self, folder: Path):
        self.folder, self.log = folder, folder / "log"
        self.log.write_text("")
        (folder / "list").write_text(LIST)
        (folder / "bin").mkdir()
        self.program("scontrol", f'echo "scontrol $*" >>{self.log}')

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run(self, script: str, launcher: str, complete: bool = False, answer: bool = True, **more: str) -> int:
        """Run a script as SLURM does; return its exit code."""
        self.program("mpirun", f'echo "$*" >>{self.log}\n{launcher}')
        self.program("ees-mpi", f'[ "$1 $2, $3" = "info --complete, a run.h5" ] && {str(complete).lower()}')
        self.program("srun", f'[ "$*" = "--overlap --nodes=4 --ntasks=4 true" ] && {str(answer).lower()}')
        env = {**JOB, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", **more}
        line = ["bash", str(JOBS / script), *SCRIPTS[script][0]]
        return subprocess.run(line, cwd=self.folder, env=env, timeout=60).returncode


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    ("launcher", "complete", "answer", "code", "requeued"),
    [
        pytest.param("exit 0", True, True, 0, False, id="a complete run ends well"),
        pytest.param("exit 0", False, True, 1, False, id="mpirun alone does not make a run complete"),
        pytest.param("exit 2", False, True, 2, False, id="a wrong config ends the job"),
        pytest.param("exit 9", True, True, 9, False, id="an error is not hidden by a file that was complete before"),
        pytest.param(NEAR, False, True, 75, True, id="the time limit was near"),
        pytest.param("exit 0", False, False, 1, True, id="a node was lost"),
    ],
)
def test_a_job_ends_with_a_code_or_goes_back_into_the_queue(
    site: Site, script: str, launcher: str, complete: bool, answer: bool, code: int, requeued: bool
) -> None:
    assert site.run(script, launcher, complete, answer) == code
    _, starts, number = SCRIPTS[script]
    expected = [f"--bind-to none {starts}", *([f"scontrol requeue {number}"] if requeued else [])]
    assert site.log.read_text().splitlines() == expected


def test_a_command_that_cannot_be_saved_does_not_begin_again_and_again_at_the_time_limit(site: Site) -> None:
    (site.folder / "list").write_text("\nees-mpi sample o.h5 --out 'a run.h5'\n")
    assert site.run("array.slurm", NEAR) == 75
    assert "scontrol" not in site.log.read_text()


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_job_whose_run_file_has_no_name_ends_before_it_trains(
    site: Site, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCRIPTS, script, ({"train.slurm": ("ant-maxent",), "array.slurm": ("list",)}[script], "", ""))
    (site.folder / "list").write_text("ees-mpi train other --out o.h5\nees-mpi train ant-maxent\n")
    assert site.run(script, "exit 0", True) == 2
    assert site.log.read_text() == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_job_runs_from_a_container_under_another_launcher(site: Site, script: str) -> None:
    site.program("contain", f'echo "contain $*" >>{site.log}\n"$@"')
    assert site.run(script, "exit 0", True, EES_RUN="contain", EES_LAUNCH="mpirun -q") == 0
    assert site.log.read_text().splitlines() == [
        f"-q contain {SCRIPTS[script][1]}",
        "contain ees-mpi info --complete a run.h5",
    ]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="needs shellcheck")
def test_the_scripts_pass_shellcheck() -> None:
    files = [path for folder in (JOBS, CHECKOUT / "tools") for path in folder.rglob("*") if path.is_file()]
    scripts = [path for path in files if path.read_bytes().startswith(b"#!/usr/bin/env bash")]
    subprocess.run(["shellcheck", "-x", *scripts, CHECKOUT / "tools" / "setup.sh"], cwd=CHECKOUT, check=True)


def option(words: list[str], name: str) -> str:
    """Return the value of an option; empty if it is not given."""
    return words[words.index(name) + 1] if name in words else ""


@cache
def plan(*words: str) -> list[list[str]]:
    """Return the commands of the plan of the paper, in words."""
    return [shlex.split(line) for line in done(PAPER / "plan.py", *words).stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--scale", "0.01", "--engine", "bullet", "--folder", "runs"]])
def test_every_run_of_the_paper_has_a_config_that_can_be_read_and_a_start_before_it(words: list[str]) -> None:
    made: set[str] = set()
    lines = plan("paper", "text", "released", "adapt", "seeding", "mixtures", *words)
    for line in lines:
        if line[1] == "train":
            configs.load(line[2], [line[place + 1] for place, word in enumerate(line) if word == "--set"])
        start = option(line, "--from") or ("" if line[1] == "train" else line[2])
        assert not start or start in made
        made.add(option(line, "--out"))
    assert len(made) == len(lines)


def test_scaling_measures_full_nodes_first_and_then_less_than_a_node() -> None:
    found = [(point["kind"], point["ranks"]) for point in scaling.points(nodes=3, per_node=4, each=16)]
    assert found == [*(("strong", ranks) for ranks in (4, 8, 12)), *(("weak", ranks) for ranks in (4, 8, 12, 1, 2))]


def test_an_efficiency_is_the_rate_of_a_rank_against_that_of_a_full_node_and_its_range_is_of_all_generations() -> None:
    same = {"kind": "strong", "individuals": 8, "start": 1.0, "evaluate_max": 1, "gather": 0, "update": 0, "commit": 0}
    one = {**same, "ranks": 4, "nodes": 1, "steps": [80, 80, 80], "seconds": [2.0, 2.0, 4.0]}
    two = {**same, "ranks": 8, "nodes": 2, "steps": [80, 80, 80], "seconds": [1.0, 1.25, 2.0]}
    full, both = scaling.summary([one, two])
    assert full["efficiency"] == [1.0, 0.5, 2.0] and both["efficiency"] == [0.8, 0.5, 2.0]
    assert (both["rate"], both["seconds"], both["timed"]) == (8.0, 1.25, 3)


@pytest.mark.slow
def test_scaling_measures_what_is_missing_and_refuses_a_file_with_other_settings(tmp_path: Path) -> None:
    small = ["interference-maxent", "--from", "", *sets("population.size=8", "noise.size=5000"), "--each", "4"]
    env = environment(PATH=f"{BIN}:{os.environ['PATH']}")
    for more, code in ([], 0), ([], 0), (["--set", "population.std=0.2"], 1):
        line = [sys.executable, JOBS / "scaling.py", *small, "--nodes", "1", "--per-node", "1", *more]
        done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        kept = [json.loads(line)[1] for line in (tmp_path / "scaling.jsonl").read_text().splitlines()]
        assert [(point["kind"], point["ranks"]) for point in kept] == 2 * [("strong", 1), ("weak", 1)]
    assert "population.std=0.2" in done.stderr and "--out" in done.stderr
