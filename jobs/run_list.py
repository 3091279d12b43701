#!/usr/bin/env python3
"""Run a list of `ees-mpi` commands on this machine, several at a time, and show their progress in one table.

    ees-mpi sweep cheetah-maxent --seeds 0-5 >seeds.list
    run_list.py seeds.list -j 2                  two at a time, each on half of the cores
    run_list.py seeds.list -j 4 --minutes 24     on a GPU that is lent for half an hour; run it again to continue
    run_list.py seeds.list --status              prints the finished and the missing work

A line is a command that writes a file with --out, such as train, sample or adapt. A line that reads the file of another
line waits for it. Finished work is skipped, and an interrupted training is resumed. A command that fails is tried again
until three starts in a row bring no new generation; it does not end the others. The output of NAME.h5 goes to
logs/NAME.log beside it. EES_LAUNCH is the command that starts the ranks [mpirun --bind-to none]. NVIDIA's MPS is
started if the machine has it, so that the runs share the GPU.

Exit codes: 0 all is done; 1 something failed, and is named; 2 the list is wrong; 75 work is left.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ees_mpi import config as configs
from ees_mpi.errors import ConfigError, EesError
from ees_mpi.store.reader import open_run

COLLECT = Path(__file__).resolve().parent / "paper" / "results.py"
CORES = int(os.environ.get("SLURM_NTASKS") or len(os.sched_getaffinity(0)))
STARTS = 3  # in a row without a new generation
LEAST = 60  # seconds that must be left for a new command
TABLE, CHANGED = 60, 5  # seconds between two tables; after a change
GRACE = 45  # seconds that a command gets to save its state
STOPPED = 75  # the exit code of a command that was stopped and saved


@dataclass
class Work:
    """One line of the list."""

    words: list[str]  # ees-mpi, command, ...
    needs: set[Path] = field(default_factory=set)  # files of other lines that it reads
    starts: int = 0  # since the last new generation

    @cached_property
    def out(self) -> Path:
        """The file that it makes."""
        return Path(option(self.words, "--out") or option(self.words, "-o"))

    @cached_property
    def wanted(self) -> int:
        """The number of generations of a training; otherwise 1."""
        if self.words[1] != "train":
            return 1
        settings = [word for before, word in zip(self.words, self.words[1:], strict=False) if before == "--set"]
        given = option(self.words, "--generations")
        return int(given) if given else configs.parse(configs.read_source(self.words[2]), settings).run.generations

    def reached(self, results: Path | None) -> int:
        """Return the number of committed generations; 1 for another command whose file exists.

        A result in a folder of small files, from another machine, counts as complete.
        """
        if results and self.words[1] == "adapt" and (results / "adaptations" / f"{self.out.stem}.json").exists():
            return 1
        about = results / self.out.stem / "run.json" if results else None
        small = int(json.loads(about.read_text())["generations"]) if about and about.exists() else 0
        if self.words[1] != "train":
            return int(self.out.exists() or small > 0)
        return max(small, generations(self.out))


def option(words: Sequence[str], name: str) -> str:
    """Return the value of an option; empty if it is not given."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name or word.startswith(f"{name}="):
            return following if word == name else word.partition("=")[2]
    return ""


def generations(path: Path) -> int:
    """Return the number of committed generations of a run file; 0 if it does not exist or cannot be read."""
    if not path.exists():
        return 0
    try:
        with open_run(path) as run:
            return run.generations
    except EesError as error:
        print(f"note: {error}", file=sys.stderr)
        return 0


def read(lines: Sequence[str], results: Path | None) -> list[Work]:
    """Return the work of a list; a start that only a folder of small files has is read from there."""
    work: dict[Path, Work] = {}
    for line in lines:
        each = Work(shlex.split(line, comments=True))
        if not each.words:
            continue
        if each.words[0] != "ees-mpi" or len(each.words) < 3 or each.out == Path():
            raise ConfigError(f"{line.strip()[:200]}: expected `ees-mpi train|sample|adapt ... --out FILE.h5`")
        if each.words != work.setdefault(each.out, each).words:
            raise ConfigError(f"{each.out}: two different lines of the list write this file")
    for each in work.values():
        for place, word in enumerate(each.words):
            name, at, generation = word.rpartition("=")[2].partition("@")
            if word == str(each.out) or Path(name) == each.out:
                continue
            small = results / Path(name).stem / "policy.npz" if results and name.endswith(".h5") else None
            if small and small.exists() and not Path(name).exists():
                each.words[place] = word.replace(name + at + generation, str(small))
            elif Path(name) in work:
                each.needs.add(Path(name))
    return list(work.values())


