"""The order of the package."""

import subprocess
import sys

from support.program import CHECKOUT


def test_the_package_keeps_to_its_map_and_its_limits() -> None:
    words = [sys.executable, str(CHECKOUT / "tools" / "structure.py")]
    counted = subprocess.run(words, capture_output=True, text=True)
    assert counted.returncode == 0, counted.stdout + counted.stderr
