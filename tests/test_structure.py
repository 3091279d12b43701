"""The order of the package."""

import re
import subprocess
import sys

from support.program import CHECKOUT

from ees_mpi.cli.main import cli
from ees_mpi.config import preset_names


def test_the_package_keeps_to_its_map_and_its_limits() -> None:
    words = [sys.executable, str(CHECKOUT / "tools" / "structure.py")]
    counted = subprocess.run(words, capture_output=True, text=True)
    assert counted.returncode == 0, counted.stdout + counted.stderr


def test_what_a_user_meets_is_counted() -> None:
    words = [sys.executable, str(CHECKOUT / "tools" / "structure.py")]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {name.strip(): int(number) for name, number in (re.findall(r"^(.{20}) +(\d+)", line)[0] for line in lines)}
    assert found["commands"] == len(cli.commands) and found["presets"] == len(preset_names())
    assert found["parameters"] > found["commands"] and found["keys"] > 100 and found["kinds of files"] == 6
    assert found["lines"] == sum(count for name, count in found.items() if name.endswith(("/", ".py")))
