"""A short form of tools/fuzz.py: one damage of each kind, from a fixed seed."""

import subprocess
import sys

from support.program import CHECKOUT


def test_damaged_files_give_the_right_bits_or_a_refusal() -> None:
    words = ["--cases", "60", "--seed", "suite", "--without", "options", "--patience", "120"]  # other programs may run
    found = subprocess.run([sys.executable, CHECKOUT / "tools" / "fuzz.py", *words], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
