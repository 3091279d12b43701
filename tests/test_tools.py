"""The scripts in tools/: what they do and say."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.program import CHECKOUT

COMMAND = '#!/bin/sh\necho "$0 $@" >>calls\n'
pytestmark = pytest.mark.skipif(not (CHECKOUT / "tools" / "setup.sh").exists(), reason="needs a checkout")


def stand_in(file: Path, text: str = "") -> None:
    """Write a command that notes its call."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(COMMAND + text)
    file.chmod(0o755)


@pytest.mark.parametrize("torch", ["at hand", "with CUDA", "nowhere"])
def test_the_set_up_takes_a_small_torch_or_says_what_comes_or_goes_on_without_it(tmp_path: Path, torch: str) -> None:
    for name in ("pyproject.toml", "tools/setup.sh", "tools/mpirun.env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    (tmp_path / "tools" / "constraints.txt").write_text("pybullet==3.2.7\ntorch==2.13.0\n")
    beside = f"# {tmp_path}/.venv/bin/python\n"
    stand_in(tmp_path / ".venv/bin/python", f'{beside}case "$*" in *urllib*) exit 1 ;; esac\n')  # no index answers
    missing = {"at hand": "nothing", "with CUDA": "*+cpu", "nowhere": "*torch==*"}[torch]
    stand_in(tmp_path / ".venv/bin/pip", f'{beside}case "$*" in {missing}) exit 1 ;; esac\n')
    stand_in(tmp_path / "bin/chromedriver")
    words = ["bash", "-ec", ". tools/setup.sh test"]
    path = f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tried, last = [line for line in (tmp_path / "calls").read_text().splitlines() if "pip install" in line][-2:]
    assert tried.endswith(" torch==2.13.0" + "+cpu" * (torch == "at hand"))
    assert (",torch" in last) == (torch != "nowhere") == ("tests will be skipped" not in done.stderr)
    assert ("about 5 GB" in done.stdout) is (torch != "at hand")


def test_the_tests_say_their_options_and_run_nothing() -> None:
    said = subprocess.run([CHECKOUT / "tools" / "test", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--cluster" in said and "passed" not in said and "installing" not in said
