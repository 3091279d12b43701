"""`ees-mpi jobs`: the list of the job scripts, and their copies."""

import shutil
from pathlib import Path

from support.program import CHECKOUT, done, refused

JOBS = CHECKOUT / "jobs"
FILES = [path for path in (*JOBS.iterdir(), *(JOBS / "examples").rglob("*")) if path.is_file()]
SCRIPTS = {str(path.relative_to(JOBS)) for path in FILES if "__pycache__" not in path.parts}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_job_script_is_listed_with_a_sentence() -> None:
    lines = [line.split(maxsplit=1) for line in done("jobs").stdout.splitlines()]
    assert {words[0] for words in lines} == SCRIPTS and all(len(words) == 2 for words in lines)
    assert all(sentence[0].isalpha() for _, sentence in lines)  # also of a notebook, which begins with a brace


def test_job_scripts_are_copied_and_a_second_copy_brings_back_a_lost_one(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "jobs"
    done("jobs", "--copy", folder)
    expected = {name: (CHECKOUT / "jobs" / name).read_bytes() for name in SCRIPTS}
    assert contents(folder) == expected
    assert (folder / "scaling.py").stat().st_mode & 0o111 and not (folder / "README.md").stat().st_mode & 0o111
    (folder / "train.slurm").unlink()
    done("jobs", "--copy", folder)
    assert contents(folder) == expected


def test_a_changed_script_is_not_replaced_and_nothing_is_copied(inside: Path) -> None:
    shutil.copy(CHECKOUT / "jobs" / "array.slurm", inside)
    (inside / "train.slurm").write_text("edited")
    code, said = refused("jobs", "--copy", ".")
    assert code == 2 and "version: train.slurm;" in said and "array.slurm" not in said
