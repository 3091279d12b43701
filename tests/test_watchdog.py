"""A command ends after a signal, also while a library computes and holds the interpreter."""

import signal
import subprocess
import sys

from support.program import TIMEOUT

PROGRAM = """
import itertools, os, signal, sys, time
from ees_mpi import watchdog

watchdog.start(patience=0.2)
saves = sys.argv[1] == "saves"
signal.signal(signal.SIGTERM, lambda number, frame: watchdog.acknowledge() if saves else None)
if saves:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)  # longer than the patience
    print("saved")
else:
    print("computes", flush=True)
    sum(itertools.repeat(0))  # C code that never returns to the interpreter
"""


def test_a_signal_ends_a_library_that_never_returns() -> None:
    words = [sys.executable, "-c", PROGRAM, "computes"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr and process.stdout.readline() == "computes\n"
        process.terminate()
        assert process.wait(TIMEOUT) == -signal.SIGKILL
        assert process.stderr.read() == "ees-mpi: no reaction to SIGTERM for 0.2 s, so the process was killed\n"


def test_a_command_that_saves_its_state_after_a_signal_is_left_alone() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "saves"], capture_output=True, text=True, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "saved\n", "")
