"""One run, killed and resumed again and again: at random, in commits, in folds, while starting."""

import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import job

MOMENTS = ("at random", "in a commit", "in a fold", "in a commit", "in a fold", "while starting")
TARGETS = ("the job", "one rank")


def await_moment(
    moment: str, out: Path, committed: int, process: "subprocess.Popen[bytes]", chance: random.Random
) -> None:
    """Return at the moment to kill, or when the job has ended by itself."""
    journal, folding = Path(f"{out}.journal"), Path(f"{out}.folding")
    if moment == "while starting":
        time.sleep(chance.uniform(0.1, 1.5))
        return
    job.until(lambda: job.count(out) > committed or process.poll() is not None)
    time.sleep(chance.uniform(0.0, 1.0))
    size = _size(journal)
    if moment == "in a commit":
        job.until(lambda: _size(journal) != size or process.poll() is not None)
    if moment == "in a fold":
        job.until(lambda: folding.exists() or process.poll() is not None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def kill(target: str, out: Path, chance: random.Random) -> None:
    """Kill with SIGKILL: everything, or one rank, whose launcher must then end the others."""
    pids = job.processes(out)
    ranks = list(job.rank_processes(out).values())
    job.kill([chance.choice(ranks)] if target == "one rank" and ranks else pids)


def torment(out: Path, ranks: int, generations: int, kills: int, chance: random.Random) -> Counter[str]:
    """Start and kill the job until it has been killed often enough; return what was done how often."""
    done: Counter[str] = Counter()
    committed = 0
    while sum(done.values()) < kills:
        line = job.words(out, ranks, generations)
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(line, stdout=quiet, stderr=quiet, env=job.environment(out.parent))
        moment, target = MOMENTS[sum(done.values()) % len(MOMENTS)], chance.choice(TARGETS)
        await_moment(moment, out, committed, process, chance)
        if process.poll() is not None:
            raise SystemExit(f"chaos: the job ended by itself with {process.returncode}; give it more --generations")
        kill(target, out, chance)
        if not job.ended(out, process):
            raise SystemExit(f"chaos: the job hung after a kill {moment}")
        done[f"SIGKILL of {target}, {moment}"] += 1
        kept = job.count(out)
        if kept < committed:
            raise SystemExit(f"chaos: {committed} generations were committed, and {kept} are left")
        if kept == committed and moment != "while starting":
            raise SystemExit(f"chaos: nothing was committed before the kill {moment}")
        committed = kept
    return done
