"""The page on Python and the tutorial run as they are; the five-line script has the bits of the command."""

import json
import re
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support.program import CHECKOUT, MPIRUN, done, info, run, sets

PAGE = (CHECKOUT / "ees_mpi" / "docs" / "python.md").read_text(encoding="utf-8")
NOTEBOOK = CHECKOUT / "jobs" / "examples" / "tutorial.ipynb"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
WANDB = """
import sys, types
import ees_mpi
assert callable(ees_mpi.train) and "numpy" not in sys.modules
logged = []
sys.modules["wandb"] = types.SimpleNamespace(init=dict, log=lambda numbers, step: logged.append((step, numbers)))
"""


def execute(program: str, folder: Path, *launcher: str) -> CompletedProcess[str]:
    """Run a program in a folder; warnings are errors. In the process, `__main__` is the program, as in a notebook."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    words = ["env", "-C", str(folder), *launcher, sys.executable, "-W", "error", "program.py"]
    ended = run(words, MPLBACKEND="agg", OMP_NUM_THREADS="2")
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The state of the run that the command makes for the first example of the page."""
    out = tmp_path_factory.mktemp("command") / "run.h5"
    done("train", "interference-maxent", *sets("run.generations=20", "population.size=100"), "--out", out)
    return info(out)["state_sha256"]


@pytest.mark.slow
def test_the_five_lines_have_the_bits_of_the_command_under_mpirun(command: str, tmp_path: Path) -> None:
    assert len(BLOCKS[0].strip().splitlines()) <= 5
    said = execute(BLOCKS[0], tmp_path, MPIRUN, "-n", "2").stdout
    assert said.count(command) == 2 and info(tmp_path / "run.h5")["ranks"] == 2


@pytest.mark.slow
def test_all_examples_of_the_page_run_and_the_five_lines_have_the_bits_of_the_command(
    command: str, tmp_path: Path
) -> None:
    check = "assert [step for step, _ in logged] == list(range(10)) and logged[-1][1]['entropy']"
    said = execute("\n".join([WANDB, *BLOCKS, check]), tmp_path).stdout
    assert said.count(command) == 1 and info(tmp_path / "run.h5")["state_sha256"] == command
    assert info(tmp_path / "throw.h5")["generations"] == 12 and info(tmp_path / "early.h5")["complete"] is False
    assert (tmp_path / "run-sample.h5").exists() and len(BLOCKS) > 5


@pytest.mark.slow
def test_the_tutorial_runs_and_shows_the_effect(tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5 and not any(line.startswith(("%", "!")) for cell in code for line in cell.splitlines())
    effect = """
first, last, aimed = run["behavior"][0].std(0), run["behavior"][-1].std(0), own["behavior"][-1].std(0)
assert (last > 2 * first).all() and aimed[0] > 2 * first[0] > aimed[1]
import torch
assert torch.get_num_threads() == 2  # although a call, which allows one thread, loaded it
"""
    said = execute("\n".join([*code, effect]), tmp_path).stdout
    assert "15 generations; new ones:" in said


def test_the_tutorial_stores_no_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    kept = [cell for cell in cells if cell.get("outputs") or cell.get("execution_count") is not None]
    assert kept == []
