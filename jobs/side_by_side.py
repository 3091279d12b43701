#!/usr/bin/env python3
"""Do a list of work (see worklist.py), several runs at a time, and show their progress in one table.

    side_by_side.py LIST -j 4 --ranks 4 [--minutes 24] [--results FOLDER] [--collect FOLDER]

Each run gets its own mpirun, started by job.sh: it is resumed after a fault, and its output goes to logs/NAME.log
beside its file. A run that fails does not end the others. Work that starts from another run of the list waits for it.
NVIDIA's MPS is started if the machine has it, so that the runs share the GPU. --collect: make small files of finished
runs there.

Exit codes: 0 all is done; 1 something failed, and is named; 75 work is left.
"""

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from worklist import Work, generations, read

JOBS = Path(__file__).resolve().parent
SCRIPT = '. "$0/job.sh" && "$@"'  # runs a function of job.sh
LEAST = 60  # seconds that must be left for a new run
TABLE, CHANGED = 60, 5  # seconds between two tables; if something has begun or ended
GRACE = 45  # seconds that a run gets to save its state
STOPPED = 75  # the exit code of a run that was stopped and saved


@dataclass
class Running:
    """A command in progress."""

    work: Work
    process: subprocess.Popen[bytes]
    log: TextIO
    begun: float
    collecting: bool = False  # it makes the small files of the finished run


@dataclass
class Foreman:
    """Starts work while there is room and time, and keeps the books."""

    places: int
    ranks: int
    ends: float  # on the monotonic clock
    collect: Path | None
    waiting: list[Work]
    used: set[Path]  # files from which work of the list starts
    note: str  # on the machine, for the small files
    running: list[Running] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # by name: the reason
    stopped: set[str] = field(default_factory=set)
    finished: int = 0
    asked: bool = False  # to stop

    @property
    def stopping(self) -> bool:
        """True if no new work may begin."""
        return self.asked or time.monotonic() > self.ends - LEAST

    def ready(self) -> Work | None:
        """Return the first work whose start is there; work without a chance to start fails."""
        unfinished = {each.out for each in [*self.waiting, *(one.work for one in self.running)]}
        for each in list(self.waiting):
            if each.needs in unfinished:
                continue
            if each.needs and (each.needs.stem in self.failed or not each.needs.exists()):
                self.waiting.remove(each)
                self.failed[each.name] = f"{each.needs} is not there, or not complete"
            else:
                return each
        return None

    def start(self, work: Work) -> None:
        """Start a command; its output goes to its log."""
        words = list(work.words)
        if work.kind == "train" and self.ends < float("inf"):
            words += ["--max-hours", f"{max(self.ends - time.monotonic(), 10) / 3600:.4f}"]
        self.launch(work, ["bash", "-c", SCRIPT, str(JOBS), work.kind, *words])

    def launch(self, work: Work, words: Sequence[str], collecting: bool = False) -> None:
        """Start a process that belongs to some work."""
        folder = work.out.parent / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        log = (folder / f"{work.name}.log").open("a")
        env = {**os.environ, "EES_RANKS": str(self.ranks), "EES_GRACE_SECONDS": str(GRACE)}
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
        )
        self.running.append(Running(work, process, log, time.monotonic(), collecting))

    def end(self, one: Running) -> None:
        """Note how a command ended; after a training or another step, collect its small files."""
        self.running.remove(one)
        one.log.close()
        code, work = one.process.returncode, one.work
        if code and not one.collecting and code == STOPPED:
            self.stopped.add(work.name)
        elif code:
            self.failed[work.name + " (small files)" * one.collecting] = (
                f"exit code {code}; see {work.out.parent}/logs/{work.name}.log"
            )
        elif self.collect and not one.collecting:
            words = [sys.executable, str(JOBS / "paper" / "results.py"), "collect", str(work.out), "--note", self.note]
            words += ["--policy"] if work.out in self.used else []
            self.launch(work, [*words, "--results", str(self.collect)], collecting=True)
        else:
            self.finished += 1

    def stop(self, *_: Any) -> None:
        """Ask every command to save its state and stop."""
        self.asked = True
        for one in self.running:
            if not one.collecting:
                one.process.send_signal(signal.SIGUSR1)

    def loop(self) -> None:
        """Work until nothing is left, or the time is over."""
        shown = told = 0.0
        changed = True
        while self.running or (self.waiting and not self.stopping):
            while not self.stopping and len(self.running) < self.places and (work := self.ready()):
                self.waiting.remove(work)
                self.start(work)
                changed = True
            for one in [one for one in self.running if one.process.poll() is not None]:
                self.end(one)
                changed = True
            now = time.monotonic()
            if now > self.ends and not self.asked:
                self.stop()
                told = now
            if told and now > told + 2 * GRACE:
                for one in self.running:
                    os.killpg(one.process.pid, signal.SIGKILL)  # the group that this script has made
            if now > shown + (CHANGED if changed else TABLE):
                shown, changed = now, False
                print("\n".join(self.table()), flush=True)
            time.sleep(0.2)

    def table(self) -> list[str]:
        """Return the lines of the table of progress."""
        left = f", {max(self.ends - time.monotonic(), 0) / 60:.1f} min left" if self.ends < float("inf") else ""
        head = (
            f"{self.finished} done, {len(self.running)} running, {len(self.waiting)} waiting, {len(self.failed)} failed"
        )
        lines = [f"-- {time.strftime('%H:%M:%S')}  {head}{left}"]
        for one in self.running:
            kind = "small files" if one.collecting else one.work.words[1] if one.work.kind == "step" else "generation"
            reached = ""
            if kind == "generation":
                reached = f" {generations(one.work.out) if one.work.out.exists() else 0}/{one.work.wanted}"
            lines.append(f"   {one.work.name:48}{kind}{reached}, {time.monotonic() - one.begun:.0f} s")
        return lines


