"""The disturbances: each is one row of the table."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_parts import job

# The instants at which a rank can kill itself (`self_kill.py`): any rank; the rank that writes the run file.
ANY_RANK = ("a gather", "a rollout")
WRITER = ("a commit", "telling of a commit", "a fold")


@dataclass
class Trial:
    """A running job that is disturbed. Its first rank waits after generation `middle` while the file `gate` exists."""

    out: Path
    process: "subprocess.Popen[bytes]"
    chance: random.Random
    gate: Path
    middle: int  # a random generation of the first half of the run
    committed: int = 0  # generations, counted just before the disturbance
    undo: list[Callable[[], None]] = field(default_factory=list)

    def waiting_ranks(self) -> list[int]:
        """Return the processes of the ranks, in rank order, once the job waits at the gate."""
        job.until(lambda: self.gate.exists() or self.process.poll() is not None, job.PAUSE)
        if not self.gate.exists():
            raise SystemExit(f"chaos: the job ended with code {self.process.returncode} before it was disturbed")
        self.committed = job.count(self.out)
        found = job.rank_processes(self.out)
        return [found[rank] for rank in sorted(found)]

    def continue_a_moment(self) -> None:
        """Let the job continue for a random moment."""
        self.gate.unlink()
        time.sleep(self.chance.uniform(0.0, 0.02))


@dataclass(frozen=True)
class Disturbance:
    """One kind of disturbance, and the exit code that is expected of the job."""

    title: str
    disturb: Callable[[Trial], None]
    code: int
    stall: bool = False  # whether the stall limit is short
    deaths: Callable[[random.Random, int], list[dict[str, Any]]] = lambda chance, ranks: []
    waits: bool = True  # whether the job waits for the disturbance at a random generation
    needs: Callable[[], str] = lambda: ""  # returns why it cannot be tried on this machine


def stop_one(trial: Trial) -> None:
    """Stop one rank; about every other time it is the first one."""
    ranks = trial.waiting_ranks()
    trial.continue_a_moment()
    job.kill([ranks[0] if trial.chance.random() < 0.5 else trial.chance.choice(ranks)], signal.SIGSTOP)


def death(chance: random.Random, ranks: int) -> list[dict[str, Any]]:
    """Choose one rank and the instant of its death; half of the time it is the writer."""
    writer = chance.random() < 0.5
    where = chance.choice(WRITER if writer else ANY_RANK)
    calls = chance.randint(1, 3) if where == "a fold" else chance.randint(2, 40)
    return [{"rank": 0 if writer else chance.randrange(ranks), "where": where, "after": calls}]


def standing(how: str) -> Callable[[random.Random, int], list[dict[str, Any]]]:
    """Choose a rank that stands still in a rollout."""
    return lambda chance, ranks: [{"rank": chance.randrange(ranks), "where": how, "after": chance.randint(2, 40)}]


def let_them_die(trial: Trial) -> None:
    """Wait for the death of a rank, which kills itself as planned."""
    job.until(lambda: trial.process.poll() is not None, job.PAUSE)
    trial.committed = job.count(trial.out)


def fill_disk(trial: Trial) -> None:
    """Fill the file system under the run file."""
    trial.waiting_ranks()
    filler = trial.out.with_name("filler")
    trial.undo.append(lambda: filler.unlink(missing_ok=True))
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    trial.gate.unlink()


def cannot_mount() -> str:
    """Return why no file system can be mounted here; empty if it can."""
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    can = shutil.which("unshare") and subprocess.run(probe, capture_output=True).returncode == 0
    return "" if can and os.getuid() == 0 else "needs root, and permission to mount"


DISTURBANCES = {
    "kill-instant": Disturbance(
        "a rank dies in a gather, rollout, commit or fold", let_them_die, 137, deaths=death, waits=False
    ),
    "stop": Disturbance("SIGSTOP of one rank", stop_one, 1, stall=True),
    "loop": Disturbance("endless loop of one rank", let_them_die, 1, True, standing("loop"), waits=False),
    "lock": Disturbance("one rank sleeps in C with the GIL", let_them_die, 1, True, standing("lock"), waits=False),
    "disk-full": Disturbance("disk full", fill_disk, 3, needs=cannot_mount),
}
