"""Submitting job scripts to the sandbox and looking at what becomes of them."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from support.program import BIN, CHECKOUT, TESTS, environment, info

SANDBOX = CHECKOUT / "tools" / "slurm_sandbox"
CONF = Path("/etc/slurm/slurm.conf")


def call(*words: object) -> str:
    """Run one of SLURM's commands, or the sandbox's, and return what it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@contextmanager
def sandbox_up() -> Iterator[None]:
    """Start the sandbox for a block; end it afterwards, also if it does not start, unless it was running before."""
    was_up = CONF.exists()
    try:
        call(SANDBOX, "up")
        yield
    finally:
        if not was_up:
            call(SANDBOX, "down")


class Site:
    """A user's folder on the sandbox: the job scripts, edited in the two lines that say they want it."""

    def __init__(self, folder: Path):
        self.folder, self.out = folder, folder / "run.h5"
        jobs = shutil.copytree(CHECKOUT / "jobs", folder / "jobs", ignore=shutil.ignore_patterns("pictures", "results"))
        for script in jobs.rglob("*.slurm"):
            edit(script)

    def submit(self, *words: object, **more: str) -> str:
        """`sbatch WORDS` from the user's folder; return the job's number."""
        return call_in(self.folder, "sbatch", "--parsable", *words, **more).strip()

    def output(self) -> str:
        """What all jobs have said so far."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.out")))


def edit(script: Path) -> None:
    """Write the account and the partition into a job script, as a user does."""
    text, lines = re.subn(r"=your-(account|partition)\n", lambda m: f"={LOCAL[m[1]]}\n", script.read_text())
    assert lines == 2
    script.write_text(text)


LOCAL = {"account": "research", "partition": "main"}
GOING = {"SIGNALING", "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED"}


def call_in(folder: Path, *words: object, **more: str) -> str:
    """Run a command as a user with the environment activated, in a folder."""
    path = {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(TESTS)}
    env = environment(**{**path, **more})
    line = [str(word) for word in words]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def facts(job: str) -> list[dict[str, str]]:
    """What SLURM knows of a job: a dict for each of its tasks."""
    lines = call("scontrol", "show", "job", "-o", job).splitlines()
    return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines if line]


def until(happened: Callable[[], object], seconds: float, site: Site | None = None) -> None:
    """Look again and again until something has happened; fail with the jobs' own words."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, (
            f"waited {seconds} s in vain\n{call('squeue')}\n{site.output() if site else ''}"
        )
        time.sleep(0.2)


def await_requeue(job: str, site: Site, seconds: float = 90) -> None:
    """Wait until a job, or one task of it, has been put back into the queue."""
    until(lambda: any(task["Restarts"] != "0" for task in facts(job)), seconds, site)


def await_end(job: str, site: Site, seconds: float = 300) -> None:
    """Wait until all tasks of a job have come to a good end."""
    until(lambda: not GOING & set(hurried(job)), seconds, site)
    assert set(hurried(job)) == {"COMPLETED"}, site.output()


def await_failure(job: str, site: Site, seconds: float = 120) -> str:
    """Wait until a job has come to a bad end by itself, without a second life; return its exit code."""
    until(lambda: facts(job)[0]["JobState"] == "FAILED", seconds, site)
    assert facts(job)[0]["Restarts"] == "0", site.output()
    return facts(job)[0]["ExitCode"]


def begun(out: Path) -> bool:
    """True if a file has a generation."""
    return out.exists() and bool(info(out)["generations"])


def hurried(job: str) -> list[str]:
    """The states of a job's tasks; one back in the queue is spared the two minutes that SLURM would let it wait."""
    for task in facts(job):
        later = datetime.now() + timedelta(seconds=10)
        waits = task["Reason"] == "BeginTime" and datetime.fromisoformat(task["EligibleTime"]) > later
        # Without cgroups, the srun by which mpirun had reached a lost node lives on, and ends the step of its number.
        if waits and subprocess.run(["pgrep", "-x", "srun"], stdout=subprocess.DEVNULL).returncode:
            # Not at once: a second life that starts in the second in which the first one ends is refused.
            call("scontrol", "update", f"JobId={task['JobId']}", "StartTime=now+4")
    return [task["JobState"] for task in facts(job)]


def ranks_of(out: Path) -> list[int]:
    """The processes that train a file, the launcher not among them; those of the last node last."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if str(out).encode() in words and b"python" in words[0]:
                found.append((os.readlink(entry / "ns/uts"), int(entry.name)))
        except OSError:
            continue  # gone meanwhile
    return [pid for _, pid in sorted(found)]
