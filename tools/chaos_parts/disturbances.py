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
    size: int  # ranks
    committed: int = 0  # generations, counted just before the disturbance
    undo: list[Callable[[], None]] = field(default_factory=list)

    def ranks(self) -> list[int]:
        """Return the processes of the ranks, in rank order."""
        found = job.rank_processes(self.out)
        return [found[rank] for rank in sorted(found)]

    def waiting_ranks(self) -> list[int]:
        """Return the processes of the ranks, in rank order, once the job waits at the gate."""
        job.until(lambda: self.gate.exists() or self.process.poll() is not None, job.PAUSE)
        if not self.gate.exists():
            raise SystemExit(f"chaos: the job ended with code {self.process.returncode} before it was disturbed")
        self.committed = job.count(self.out)
        return self.ranks()

    def open_gate(self) -> None:
        """Let the job continue."""
        self.gate.unlink()

    def continue_a_moment(self) -> None:
        """Let the job continue for a random moment."""
        self.open_gate()
        time.sleep(self.chance.uniform(0.0, 0.02))


@dataclass(frozen=True)
class Disturbance:
    """One kind of disturbance, and the exit codes that are expected of the job."""

    title: str
    disturb: Callable[[Trial], None]
    codes: tuple[int, ...]  # 0 only where the other ranks continue; none: the job ends or continues
    ulfm: bool = False
    stall: bool = False  # whether the stall limit is short
    deaths: Callable[[random.Random, int], list[dict[str, Any]]] = lambda chance, ranks: []
    waits: bool = True  # whether the job waits for the disturbance at a random generation
    needs: Callable[[], str] = lambda: ""  # returns why it cannot be tried on this machine


def signal_one(number: int) -> Callable[[Trial], None]:
    """Send a signal to one rank; about every other time it is the first one."""

    def disturb(trial: Trial) -> None:
        ranks = trial.waiting_ranks()
        trial.continue_a_moment()
        job.kill([ranks[0] if trial.chance.random() < 0.5 else trial.chance.choice(ranks)], number)

    return disturb


def signal_all(number: int) -> Callable[[Trial], None]:
    """Send a signal to every process of the job."""

    def disturb(trial: Trial) -> None:
        trial.waiting_ranks()
        processes = job.processes(trial.out)
        trial.continue_a_moment()
        job.kill(processes, number)

    return disturb


def signal_mpirun(trial: Trial) -> None:
    """Send USR1 to mpirun, which passes it on to all ranks."""
    trial.waiting_ranks()
    trial.continue_a_moment()
    trial.process.send_signal(signal.SIGUSR1)


def kill_at_start(trial: Trial) -> None:
    """Kill one rank 0.2 to 3 s after all ranks were started: while it imports, in MPI_Init, or soon after."""
    job.until(lambda: len(trial.ranks()) == trial.size or trial.process.poll() is not None, job.PAUSE)
    time.sleep(trial.chance.uniform(0.2, 3.0))
    trial.committed = job.count(trial.out)
    job.kill(trial.chance.sample(trial.ranks(), 1) if trial.process.poll() is None else [])


def kill_some(trial: Trial) -> None:
    """Kill one to three ranks, never all; about every other time the first one is among them."""
    ranks = trial.waiting_ranks()
    trial.continue_a_moment()
    number = trial.chance.randint(1, min(3, len(ranks) - 1))
    chosen = trial.chance.sample(ranks, number)
    if trial.chance.random() < 0.5:
        chosen[0] = ranks[0]
    for pid in dict.fromkeys(chosen):
        job.kill([pid])
        time.sleep(trial.chance.choice((0.0, 0.0, 0.01, 1.0)))


def deaths(chance: random.Random, ranks: int) -> list[dict[str, Any]]:
    """Choose one to three ranks and the instants of their deaths; ranks 0, 1 and 2 may die as writers."""
    plan = []
    for number in range(chance.randint(1, min(3, ranks - 1))):
        writer = chance.random() < 0.5
        where = chance.choice(WRITER if writer else ANY_RANK)
        rank = number if writer else chance.randrange(ranks)
        calls = chance.randint(1, 3) if where == "a fold" else chance.randint(2, 40)
        plan.append({"rank": rank, "where": where, "after": calls})
    if chance.random() < 0.25:
        plan.append({"rank": ranks - 1, "where": "a recovery", "after": 1})
    hit = {death["rank"] for death in plan}
    return plan if len(hit) < min(4, ranks) else plan[:2]


def let_them_die(trial: Trial) -> None:
    """Wait for a random generation; the ranks kill themselves as planned."""
    job.until(lambda: job.count(trial.out) >= trial.middle or trial.process.poll() is not None, job.PAUSE)
    time.sleep(trial.chance.uniform(0.0, 0.02))
    trial.committed = job.count(trial.out)


def fill_disk(trial: Trial) -> None:
    """Fill the file system under the run file."""
    trial.waiting_ranks()
    filler = trial.out.with_name("filler")
    trial.undo.append(lambda: filler.unlink(missing_ok=True))
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    trial.open_gate()


def cannot_mount() -> str:
    """Return why no file system can be mounted here; empty if it can."""
    if os.getuid() != 0:
        return "needs root"
    return "" if shutil.which("unshare") and _can_mount() else "needs permission to mount"


def _can_mount() -> bool:
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(probe, capture_output=True).returncode == 0


KILLED = (137,)
ENDED = (1,)
DISTURBANCES = {
    "kill-one": Disturbance("SIGKILL of one rank", signal_one(signal.SIGKILL), KILLED),
    "kill-all": Disturbance("SIGKILL of all processes", signal_all(signal.SIGKILL), (-9,)),
    "ulfm-random": Disturbance("SIGKILL of 1 to 3 ranks, ULFM", kill_some, (0,), ulfm=True, stall=True),
    "ulfm-instant": Disturbance(
        "1 to 3 ranks die in a gather, rollout, commit or fold, ULFM",
        let_them_die,
        (0,),
        True,
        True,
        deaths,
        waits=False,
    ),
    "ulfm-start": Disturbance(
        "SIGKILL of one rank 0.2 to 3 s after the start, ULFM", kill_at_start, (), True, waits=False
    ),
    "term": Disturbance("SIGTERM of one rank", signal_one(signal.SIGTERM), (75,)),
    "usr1": Disturbance("USR1 of one rank", signal_one(signal.SIGUSR1), (75,)),
    "usr1-mpirun": Disturbance("USR1 of mpirun", signal_mpirun, (75,)),
    "stop": Disturbance("SIGSTOP of one rank", signal_one(signal.SIGSTOP), ENDED, stall=True),
    "stop-ulfm": Disturbance("SIGSTOP of one rank, ULFM", signal_one(signal.SIGSTOP), ENDED, ulfm=True, stall=True),
    "disk-full": Disturbance("disk full", fill_disk, (3,), needs=cannot_mount),
}
