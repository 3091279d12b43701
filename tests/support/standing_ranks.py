"""Ranks that run one command after the other: one mpirun serves many tests, because its start takes most of their time.

mpirun runs `python standing_ranks.py FOLDER`; rank 0 reads commands from stdin, and tells the others.
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO

from ees_mpi.ranks import process
from support.program import MPIRUN, SESSIONS, environment, forget_modules, here


class StandingRanks:
    """The ranks of one mpirun, as seen by a test."""

    def __init__(self, size: int):
        self._folder, self._size = Path(SESSIONS.name, f"ranks{size}"), size
        self._folder.mkdir()
        for rank in range(1, size):
            os.mkfifo(self._folder / f"to{rank}")
        os.mkfifo(self._folder / "done")
        self._done = os.open(self._folder / "done", os.O_RDWR)  # a reader and a writer: it never ends
        self._said = (self._folder / "said").open("w+")
        words = [MPIRUN, "-n", str(size), sys.executable, __file__, str(self._folder)]
        env = environment(EES_OWNER=str(os.getpid()))
        self._mpirun = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=self._said, stderr=self._said, text=True, env=env
        )

    def run(self, *words: str) -> CompletedProcess[str]:
        """Run `ees-mpi WORDS`, or the program WORDS, on all ranks; return the code of rank 0 and all output."""
        assert self._mpirun.stdin
        print(json.dumps([os.getcwd(), _variables(), words]), file=self._mpirun.stdin, flush=True)
        left = self._size
        while left and self._mpirun.poll() is None:
            if select.select([self._done], [], [], 0.5)[0]:
                left -= len(os.read(self._done, left))
        answers = [self._folder / f"answer{rank}" for rank in range(self._size)]
        outside = (self._folder / "said").read_text()
        assert all(answer.exists() for answer in answers) and not outside, f"{words} ended the ranks: {outside}"
        codes, outs, errors = zip(*(json.loads(answer.read_text()) for answer in answers), strict=True)
        for answer in answers:
            answer.unlink()
        assert set(codes[1:]) <= {0}, codes  # or mpirun would kill the other ranks
        return CompletedProcess(words, codes[0], "".join(outs), "".join(errors))

    def ask_to_end(self) -> None:
        if self._mpirun.poll() is None and self._mpirun.stdin:
            print(file=self._mpirun.stdin, flush=True)

    def await_end(self) -> None:
        self._mpirun.communicate()
        os.close(self._done)
        self._said.close()


def end_all(standing: list[StandingRanks]) -> None:
    """End all mpiruns that stand ready, side by side."""
    for ranks in standing:
        ranks.ask_to_end()
    for ranks in standing:
        ranks.await_end()


def _end_with_owner(owner: int) -> None:
    """End this rank if the process of the tests was killed: mpirun does not pass the end of stdin on."""
    while os.path.exists(f"/proc/{owner}"):
        time.sleep(1)
    os._exit(1)


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("EES_", "XDG_"))}


def serve(folder: Path) -> None:
    """Run the commands of a test on this rank until there are no more."""
    threading.Thread(target=_end_with_owner, args=(int(os.environ.pop("EES_OWNER")),), daemon=True).start()
    process.await_root = lambda: sys.exit(0) if rank else ""  # mpirun would end this rank
    rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    others: list[IO[str]] = []
    source = sys.stdin if rank == 0 else (folder / f"to{rank}").open()
    if rank == 0:
        others = [(folder / f"to{number}").open("w") for number in range(1, size)]
    for line in source:  # mpirun does not pass the end of stdin on: an empty line says it
        for other in others:
            print(line, end="", file=other, flush=True)
        if not line.strip():
            break
        place, variables, words = json.loads(line)
        os.chdir(place)
        for name in _variables().keys() - variables:
            del os.environ[name]
        os.environ.update(variables)
        done = here(*words)
        forget_modules()
        (folder / f"answer{rank}").write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
        (folder / "done").write_text(".")


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