@contextmanager
def shared_gpu() -> Iterator[None]:
    """Start NVIDIA's MPS if the machine has it and it does not run; stop it at the end if it was started here."""
    control = shutil.which("nvidia-cuda-mps-control")
    started = False
    if control:
        asked = subprocess.run([control], input=b"get_server_list\n", capture_output=True)
        started = asked.returncode != 0 and subprocess.run([control, "-d"], capture_output=True).returncode == 0
        print(f"MPS: {'started' if started else 'runs already' if asked.returncode == 0 else 'could not be started'}")
    try:
        yield
    finally:
        if control and started:
            subprocess.run([control], input=b"quit\n", capture_output=True)


def machine(places: int, ranks: int) -> str:
    """Return the machine in words."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    gpus = (
        subprocess.run(query, capture_output=True, text=True).stdout.split("\n")[:-1] if shutil.which(query[0]) else []
    )
    cores = f"{ranks} ranks on {os.cpu_count()} {platform.machine()} cores"
    return ", ".join([*gpus, cores, f"{places} runs at a time"])


def main() -> int:
    """Do all work of the list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("list", type=Path, help="a file with the list of work")
    parser.add_argument("-j", dest="places", type=int, required=True, help="runs at a time")
    parser.add_argument("--ranks", type=int, required=True, help="ranks of each run")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--results", type=Path, help="a folder of small files; the runs that it has are done")
    parser.add_argument("--collect", type=Path, help="make the small files of finished runs in this folder")
    told = parser.parse_args()
    ends = time.monotonic() + 60 * told.minutes if told.minutes else float("inf")
    work = read(told.list.read_text().splitlines(), told.results)
    used = {each.needs for each in work if each.needs}
    left = [each for each in work if not each.done()]
    foreman = Foreman(told.places, told.ranks, ends, told.collect, left, used, machine(told.places, told.ranks))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, foreman.stop)
    with shared_gpu():
        foreman.loop()
    print("\n".join(foreman.table()))
    for name, reason in foreman.failed.items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    if foreman.failed:
        return 1
    if foreman.waiting or foreman.stopped:
        print("work is left. Run the same command again to continue")
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
