"""The order of the package."""

import re
import subprocess
import sys

import pytest
from support.program import CHECKOUT

from ees_mpi.cli.main import cli
from ees_mpi.config import preset_names


@pytest.fixture(scope="module")
def counted() -> "subprocess.CompletedProcess[str]":
    """What the tool says."""
    return subprocess.run([sys.executable, str(CHECKOUT / "tools" / "structure.py")], capture_output=True, text=True)


def test_the_package_keeps_to_its_map_and_its_limits(counted: "subprocess.CompletedProcess[str]") -> None:
    assert counted.returncode == 0, counted.stdout + counted.stderr


def test_what_a_user_meets_is_counted(counted: "subprocess.CompletedProcess[str]") -> None:
    lines = counted.stdout.splitlines()
    found = {name.strip(): int(number) for name, number in (re.findall(r"^(.{20}) +(\d+)", line)[0] for line in lines)}
    assert found["commands"] == len(cli.commands) and found["presets"] == len(preset_names())
    assert found["parameters"] > found["commands"] and found["keys"] > 100 and found["kinds of files"] == 6
    assert found["lines"] == sum(count for name, count in found.items() if name.endswith(("/", ".py")))
