"""The command as a user meets it: what it says, its exit codes, and that nothing is harmed."""

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support.breaking import breaking
from support.program import TIMEOUT, TINY, command, done, ees, environment, info, refusal, sets
from support.run_files import edited

from ees_mpi.__main__ import TOGETHER
from ees_mpi.cli import echo, files, running
from ees_mpi.terminal import show_any_character

SETS = sets(*TINY)


def test_train_says_what_it_does_and_info_tells_it(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    done = ees("train", "interference-maxvar", *SETS, "--seed", 3, "--out", out, ranks=0)
    assert done.returncode == 0 and "generation 6/6" in done.stdout and "complete" in done.stdout
    facts = info(out)
    numbers = {"format_version": 5, "population_size": 20, "parameters": 1, "generations": 6, "seed": 3, "ranks": 1}
    expected = {**numbers, "task": "interference", "objective": "maxvar", "complete": True, "evaluations": 120}
    assert {key: facts[key] for key in expected} == expected and facts["steps"] == 120
    assert len(str(facts["state_sha256"])) == 64
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]


@pytest.mark.standing_ranks
def test_a_wrong_config_or_command_line_is_told_once_by_all_ranks_together(tmp_path: Path) -> None:
    for words in (["--set", "population.size=501"], ["--nonsense"]):
        assert refusal("train", "interference-maxvar", *words, "--out", tmp_path / "run.h5", ranks=2)[0] == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.standing_ranks
def test_a_command_that_only_prints_does_so_once_under_mpirun(finished: Path, tmp_path: Path) -> None:
    for words in (["info", finished], ["config", "interference-maxvar"], ["docs"], ["train", "--help"], ["--version"]):
        assert done(*words, ranks=2).stdout == done(*words).stdout != ""
    assert refusal("info", tmp_path / "absent.h5", ranks=2)[0] == 3


def test_resume_refuses_another_config_and_names_the_key(finished: Path, copied: Path) -> None:
    again = ["train", "interference-maxvar", *SETS, "--out", copied, "--resume"]
    code, line = refusal(*again, "--set", "optimizer.lr=0.5")
    assert code == 2 and "optimizer.lr is 0.03 in the file and 0.5 now" in line
    code, line = refusal("resume", copied, "--generations", 3)
    assert code == 2 and "--generations 3: " in line and "has 6 already" in line
    fewer = [*again, "--set", "run.generations=3"]
    code, line = refusal(*fewer)
    assert code == 2 and "run.generations = 3: " in line and "has 6 already" in line
    assert copied.read_bytes() == finished.read_bytes()
    assert ees(*again).returncode == 0


def test_verify_passes_on_a_sound_file_and_fails_on_a_changed_one(finished: Path, copied: Path) -> None:
    done = ees("verify", finished)
    assert done.returncode == 0 and "the same bits" in done.stdout
    assert "generations 5: the same bits" in ees("verify", copied, "--generation", -1).stdout
    with edited(copied) as file:
        file["generations/behavior"][5, 4, 0] += 1e-15
    code, line = refusal("verify", copied)
    assert code == 1 and "individual 4 of generation 5" in line and "has changed" in line


def test_one_blas_thread_whatever_the_shell_says() -> None:
    program = """
import os, sys
from ees_mpi import machine
machine.pin_threads()
machine.check_threads()
import threadpoolctl
print({pool["num_threads"] for pool in threadpoolctl.threadpool_info()})
"""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "8", "OMP_NUM_THREADS": "8"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.stdout == "{1}\n", done.stderr


@pytest.mark.standing_ranks
def test_a_start_that_fails_leaves_the_existing_file_as_it_is(finished: Path, copied: Path) -> None:
    words = ("train", "interference-maxvar", "--set", "noise.size=1000000000000", "--out", copied, "--overwrite")
    for ranks in (None, 2):
        assert refusal(*words, ranks=ranks)[0] == 2
        assert copied.read_bytes() == finished.read_bytes()


def test_a_finished_run_is_not_touched_by_resume(finished: Path, tmp_path: Path, copied: Path) -> None:
    done = ees("resume", copied)
    assert done.returncode == 0 and "complete" in done.stdout
    assert copied.read_bytes() == finished.read_bytes() and list(tmp_path.iterdir()) == [copied]


@pytest.mark.slow
def test_a_closed_or_full_stdout_does_not_end_the_training(tmp_path: Path) -> None:
    for name, redirection in {"head": "| head -1", "full": "> /dev/full"}.items():
        out = tmp_path / f"{name}.h5"
        words = " ".join(map(str, command("train", "interference-maxvar", *SETS, "--out", out)))
        subprocess.run(
            ["bash", "-c", f"{words} {redirection}"], env=environment(), timeout=TIMEOUT, capture_output=True
        )
        assert info(out)["complete"], name


def test_a_page_for_a_closed_or_full_stdout_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    files.docs.main(["glossary"], standalone_mode=False)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as nobody:  # after the end of `head`
        monkeypatch.setattr(sys, "stdout", nobody)
        for _ in range(2):
            echo("a line of a table, before the figures are drawn")
    with open("/dev/full", "wb", 0) as full, pytest.raises(OSError, match=r"No space left on device: 'stdout'"):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=True))
        echo("a page")


def test_output_to_a_closed_stream_does_not_get_into_the_journal(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    words = shlex.join(breaking(out, 0, "task.settings.how=shout", "task.settings.at=7"))
    subprocess.run(["bash", "-c", f"{words} >&- 2>&-"], env=environment(), timeout=TIMEOUT)
    assert Path(f"{out}.journal").exists() and info(out)["damage"] is None
    json.loads(Path(f"{out}.lock").read_text())


def test_characters_that_stdout_does_not_have_are_printed_by_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal := io.TextIOWrapper(io.BytesIO(), "latin-1", write_through=True))
    show_any_character()
    print("größe \u65e5")
    assert terminal.buffer.getvalue() == b"gr\xf6\xdfe \\u65e5\n"


def test_the_other_ranks_wait_for_just_the_commands_that_run_on_all_ranks() -> None:
    assert {each.name for each in vars(running).values() if isinstance(each, click.Command)} == {*TOGETHER}
