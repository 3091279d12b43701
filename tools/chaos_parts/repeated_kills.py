"""One run that is killed and resumed many times: at random, in a commit, in a fold, while starting."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from chaos_parts import job

MOMENTS = ("at random", "in a commit", "in a fold", "while starting", "in a commit", "in a fold")  # in turn
TARGETS = ("the job", "one rank")


def await_moment(
    moment: str, out: Path, committed: int, process: "subprocess.Popen[bytes]", chance: random.Random
) -> None:
    """Return at the moment of the kill, or when the job has ended without one."""
    if moment == "while starting":
        _await_start(out, process, chance)
        return
    job.until(lambda: job.count(out) > committed or process.poll() is not None, job.PAUSE)
    time.sleep(chance.uniform(0.0, 0.4))  # the journal is folded about every 0.2 s
    journal, folding = Path(f"{out}.journal"), Path(f"{out}.folding")
    before = job.changed(journal)
    if moment == "in a commit":
        job.until(lambda: job.changed(journal) != before or process.poll() is not None)
    if moment == "in a fold":
        job.until(lambda: folding.exists() or process.poll() is not None)


def _await_start(out: Path, process: "subprocess.Popen[bytes]", chance: random.Random) -> None:
    """Return after a random time, or as soon as the job locks its file, writes it, or begins a journal."""
    name = chance.choice(("", ".lock", ".folding", ".journal"))
    if not name:
        time.sleep(chance.uniform(0.1, 1.5))
        return
    signs = (Path(f"{out}{name}"), Path(f"{out}.journal"))  # a file without new records is not written again
    before = [job.changed(sign) for sign in signs]
    job.until(lambda: [job.changed(sign) for sign in signs] != before or process.poll() is not None)


def kill(target: str, out: Path, chance: random.Random) -> None:
    """Send SIGKILL to the whole job, or to one rank: mpirun must then end the others."""
    pids = job.processes(out)
    ranks = list(job.rank_processes(out).values())
    job.kill([chance.choice(ranks)] if target == "one rank" and ranks else pids)


def kill_repeatedly(
    out: Path, ranks: int, generations: int, kills: int, chance: random.Random, moments: Sequence[str] = MOMENTS
) -> Counter[str]:
    """Start and kill the job `kills` times, at these moments in turn; return how often each kind of kill was done."""
    done: Counter[str] = Counter()
    committed = 0
    while sum(done.values()) < kills:
        line = job.words(out, ranks, generations)
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(line, stdout=quiet, stderr=quiet, env=job.environment(out.parent))
        moment, target = moments[sum(done.values()) % len(moments)], chance.choice(TARGETS)
        await_moment(moment, out, committed, process, chance)
        if process.poll() is not None:
            raise SystemExit(f"chaos: the job ended first, with code {process.returncode}; use more --generations")
        kill(target, out, chance)
        if not job.ended(out, process):
            raise SystemExit(f"chaos: the job hung after SIGKILL {moment}")
        done[f"SIGKILL of {target}, {moment}"] += 1
        kept = job.count(out)
        if kept < committed:
            raise SystemExit(f"chaos: {committed} generations were committed, and {kept} are left")
        if kept == committed and moment != "while starting":
            raise SystemExit(f"chaos: no generation was committed before the kill {moment}")
        committed = kept
    return done
