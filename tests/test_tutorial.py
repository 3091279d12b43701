"""The page on Python and the notebook run; the five-line script has the bits of the command."""

import json
import re
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from support.program import CHECKOUT, done, info, run, sets

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


@pytest.mark.slow
def test_all_examples_of_the_page_run_and_the_first_has_the_bits_of_the_command(tmp_path: Path) -> None:
    done("train", "interference-maxent", *sets("run.generations=20", "population.size=100"), "--out", tmp_path / "c.h5")
    command = str(info(tmp_path / "c.h5")["state_sha256"])
    assert len(list(filter(None, BLOCKS[0].splitlines()))) <= 5  # ruff puts an empty line after the import
    check = "assert [step for step, _ in logged] == list(range(10)) and logged[-1][1]['entropy']"
    said = execute("\n".join([WANDB, *BLOCKS, check]), tmp_path).stdout
    assert said.count(command) == 1 and info(tmp_path / "run.h5")["state_sha256"] == command
    assert info(tmp_path / "throw.h5")["generations"] == 12 and info(tmp_path / "early.h5")["complete"] is False
    assert (tmp_path / "run-sample.h5").exists() and len(BLOCKS) > 5


def cells() -> list[dict[str, Any]]:
    """Return the code cells of the notebook."""
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


@pytest.mark.slow(long=True)
def test_the_notebook_runs_and_shows_the_effect(tmp_path: Path) -> None:
    code = ["".join(cell["source"]) for cell in cells()]
    assert len(code) > 5 and not any(line.startswith(("%", "!")) for cell in code for line in cell.splitlines())
    fewer = "\n".join(code)
    for many, few in (
        ("cheetah, 16", "cheetah, 2"),
        ("count=8", "count=2"),
        ("in range(40)", "in range(20)"),
        ("(0.002, 0.02, 0.1)", "(0.02, 0.1)"),
        ('"--mutations", "6"', '"--mutations", "2"'),
        ('"--seconds", "4"', '"--seconds", "2"'),
        ('"--size", "480x240"', '"--size", "160x80"'),
        (
            'bullet = {"task.engine": "bullet"}',
            'bullet = {"task.engine": "bullet", "task.steps": 50, "noise.size": 1_000_000}',
        ),
        ('"size": 100, "std": 0.1}', '"size": 40, "std": 0.1}'),
        ('record="points.h5")', 'record="points.h5", config={"noise": {"size": 1_000_000}})'),
    ):
        assert fewer.count(many) == 1
        fewer = fewer.replace(many, few)  # rollouts of the cheetah and large noise tables take most of the time
    effect = """
assert (x < 0).any() and (x > 0).any() and film.n_frames > 30
assert (spread[-1] > 2 * spread[0]).all()
first, aimed = own["behavior"][0].std(0), own["behavior"][-1].std(0)
assert aimed[0] > 2 * first[0] > aimed[1]
import torch
assert torch.get_num_threads() == 2  # although a call, which allows one thread, loaded it
"""
    said = execute(fewer + effect, tmp_path).stdout
    assert "15 generations; new ones:" in said


def test_the_notebook_stores_the_outputs_of_one_whole_execution_and_no_path_of_a_machine() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 400_000 and not re.search(r"/(home|root|tmp|work|Users|usr|opt)/", text)
    assert [cell["execution_count"] for cell in cells()] == [1 + k for k in range(len(cells()))]
    outputs = [output for cell in cells() for output in cell["outputs"]]
    assert all(cell["outputs"] for cell in cells()) and not [o for o in outputs if o["output_type"] == "error"]
    assert len([output for output in outputs if "image/png" in output.get("data", {})]) == 2
