"""What a rank asks of the file system until a run of two ranks has ended, counted by strace.

A call counts if it names a file: every one of them is a question to the server of a shared file system, also if the
answer is that there is no such file. The first rows are what a rank cannot do without: Python, numpy, MPI.

Options: --preset ant-maxent.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mpirun import MPIRUN, environment

SMALL = ("population.size=4", "run.generations=1", "noise.size=200000")
MPI = "import os; os.environ['OMPI_MCA_osc'] = '^ucx'; from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
CODE = {"Python": "", "and numpy": "import numpy", "and MPI": f"import numpy; {MPI}"}


def calls(trace: Path) -> tuple[int, int]:
    """Return the calls that name a file, and how many of them opened one."""
    named = [line for line in trace.read_text().splitlines() if re.search(r'\w\(.*"[^"]+"', line)]
    return len(named), sum(bool(re.search(r"\bopen(at)?\(.* = \d+$", line)) for line in named)


def traced(*program: str) -> list[tuple[int, int]]:
    """Return the calls of each of two ranks."""
    with tempfile.TemporaryDirectory() as folder:
        shell = f'exec strace -f -qq -e trace=%file -o {folder}/$OMPI_COMM_WORLD_RANK$PMI_RANK "$@"'
        words = [MPIRUN, "-n", "2", "sh", "-c", shell, "sh", *program]
        subprocess.run(words, cwd=folder, env=environment(), check=True, stdout=subprocess.DEVNULL)
        return [calls(Path(folder, str(rank))) for rank in range(2)]


def main(words: list[str]) -> None:
    """Print the calls, for both ranks."""
    parser = argparse.ArgumentParser(prog="tools/bench.py start")
    parser.add_argument("--preset", default="ant-maxent")
    preset = parser.parse_args(words).preset
    if not shutil.which("strace"):
        raise SystemExit("tools/bench.py start: expected strace (Debian: apt install strace)")
    settings = [word for setting in SMALL for word in ("--set", setting)]
    program = str(Path(sys.executable).with_name("ees-mpi"))
    parts = {name: [sys.executable, "-c", code] for name, code in CODE.items()}
    parts["the run"] = [program, "train", preset, *settings, "--out", "run.h5"]
    print("                  calls   opened, on rank 1 (rank 0)")
    for name, words in parts.items():
        (calls0, opened0), (calls1, opened1) = traced(*words)
        print(f"{name:12} {calls1:10} {opened1:8}      ({calls0}, {opened0})")
