"""The scripts in tools/: what they say before they change something."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.program import CHECKOUT

COMMAND = '#!/bin/sh\necho "$0 $@" >>calls\n'


@pytest.mark.parametrize("made", ["by the user", "by tools/test"])
def test_the_tests_say_that_they_install_into_an_environment_that_is_there(tmp_path: Path, made: str) -> None:
    if not (CHECKOUT / "tools" / "setup.sh").exists():
        pytest.skip("needs a checkout")
    for name in ("pyproject.toml", "tools/setup.sh", "tools/constraints.txt", "tools/mpirun.env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    for name in (".venv/bin/python", ".venv/bin/pip", "bin/chromedriver"):  # stand-ins, which note their calls
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{COMMAND}# {tmp_path}/.venv/bin/python\n")
        (tmp_path / name).chmod(0o755)
    if made == "by tools/test":
        (tmp_path / ".venv" / "ready-test").write_text("an older version")
    words = ["bash", "-ec", ". tools/setup.sh test"]
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "pip install" in (tmp_path / "calls").read_text() and "tools: installing into .venv" in said.stdout
    assert ("the environment that you work in" in said.stdout) is (made == "by the user")


def test_the_quickstart_counts_its_runs_and_says_what_it_leaves_on_the_disk(tmp_path: Path) -> None:
    script = CHECKOUT / "tools" / "quickstart"
    if not script.exists():
        pytest.skip("needs a checkout")
    (tmp_path / "tools").mkdir()
    shutil.copy(script, tmp_path / "tools" / "quickstart")
    (tmp_path / "tools" / "setup.sh").write_text("export PATH=$PWD/bin:$PATH\n")
    (tmp_path / "bin").mkdir()
    for name in ("mpirun", "ees-mpi", "python"):
        (tmp_path / "bin" / name).write_text(COMMAND)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "runs" / "quickstart").mkdir(parents=True)
    (tmp_path / "runs" / "quickstart" / "maxvar-0.h5").touch()
    said = subprocess.run([tmp_path / "tools" / "quickstart"], capture_output=True, text=True, check=True).stdout
    resumed = [line for line in (tmp_path / "calls").read_text().splitlines() if line.endswith(" --resume")]
    assert len(resumed) == 1 and "maxvar-0.h5" in resumed[0]  # the others begin, without a note that there is no file
    counted = [line for line in said.splitlines() if line.startswith("run ")]
    assert [line.split(":")[0] for line in counted] == [f"run {number} of 6" for number in range(1, 7)]
    assert re.search(r"^disk: [\d.]+[KM]? in runs/quickstart, .*delete: rm -r runs/quickstart$", said, re.MULTILINE), (
        said
    )
