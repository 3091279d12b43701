import subprocess
import sys

import pytest
from support.program import CHECKOUT, TIMEOUT

CHAOS = CHECKOUT / "tools" / "chaos.py"
pytestmark = pytest.mark.slow(long=True)


def test_a_run_killed_again_and_again_ends_with_the_bits_of_an_undisturbed_one() -> None:
    words = [sys.executable, str(CHAOS), "--kills", "4", "--ranks", "2"]  # one of each kind
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kills" in done.stdout and "the same bits" in done.stdout