@dataclass
class Running:
    """A command in progress."""

    work: Work
    process: subprocess.Popen[bytes]
    begun: float
    before: int  # generations at its start
    collecting: bool = False  # it makes the small files of the finished run
    told: bool = False  # to save its state and stop


@dataclass
class Runner:
    """Starts work while there is room and time, and counts what became of it."""

    options: argparse.Namespace
    waiting: list[Work]
    used: set[Path]  # files that lines of the list read
    folder: str  # for the temporary files of MPI
    running: list[Running] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    stopped: int = 0
    finished: int = 0
    asked: bool = False  # to stop

    def stopping(self) -> bool:
        """Return whether no new work may begin."""
        return self.asked or time.monotonic() > self.options.ends - LEAST

    def ready(self) -> Work | None:
        """Return the first work whose files are there; work that needs a failed file fails."""
        unfinished = {each.out for each in [*self.waiting, *(one.work for one in self.running)]}
        for each in list(self.waiting):
            if missing := next((path for path in each.needs if path in self.failed), None):
                self.waiting.remove(each)
                self.failed[each.out] = f"{missing}, which it reads, is not complete"
            elif not each.needs & unfinished:
                return each
        return None

    def start(self, work: Work) -> None:
        """Start the ranks of a command."""
        words = [*shlex.split(os.environ.get("EES_LAUNCH", "mpirun --bind-to none")), "-n", str(self.options.ranks)]
        words += work.words
        if work.words[1] == "train":
            words += ["--resume"]
            if self.options.ends < float("inf"):
                words += ["--max-hours", f"{max(self.options.ends - time.monotonic(), 10) / 3600:.4f}"]
        work.starts += 1
        self.launch(work, words)

    def launch(self, work: Work, words: Sequence[str], collecting: bool = False) -> None:
        """Start a process that belongs to some work; its output goes to a log."""
        logs = work.out.parent / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        # A killed mpirun leaves a folder named after its process id, which would stop a later one.
        env = {**os.environ, "TMPDIR": tempfile.mkdtemp(dir=self.folder)}
        if "SLURM_JOB_ID" not in env:  # more ranks than cores are slow, but not an error
            env.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        with (logs / f"{work.out.stem}.log").open("a") as log:
            files = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            process = subprocess.Popen(words, **files, env=env, start_new_session=True)
        self.running.append(Running(work, process, time.monotonic(), work.reached(None), collecting))

    def end(self, one: Running) -> None:
        """Note how a command ended; try it again, or collect its small files."""
        self.running.remove(one)
        code, work = one.process.returncode, one.work
        log = work.out.parent / "logs" / f"{work.out.stem}.log"
        if one.collecting:
            self.finished += 1
            if code:
                self.failed[Path(f"{work.out} (small files)")] = f"exit code {code}; see {log}"
            return
        reached = work.reached(None)
        work.starts = 0 if reached > one.before else work.starts
        if code == 0 and reached >= work.wanted:  # mpirun may return 0 although a node was lost
            if self.options.collect:
                words = [sys.executable, str(COLLECT), "collect", str(work.out), "--note", machine(self.options)]
                words += ["--policy"] if work.out in self.used else []
                self.launch(work, [*words, "--results", str(self.options.collect)], collecting=True)
            else:
                self.finished += 1
        elif code == STOPPED or self.asked:
            self.stopped += 1
        elif code == 2 or work.starts >= STARTS:
            self.failed[work.out] = f"exit code {code}; see {log}"
        else:
            self.waiting.insert(0, work)

    def stop(self, *_: Any) -> None:
        """Begin no new work; the loop tells every command, also one that is being started just now."""
        self.asked = True
        self.options.ends = min(self.options.ends, time.monotonic())

    def loop(self) -> None:
        """Work until nothing is left, or the time is over."""
        shown, changed = 0.0, True
        while self.running or (self.waiting and not self.stopping()):
            while not self.stopping() and len(self.running) < self.options.places and (work := self.ready()):
                self.waiting.remove(work)
                self.start(work)
                changed = True
            for one in [one for one in self.running if one.process.poll() is not None]:
                self.end(one)
                changed = True
            now = time.monotonic()
            if now > self.options.ends and not self.asked:
                self.stop()
            for one in self.running if self.asked else ():
                if not (one.told or one.collecting):
                    one.told = True
                    one.process.send_signal(signal.SIGUSR1)  # mpirun passes it on to the ranks, which save and stop
            for one in self.running if now > self.options.ends + GRACE else ():
                one.process.kill() if now > self.options.ends + 2 * GRACE else one.process.terminate()
            if now > shown + (CHANGED if changed else TABLE):
                shown, changed = now, False
                print("\n".join(self.table()), flush=True)
            time.sleep(0.2)

    def table(self) -> list[str]:
        """Return the lines of the table of progress."""
        minutes = max(self.options.ends - time.monotonic(), 0) / 60
        left = f", {minutes:.1f} min left" if self.options.ends < float("inf") else ""
        lines = [
            f"-- {time.strftime('%H:%M:%S')}  {self.finished} done, {len(self.running)} running, "
            f"{len(self.waiting)} waiting, {len(self.failed)} failed{left}"
        ]
        for one in self.running:
            what = "small files" if one.collecting else one.work.words[1]
            if what == "train":
                what = f"generation {generations(one.work.out)}/{one.work.wanted}"
            lines.append(f"   {one.work.out.stem:48} {what}, {time.monotonic() - one.begun:.0f} s")
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


