"""The job scripts' decisions, with stand-ins for mpirun and SLURM; tests/cluster has the real ones."""

import json
import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support.breaking import breaking
from support.program import BIN, CHECKOUT, MPIRUN, TIMEOUT, TINY, done, ees, environment, info, sets
from support.run_files import assert_same_bits

from ees_mpi import config as configs

JOBS = CHECKOUT / "jobs"
PAPER = JOBS / "paper"
sys.path.insert(0, str(JOBS))  # the scripts import each other by name

import scaling  # noqa: E402

WORDS = ["interference-maxvar", *sets(*TINY)]
OUT = ["--out", "run.h5"]
WORKS = 'while [ "$1" != ees-mpi ]; do shift; done\nexec "$@"'  # a launcher of one rank, which gets its signals
SLURM = {"SLURM_JOB_ID": "77", "SLURM_JOB_NUM_NODES": "1"}
TASK = {**SLURM, "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"}


class Place:
    """A user's folder, with stand-ins for programs, and where they say what they were called with."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log = folder / "log"
        self.log.write_text("")
        (folder / "bin").mkdir()
        self.job_is("RUNNING", "None")
        self.program("srun", 'while [ "$1" != bash ]; do shift; done; "$@"')
        # The real program takes a second: it is asked about a file that exists, and again after the file has changed.
        info = f'[ -e "$2" ] || exit 3; facts="{folder}/bin/${{2##*/}}.facts"; asked={BIN}/ees-mpi\n'
        info += '[ ! -e "$2.journal" ] && [ "$facts" -nt "$2" ] || $asked info "$2" --json >"$facts" || exit\n'
        self.program("ees-mpi", f'if [ "$1" = info ]; then {info}cat "$facts"; exit; fi\nexec {BIN}/ees-mpi "$@"')

    def job_is(self, state: str, reason: str) -> None:
        """Let SLURM say this of the job."""
        show = f'if [ "$1" = show ]; then echo "   JobState={state} Reason={reason}"; exit; fi\n'
        self.program("scontrol", show + f'echo "$*" >>{self.log}')

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run(self, script: Path, *words: object, **more: str) -> tuple[int, str]:
        path = f"{self.folder}/bin:{BIN}:{os.environ['PATH']}"
        env = environment(**{"PATH": path, "TMPDIR": str(self.folder), **more})
        program = "bash" if script.suffix == ".slurm" else sys.executable
        with (self.folder / "said").open("w") as said:  # not a pipe: what outlives the script must not keep us waiting
            line = [program, str(script), *map(str, words)]
            done = subprocess.run(line, cwd=self.folder, env=env, stdout=said, stderr=said, timeout=TIMEOUT)
        return done.returncode, (self.folder / "said").read_text()

    def train(self, *words: object, **more: str) -> tuple[int, str]:
        """Run train.slurm as SLURM does."""
        return self.run(JOBS / "train.slurm", *WORDS, *OUT, *words, **SLURM, **more)

    def write_list(self, *lines: list[str]) -> Path:
        path = self.folder / "list"
        path.write_text("".join(f"{shlex.join(line)}\n" for line in lines))
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.slow
def test_a_job_ends_well_when_the_run_is_complete_and_not_if_more_is_asked_for(place: Place) -> None:
    place.program("mpirun", WORKS)
    words = JOBS / "train.slurm", *WORDS, "--out=my run.h5"
    code, said = place.run(*words, **SLURM)
    assert code == 0 and info(place.folder / "my run.h5")["complete"] is True, said
    assert place.log.read_text() == "" and not (place.folder / "my run.h5.starts").exists()
    place.program("mpirun", "exit 1")  # it cannot start
    code, said = place.run(*words, "--set", "run.generations=9", **SLURM)
    assert (code, place.log.read_text()) == (0, "requeue 77\n"), said


@pytest.mark.slow
def test_a_launcher_that_says_all_is_well_does_not_make_a_run_complete(place: Place) -> None:
    place.program("mpirun", "exit 0")
    code, said = place.train()
    assert (code, place.log.read_text()) == (0, "requeue 77\n"), said
    done("train", *WORDS, "--out", place.folder / "run.h5")
    more = place.write_list(["ees-mpi", "train", *WORDS, "--generations", "9", *OUT])
    task = {**TASK, "SLURM_ARRAY_TASK_ID": "1"}
    step = {"SLURM_STEP_NUM_TASKS": "4"}  # of a shell of srun from which the job was submitted
    assert place.run(JOBS / "train.slurm", *WORDS, *OUT, **SLURM, **step)[0] == 0  # complete
    for words, code in (("--seed", "5"), 2), (("--generations", "9"), 0):  # another run; more
        assert place.train(*words)[0] == code
    assert place.log.read_text() == 2 * "requeue 77\n"
    assert place.run(JOBS / "array.slurm", more, **task)[0] == 0 and "requeue 70_1" in place.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "reason", "requeued"),
    [("SIGNALING", "None", True), ("COMPLETING", "TimeLimit", True), ("COMPLETING", "None", False)],
)
def test_a_cancelled_job_does_not_go_back_into_the_queue(place: Place, state: str, reason: str, requeued: bool) -> None:
    place.job_is(state, reason)
    place.program("mpirun", "kill -TERM $PPID; exit 1")
    code, said = place.train()
    assert (code == 0, place.log.read_text() != "") == (requeued, requeued), said


@pytest.mark.slow
def test_a_job_that_cannot_work_is_not_started_again(place: Place) -> None:
    place.program("mpirun", "exit 2")
    assert (place.train()[0], place.log.read_text()) == (2, "")
    code, said = place.run(JOBS / "train.slurm", *WORDS, **SLURM)
    assert code == 2 and "expected --out RUN.h5" in said


@pytest.mark.slow
def test_three_starts_in_a_row_without_a_new_generation_end_the_job(place: Place) -> None:
    place.program("mpirun", "exit 75")  # also if each was stopped by the time limit
    codes = [place.train(SLURM_RESTART_COUNT=str(count))[0] for count in (0, 1, 2)]
    assert codes == [0, 0, 1] and place.log.read_text() == 2 * "requeue 77\n"
    assert place.train()[0] == 0  # submitted again, it has new chances


def test_a_job_whose_starts_cannot_be_counted_ends(place: Place) -> None:
    place.program("mpirun", "exit 1")
    (place.folder / "run.h5.starts").mkdir()
    code, said = place.train(SLURM_RESTART_COUNT="1")
    assert (code, place.log.read_text()) == (1, ""), said


@pytest.mark.slow
def test_a_job_that_gets_on_between_failures_is_not_given_up(place: Place) -> None:
    place.program("mpirun", "exit 1")
    for count in range(4):
        place.program("ees-mpi", f'echo \'{{"generations": {count}, "complete": false}}\'')
        code, said = place.train(SLURM_RESTART_COUNT=str(count))
        assert code == 0, said
    assert place.log.read_text() == 4 * "requeue 77\n"


@pytest.mark.slow(long=True)
def test_the_signal_before_the_limit_reaches_the_ranks_and_the_next_start_has_the_same_bits(place: Place) -> None:
    slow = ("task.settings.how=mark", "task.settings.at=5", "task.settings.seconds=0.15")
    words = breaking(place.folder / "stopped.h5", 0, *slow, 'task.settings.mark="waits"')[2:]
    # Tells the script once the ranks wait; mpirun and the ranks are real.
    place.program("told", "until [ -e waits ]; do kill -0 $1 || exit; read -t 0.05 <> <(:); done; kill -USR1 $1")
    place.program("mpirun", f'[ -e told ] || (touch told; exec told $PPID) &\nexec {MPIRUN} -n 2 "$@"')
    code, said = place.run(JOBS / "train.slurm", *words, **SLURM)
    assert (code, place.log.read_text()) == (0, "requeue 77\n") and "the time limit is near" in said, said
    assert info(place.folder / "stopped.h5")["complete"] is False
    code, said = place.run(JOBS / "train.slurm", *words, **SLURM, SLURM_RESTART_COUNT="1")
    assert code == 0, said
    whole = place.folder / "whole.h5"
    assert ees(*breaking(whole, 0, "task.settings.how=none")[1:]).returncode == 0
    assert_same_bits(place.folder / "stopped.h5", whole)


@pytest.mark.slow
def test_a_task_of_an_array_runs_its_line_and_puts_itself_back_into_the_queue_and_not_the_array(place: Place) -> None:
    place.program("mpirun", WORKS)
    quoted = [*WORDS, "--set", "run.folder='a b'"]
    lines = [["ees-mpi", "train", *WORDS, "--seed", str(seed), "--out", f"my runs/{seed}.h5"] for seed in range(3)]
    listed = place.write_list(*lines, ["ees-mpi", "train", *quoted, "--out", "no.h5"], [*lines[0], "--overwrite"])
    code, said = place.run(JOBS / "array.slurm", listed, **TASK)
    assert code == 0 and info(place.folder / "my runs" / "2.h5")["seed"] == 2, said
    assert [path.name for path in (place.folder / "my runs").iterdir()] == ["2.h5"]
    code, said = place.run(JOBS / "array.slurm", listed, **{**TASK, "SLURM_ARRAY_TASK_ID": "4"})
    assert code == 2 and "run.folder" in said, said  # the config is wrong: its words arrived whole
    code, said = place.run(JOBS / "array.slurm", listed, **{**TASK, "SLURM_ARRAY_TASK_ID": "6"})
    assert code == 2 and "line 6" in said, said
    place.program("mpirun", "exit 75")
    code, said = place.run(JOBS / "array.slurm", listed, **{**TASK, "SLURM_ARRAY_TASK_ID": "1"})
    assert (code, place.log.read_text()) == (0, "requeue 70_1\n"), said


@pytest.mark.slow
def test_a_task_of_an_array_makes_other_files_once(place: Place) -> None:
    place.program("mpirun", f"echo launched >>{place.log}\n{WORKS}")
    lines = [["ees-mpi", "train", *WORDS, *OUT], ["ees-mpi", "sample", "run.h5", "--count", "4", "--out", "s.h5"]]
    listed = place.write_list(*lines)
    for task in ("1", "2", "2"):
        code, said = place.run(JOBS / "array.slurm", listed, **{**TASK, "SLURM_ARRAY_TASK_ID": task})
        assert code == 0, said
    assert place.log.read_text() == 2 * "launched\n" and (place.folder / "s.h5").exists()


def test_a_measurement_that_is_longer_than_the_time_limit_is_not_begun_again(place: Place) -> None:
    # Tells the script once it catches the signal, number 10; waits in short steps, because bash ends a step before it
    # looks at a signal that came before it.
    catches = "grep -q 'SigCgt:.*[2367abef]..$' /proc/$PPID/status"
    step = "read -t 0.05 <> <(:)"
    tell = f"until {catches}; do {step}; done; kill -USR1 $PPID; while kill -0 $PPID; do {step}; done"
    place.program("mpirun", f"trap 'exit 138' USR1; {tell}")
    listed = place.write_list(["ees-mpi", "measure", "run.h5", "--out", "m.h5"])
    code, said = place.run(JOBS / "array.slurm", listed, **{**TASK, "SLURM_ARRAY_TASK_ID": "1"})
    assert (code, place.log.read_text()) == (1, "") and "more time or ranks" in said, said


def test_maml_is_adapted_to_both_sides_when_its_training_is_complete(place: Place) -> None:
    place.program("ees-mpi", '[ -e trained ] && echo \'{"generations": 3, "complete": true}\'')
    launches = f'echo "$3 $4 $5" >>{place.log}; [ "$4" != train ] || {{ shift 4; touch trained; }}'
    said_by = ["ees-mpi train own.toml", *2 * ["ees-mpi adapt own-seed3.h5"]]
    for program, queued in (launches, ["requeue 70_3"]), (f'{launches}; touch "own-seed3-adapt-$7.h5"', []):
        place.log.write_text("")
        place.program("mpirun", program)
        code, said = place.run(JOBS / "maml.slurm", "own.toml", **TASK)
        assert code == 0 and place.log.read_text().splitlines() == said_by + queued, said


def option(words: list[str], name: str) -> str:
    """Return the value of an option; empty if it is not given."""
    return words[words.index(name) + 1] if name in words else ""


@cache
def plan(*words: str) -> list[list[str]]:
    """Return the commands of the plan of the paper, in words."""
    return [shlex.split(line) for line in done(PAPER / "plan.py", *words).stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("words", [["runs"], ["runs", "--scale", "tiny"], ["first"]])
def test_every_run_of_the_plan_has_a_config_that_can_be_read_and_a_start_that_comes_before_it(words: list[str]) -> None:
    made: set[str] = set()
    for line in plan(*words):
        if line[1] == "train":
            configs.load(line[2], [line[place + 1] for place, word in enumerate(line) if word == "--set"])
        start = option(line, "--from") or ("" if line[1] == "train" else line[2])
        assert not start or start in made
        made.add(option(line, "--out"))
    assert len(made) == len(plan(*words))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_noise")
def test_scaling_keeps_its_points_names_failed_ones_and_draws_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{place.folder}/bin:{BIN}", prepend=os.pathsep)
    monkeypatch.chdir(place.folder)
    place.program("mpirun", f"echo launched >>{place.log}\n{WORKS}")  # one rank, whatever -n says
    small = shlex.split("--engine mujoco --steps 3 --each 2 --total 2 --generations 2 --repeat 1")
    small += ["--set", "task.hidden=[4,4]", "--set", "noise.size=5000"]
    first = ees(JOBS / "scaling.py", "-n", "2", *small)
    said = first.stderr
    assert first.returncode == 1 and "failed: weak, 2 ranks" in said, said
    assert "expected 2 ranks, but the run had 1" in said, said
    runs = place.folder
    found = json.loads((runs / "scaling.json").read_text())
    rows = [(row["kind"], row["ranks"], row["repetitions"]) for row in found["summary"]]
    assert rows == [("strong", 1, 1), ("weak", 1, 1)]
    assert all(len(point["seconds"]) == 2 and point["steps"] == [6, 6] for point in found["points"])
    assert {path.name for path in runs.glob("scaling*")} == {"scaling.json", "scaling.log", "scaling.png"}
    place.log.write_text("")
    again = ees(JOBS / "scaling.py", "-n", "1", *small)
    assert (again.returncode, place.log.read_text()) == (0, ""), again.stderr  # nothing is missing
    told = scaling.options(["-n", "1", *small, "--repeat", "2", "--minutes", "1e-9"])
    missing = [point for point in scaling.wanted(told) if not scaling.is_done(point, found["points"])]
    assert scaling.measure_all(told, missing, found) == (2, [])  # the time is over: both are left
    with pytest.raises(ValueError, match="steps: 3 there, 4 here"):
        scaling.begin(scaling.options([*small, "--steps", "4"]))
