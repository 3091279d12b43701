"""What is done to the job, a row of the table each."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import job

# Instants of a rank's own death, by who can die so: any rank; the one that writes.
ANYBODY = ("a gather", "a rollout")
WRITER = ("a commit", "telling of a commit", "a fold")


@dataclass
class Trial:
    """A job under way, and what disturbs it."""

    out: Path
    process: "subprocess.Popen[bytes]"
    chance: random.Random
    generations: int  # of the whole run
    committed: int = 0  # generations that a reader saw just before
    undo: list[Callable[[], None]] = field(default_factory=list)

    def under_way(self) -> None:
        """Wait for a random generation of the first half, however fast the machine is, and a moment longer."""
        some = self.chance.randint(1, max(1, self.generations // 2))
        job.until(lambda: job.count(self.out) >= some or self.process.poll() is not None)
        time.sleep(self.chance.uniform(0.0, 0.02))
        self.committed = job.count(self.out)

    def ranks(self) -> list[int]:
        """The processes of the ranks, the first one first."""
        found = job.rank_processes(self.out)
        return [found[rank] for rank in sorted(found)]


@dataclass(frozen=True)
class Row:
    """One kind of disturbance."""

    what: str
    disturb: Callable[[Trial], None]
    codes: tuple[int, ...]  # with which the job may end; never as if nothing had been, unless it went on
    ulfm: bool = False
    stall: bool = False  # whether the stall limit is short
    deaths: Callable[[random.Random, int], list[dict[str, Any]]] = lambda chance, ranks: []
    needs: Callable[[], str] = lambda: ""  # why it cannot be tried here


def signal_one(number: int) -> Callable[[Trial], None]:
    """Send a signal to one rank, the first one every other time."""

    def disturb(trial: Trial) -> None:
        trial.under_way()
        ranks = trial.ranks()
        job.kill([ranks[0] if trial.chance.random() < 0.5 else trial.chance.choice(ranks)], number)

    return disturb


def signal_all(number: int) -> Callable[[Trial], None]:
    """Send a signal to every process of the job."""

    def disturb(trial: Trial) -> None:
        trial.under_way()
        job.kill(job.processes(trial.out), number)

    return disturb


def signal_mpirun(trial: Trial) -> None:
    """Send USR1 to mpirun, which passes it on to all ranks."""
    trial.under_way()
    trial.process.send_signal(signal.SIGUSR1)


def kill_some(trial: Trial) -> None:
    """Kill one to three ranks, never all, the first one every other time."""
    trial.under_way()
    ranks = trial.ranks()
    number = trial.chance.randint(1, min(3, len(ranks) - 1))
    victims = trial.chance.sample(ranks, number)
    if trial.chance.random() < 0.5:
        victims[0] = ranks[0]
    for pid in dict.fromkeys(victims):
        job.kill([pid])
        time.sleep(trial.chance.choice((0.0, 0.0, 0.01, 1.0)))


def deaths(chance: random.Random, ranks: int) -> list[dict[str, Any]]:
    """Choose one to three ranks and the instants of their deaths: the writer's, its successor's, anybody's."""
    plan = []
    for number in range(chance.randint(1, min(3, ranks - 1))):
        writer = chance.random() < 0.5
        where = chance.choice(WRITER if writer else ANYBODY)
        rank = number if writer else chance.randrange(ranks)
        calls = chance.randint(1, 3) if where == "a fold" else chance.randint(2, 40)
        plan.append({"rank": rank, "where": where, "after": calls})
    if chance.random() < 0.25:
        plan.append({"rank": ranks - 1, "where": "a recovery", "after": 1})
    hit = {death["rank"] for death in plan}
    return plan if len(hit) < min(4, ranks) else plan[:2]


def watch_die(trial: Trial) -> None:
    """Let the ranks die by themselves, as arranged."""
    trial.under_way()


def fill_disk(trial: Trial) -> None:
    """Fill the file system under the run file."""
    trial.under_way()
    filler = trial.out.with_name("filler")
    trial.undo.append(lambda: filler.unlink(missing_ok=True))
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def make_read_only(trial: Trial) -> None:
    """Let nothing be made or renamed any more where the run file is; what is open stays open."""
    trial.under_way()
    folder = str(trial.out.parent)
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    trial.undo.append(lambda: subprocess.run(["umount", folder], check=True) and None)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)


def mounts() -> str:
    """Say what keeps file systems from being mounted here."""
    if os.getuid() != 0:
        return "needs root"
    return "" if shutil.which("unshare") and _can_mount() else "needs the right to mount"


def _can_mount() -> bool:
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(probe, capture_output=True).returncode == 0


KILLED = (137,)
ENDED = (1,)
ROWS = {
    "kill-one": Row("SIGKILL of one rank", signal_one(signal.SIGKILL), KILLED),
    "kill-all": Row("SIGKILL of everything", signal_all(signal.SIGKILL), (-9,)),
    "ulfm-random": Row("SIGKILL of 1 to 3 ranks, ULFM", kill_some, (0,), ulfm=True, stall=True),
    "ulfm-instant": Row(
        "1 to 3 ranks die in a gather, rollout, commit or fold, ULFM", watch_die, (0,), True, True, deaths
    ),
    "term": Row("SIGTERM of one rank", signal_one(signal.SIGTERM), (75,)),
    "usr1": Row("USR1 of one rank", signal_one(signal.SIGUSR1), (75,)),
    "usr1-mpirun": Row("USR1 of mpirun", signal_mpirun, (75,)),
    "stop": Row("SIGSTOP of one rank", signal_one(signal.SIGSTOP), ENDED, stall=True),
    "stop-ulfm": Row("SIGSTOP of one rank, ULFM", signal_one(signal.SIGSTOP), ENDED, ulfm=True, stall=True),
    "disk-full": Row("disk full", fill_disk, (3,), needs=mounts),
    "read-only": Row("file made read-only", make_read_only, (3,), needs=mounts),
}