def machine(options: argparse.Namespace) -> str:
    """Return the machine in words, for the small files."""
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True).stdout if shutil.which(query[0]) else ""
    cores = f"{options.ranks} ranks on {os.cpu_count()} {platform.machine()} cores"
    return ", ".join([*found.splitlines(), cores, f"{options.places} runs at a time"])


def main() -> int:
    """Do all work of the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, help="a file with one command per line")
    parser.add_argument("-j", dest="places", type=int, default=1, help="commands at a time [%(default)s]")
    parser.add_argument("--ranks", type=int, help="ranks of each command [the cores, divided by -j]")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument("--results", type=Path, help="a folder of small files; the work that it has is done")
    parser.add_argument("--collect", type=Path, help="make the small files of finished runs in this folder")
    parser.add_argument("--status", action="store_true", help="print the finished and the missing work only")
    options = parser.parse_args()
    if options.places < 1 or (options.ranks or 1) < 1 or (options.minutes or 1) <= 0:
        parser.error("-j, --ranks, --minutes: expected positive numbers")
    if options.collect and not COLLECT.exists():
        parser.error("--collect: only a checkout has the script that makes small files")
    options.ranks = options.ranks or max(1, CORES // options.places)
    options.ends = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    try:
        work = read(options.list.read_text().splitlines(), options.results)
        reached = [each.reached(options.results) for each in work]
        missing = [(each, count) for each, count in zip(work, reached, strict=True) if count < each.wanted]
    except (ConfigError, OSError, ValueError) as error:
        print(f"run_list.py: {options.list}: {error}", file=sys.stderr)
        return 2
    if options.status:
        print(f"{len(work) - len(missing)} done, {len(missing)} missing, {sum(reached)} generations")
        for each, count in missing:
            print(f"   {each.out.stem:48} {each.words[1]}{f' {count}/{each.wanted}' if each.wanted > 1 else ''}")
        return 0
    used = set().union(*(each.needs for each in work))
    with tempfile.TemporaryDirectory(prefix="ees-", ignore_cleanup_errors=True) as folder, shared_gpu():
        runner = Runner(options, [each for each, _ in missing], used, folder)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, runner.stop)
        runner.loop()
    print("\n".join(runner.table()))
    for path, reason in runner.failed.items():
        print(f"failed: {path.stem}: {reason}", file=sys.stderr)
    if runner.failed:
        return 1
    if runner.waiting or runner.stopped:
        print("work is left. Run the same command again to continue")
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
