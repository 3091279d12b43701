"""A job of many ranks loses a rank, and then its launcher: it must end, leave no process, and resume the same bits.

tools/thousand.py kill RANKS [FOLDER [STEP ...]]     steps: alone, rank, launcher, resume; all without a name
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mpirun
import thousand

CONFIG = Path(__file__).with_name("sleeping.toml")
SETTINGS = ("population.size=512", "task.parameters=100", "noise.size=100000", "run.generations=8")
STEPS = ("alone", "rank", "launcher", "resume")
LIMIT = 220.0  # seconds of a step


def main(words: list[str]) -> None:
    """Take the steps, and print one line for each."""
    ranks, folder, *steps = [*words, *([tempfile.mkdtemp()] if len(words) < 2 else [])]
    job = Job(int(ranks), Path(folder))
    actions: dict[str, Callable[[], str]] = {
        "alone": lambda: job.train("alone.h5", 1),
        "rank": lambda: job.disturbed("a rank", lambda launcher, ranks: ranks[len(ranks) // 2]),
        "launcher": lambda: job.disturbed("the launcher", lambda launcher, ranks: launcher),
        "resume": job.resume,
    }
    for step in steps or STEPS:
        print(f"{step}: {actions[step]()}", flush=True)


class Job:
    """The run files of a folder."""

    def __init__(self, ranks: int, folder: Path):
        self.ranks, self.folder = ranks, folder

    def command(self, name: str, ranks: int) -> list[str]:
        """Return the command that begins or continues a run."""
        sets = [word for setting in SETTINGS for word in ("--set", setting)]
        program = [
            sys.executable,
            "-m",
            "ees_mpi",
            "train",
            str(CONFIG),
            *sets,
            "--resume",
            "-o",
            str(self.folder / name),
        ]
        return [mpirun.MPIRUN, "-n", str(ranks), *program]

    def train(self, name: str, ranks: int) -> str:
        """Train to the end; return the digest of the state."""
        subprocess.run(self.command(name, ranks), env=thousand.environment(), check=True, capture_output=True)
        return self.info(name)["state_sha256"]

    def info(self, name: str) -> dict[str, str]:
        """Return what `ees-mpi info` says."""
        words = [sys.executable, "-m", "ees_mpi", "info", str(self.folder / name), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, env=thousand.environment(), check=True)
        found: dict[str, str] = json.loads(done.stdout)
        return found

    def disturbed(self, what: str, victim: Callable[[int, list[int]], int]) -> str:
        """Start all ranks, kill a process after the next commit, and wait until no process is left."""
        begin, journal = time.monotonic(), self.folder / "killed.h5.journal"
        before = journal.stat().st_size if journal.exists() else 0
        output = (self.folder / f"{what.split()[-1]}.log").open("w")
        started = subprocess.Popen(
            self.command("killed.h5", self.ranks), env=thousand.environment(), stdout=output, stderr=output
        )
        wait(lambda: started.poll() is not None or (journal.exists() and journal.stat().st_size > before + 4096))
        if started.poll() is not None:
            raise SystemExit(f"the job ended by itself: {(self.folder / output.name).read_text()[-2000:]}")
        committed, ranks = time.monotonic() - begin, self.processes(started.pid)
        os.kill(victim(started.pid, ranks), signal.SIGKILL)
        killed = time.monotonic()
        code = started.wait(LIMIT)
        wait(lambda: not self.processes(started.pid))
        gone = time.monotonic() - killed
        return (
            f"{len(ranks)} ranks committed {committed:.1f} s after the start; {what} was killed; all processes were "
            f"gone {gone:.1f} s later (exit code {code})"
        )

    def processes(self, launcher: int) -> list[int]:
        """Return the ranks that run: all processes with the name of the run file, but the launcher."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if str(self.folder / "killed.h5").encode() in words and b"mpirun" not in words[0] and state != "Z":
                found.append(int(folder.name))
        return sorted(pid for pid in found if pid != launcher)

    def resume(self) -> str:
        """Continue to the end on other ranks; compare the bits."""
        begun = self.info("killed.h5")["generations"]
        digest, expected = self.train("killed.h5", 3), self.info("alone.h5")["state_sha256"]
        if digest != expected:
            raise SystemExit(f"expected the state {expected}, got {digest}")
        return f"from generation {begun} on 3 ranks to the end: {digest}, the same as alone"


def wait(until: Callable[[], bool]) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + LIMIT
    while not until():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened for {LIMIT:.0f} s")
        time.sleep(0.2)
