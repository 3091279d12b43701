"""The fingerprint of a machine."""

import subprocess
import sys

from ees_mpi import machine

LOADING_MORE = """
from ees_mpi import machine
machine.pin_threads()
before = machine.fingerprint()
import scipy.linalg, torch
torch.ones(2) @ torch.ones(2)
print(machine.differences(before, machine.fingerprint()))
"""


def test_the_fingerprint_does_not_depend_on_the_libraries_that_happen_to_be_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING_MORE], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr + done.stdout


def test_differences_name_the_keys_on_which_bits_depend_and_no_others() -> None:
    mine = machine.fingerprint()
    other = {**mine, "blas": "another BLAS", "h5py": "0", "cpu": "another CPU"}
    (difference,) = machine.differences(mine, other)
    assert "blas is" in difference and "'another BLAS' there" in difference
