"""One case of tools/fuzz.py: a fresh copy of small files, one damage, one command in a forked process, one verdict."""

import gzip
import hashlib
import importlib
import json
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import sys
import time
import traceback
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from fuzz_parts import policies
from fuzz_parts.catalog import CRAFTED, DAMAGES
from fuzz_parts.damages import SECRET
from fuzz_parts.opens import opened
from fuzz_parts.options import malformed

from ees_mpi.cli import main as cli
from ees_mpi.config import load
from ees_mpi.errors import EesError
from ees_mpi.generation.state import State, first_state
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import open_run
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import open_job, train

LIMIT = 20.0  # seconds of one call: of its CPU time, and of waiting on a machine that is not busy
MEMORY = 6 << 30  # bytes of address space of one call, more than the process that it is forked from has
READING = 1 << 30  # bytes of memory of a command that only reads; files of this tool have less than 10 MB
TINY = ("population.size=20", "noise.size=5000", "run.fsync=false")
SETS = [word for setting in (*TINY, "run.generations=1") for word in ("--set", setting)]
COMMANDS: dict[str, list[str]] = {
    "info": ["info", "run.h5", "--json"],
    "verify": ["verify", "run.h5"],
    "resume": ["resume", "run.h5", "--generations", "13"],
    "repair": ["repair", "run.h5"],
    "sample": ["sample", "run.h5", "--count", "4", "--out", "out.h5"],
    "export": ["export", "run.h5", "--csv", "-o", "out.csv"],
    "train --from": ["train", "interference-maxvar", *SETS, "--from", "run.h5", "--out", "out.h5"],
    "config": ["config", "run.h5"],
    "verify --updates": ["verify", "run.h5", "--updates"],
    "metrics": ["metrics", "run.h5"],
    "watch": ["watch", "run.h5", "--once"],
    "compare": ["compare", "--metric", "distance_mean", "run.h5", "--against", "elsewhere/other.h5"],
    "report": ["report", "run.h5", "-o", "out.html"],
    "figure": ["figure", "interference", "run.h5", "-o", "out.png"],
    "replay": ["replay", "run.h5", "--individual", "3"],
}
# These read arrays whose hashes only `verify` checks, or print no bits that could be compared.
UNCHECKED = ("export csv", "metrics", "watch", "compare", "report", "figure", "replay")
READERS = ("info", "repair", "export", "config", "export csv", "metrics", "watch", "compare", "report", "figure")
VERIFYING = ("verify", "verify --updates", "replay")  # they may find, with exit code 1, that bits differ
ENDED = ("is not finite, and was not committed", "has made no progress")  # with 1: a config that asks for it
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
TEMPLATES = ("sound", "killed", "older")
MAY_OPEN = {"compare": {"other.h5"}}


class Verdict(NamedTuple):
    """The outcome of one case; `fault`: what must not happen, or nothing."""

    outcome: str
    fault: str
    seconds: float
    memory: int = 0  # bytes


class Ended(NamedTuple):
    """The end of a command in a forked process."""

    code: int  # negative: the signal that ended it
    seconds: float  # of CPU time; if it was killed because it hangs, those that passed
    memory: int  # bytes that it took


def preload() -> None:
    """Import what the commands import when they are called, so that each forked process has it already."""
    folders = [f"analysis.{name}" for name in ("watch", "numbers", "report", "figures", "replay")]
    for folder in ("commands", "runs", "store", *folders):
        package = importlib.import_module(f"ees_mpi.{folder}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"ees_mpi.{folder}.{module.name}")


def make_templates(folder: Path, older: Path) -> None:
    """Make a finished run with a state before the last one, a killed run with a journal, and a file of format 2."""
    for name in ("sound", "killed", "older"):
        place = folder / name
        if name == "sound":
            (place / "elsewhere").mkdir(parents=True)
            (place / SECRET).write_bytes(b"private" * 5000)
            _train(place / "elsewhere/other.h5", (6,), 6, False, 1)
            _train(place / "elsewhere/killed.h5", (3, 5), 6, True, 1)
        else:
            shutil.copytree(folder / "sound/elsewhere", place / "elsewhere")
    _train(folder / "sound/run.h5", (3, 6), 6, False)
    _train(folder / "killed/run.h5", (3, 5), 6, True)
    (folder / "older/run.h5").write_bytes(gzip.decompress(older.read_bytes()))
    policies.make(folder / "policy", folder / "sound/elsewhere/other.h5")


def _train(path: Path, stops: tuple[int, ...], wanted: int, killed: bool, seed: int = 0) -> None:
    """Train to each of the stops, and fold before all but the last."""
    config = load("interference-maxvar", [*TINY, f"run.generations={wanted}", f"run.seed={seed}"])
    state = first_state(config)
    writer = RunWriter.create(path, config, state.arrays())
    writer.begin_session(0, 1, 1, {"numpy": "0"})
    for stop in stops:
        part = load("interference-maxvar", [*TINY, f"run.generations={stop}", f"run.seed={seed}"])
        job = open_job(part, Ranks())
        state = train(job, state, writer)
        job.close()
        if stop != stops[-1]:
            writer.fold()
    writer.release() if killed else writer.close()


class References(dict[str, Any]):
    """The answers of the commands on a template before it is damaged; each is computed when it is needed."""

    def __init__(self, folder: Path, template: str):
        super().__init__()
        self._folder, self._template = folder, template

    def __missing__(self, command: str) -> Any:
        place = self._folder / f"reference-{self._template}-{command.replace(' ', '')}"
        shutil.copytree(self._folder / self._template, place)
        words = {**COMMANDS, **policies.COMMANDS}[command]
        if _in_fork(place, words, command, 10 * LIMIT).code:
            raise SystemExit(f"{command} fails on the sound file: {(place / 'stderr').read_text()}")
        self[command] = json.loads((place / "answer").read_text())
        return self[command]


def references(folder: Path) -> dict[str, References]:
    """Return the right answers for each template."""
    return {name: References(folder, name) for name in (*TEMPLATES, "policy")}


def case(
    folder: Path, template: str, kind: str, seed: str, sound: dict[str, References], patience: float = LIMIT
) -> Verdict:
    """Damage a copy of a template, run one command on it, and judge; `patience`: seconds until a call hangs."""
    chance = random.Random(seed)
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / template, place)
    if kind == "options":
        command, words, did = "options", malformed(chance), "options"
    elif kind == "policies":
        command, words, did = policies.damage(place, chance)
    else:
        command = chance.choice(list(COMMANDS))
        words = COMMANDS[command]
        here = os.getcwd()
        os.chdir(place)
        try:
            did = DAMAGES[kind](place, chance)
        finally:
            os.chdir(here)
    before = _contents(place / "elsewhere")
    with opened(place / "elsewhere") as others:
        ended = _in_fork(place, words, command, patience)
    strict = kind not in (*CRAFTED, "options") and template != "older" and command not in UNCHECKED
    if kind == "policies":  # safetensors have no checksums, and a stranger writes the right ones
        strict = did.startswith(("flip", "cut", "zeros")) and not did.endswith(".safetensors")
    if did.startswith("cut") and command not in ("resume", "repair"):
        strict = False  # a cut journal is the same as that of a run that was killed earlier
    outcome, fault = _judge(place, ended, command, sound[template] if strict else None)
    if _contents(place / "elsewhere") != before:
        outcome, fault = "fault", "touched another file"
    named = others if did.endswith(" at run.h5") and kind == "links of paths" else set()  # the user names the link
    if strangers := others - named - MAY_OPEN.get(command, set()):
        outcome, fault = "fault", f"opened {', '.join(sorted(strangers))}"
    if fault:
        errors = (place / "stderr").read_text(errors="replace").strip()[-1500:]
        fault = f"{fault}: seed {seed}, {template}, {kind}: {did}; ees-mpi {' '.join(words)[:200]}\n{errors}"
    return Verdict(outcome, fault, ended.seconds, ended.memory)


def _contents(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in folder.iterdir()
    }


def _in_fork(place: Path, words: list[str], command: str, patience: float) -> Ended:
    """Run a command in a forked process, which is killed if it does not end in time."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(_child(place, words, command))
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        passed = time.monotonic() - start
        if ended:
            cpu = used.ru_utime + used.ru_stime
            before = place / "memory"
            took = max(0, 1024 * used.ru_maxrss - int(before.read_text())) if before.exists() else 0
            return Ended(os.waitstatus_to_exitcode(status), passed if passed > patience else cpu, took)
        if passed > patience:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _memory() -> tuple[int, int]:
    """Return the bytes of address space and of memory of this process."""
    pages = Path("/proc/self/statm").read_text().split()
    return int(pages[0]) * resource.getpagesize(), int(pages[1]) * resource.getpagesize()


def _child(place: Path, words: list[str], command: str) -> int:
    space, memory = _memory()
    (place / "memory").write_text(str(memory))
    resource.setrlimit(resource.RLIMIT_AS, (space + MEMORY, space + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(place)
    os.environ.pop("EES_MPI_TRUST", None)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
    sys.argv = ["ees-mpi", *words]
    code = 99
    try:
        cli.main()
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    if code == 0:
        try:
            answer = _answer(command)
        except BaseException as error:
            answer = {"unreadable": str(error)}
        Path("answer").write_text(json.dumps(answer))
    return code


def _answer(command: str) -> Any:
    """Return the result of a command, as far as it must be the same whenever the command succeeds."""
    if command == "info":
        facts = json.loads(Path("stdout").read_text())
        return {key: facts[key] for key in facts if key not in ("steps", "checked")}  # steps are read from the arrays
    if command in ("config", *UNCHECKED):
        return Path("stdout").read_text() if command == "config" else ""
    if command == "export":
        with zipfile.ZipFile("out.npz") as archive:
            names = sorted(name for name in archive.namelist() if not name.startswith("seconds_"))
            return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}
    made = command in ("sample", "train --from", *policies.COMMANDS)
    return _bits(Path("out.h5" if made else "run.h5"))


def _bits(path: Path) -> dict[str, Any]:
    """Return hashes of the rows and the state of a run file, computed from its arrays."""
    with open_run(path) as run:
        try:
            run.check_all()
            noticed = ""
        except EesError as error:
            noticed = str(error)
        rows = []
        for generation in range(run.generations):
            names = (name for name in sorted(run.names) if not name.startswith("seconds_") and "sha256" not in name)
            row = b"".join(f"{name} {run[name][generation]!r}".encode() for name in names)
            rows.append(hashlib.sha256(row).hexdigest())
        state = State.from_arrays(run.state_arrays()).digest().hex()
        return {"rows": rows, "state": state, "noticed": noticed}


def _judge(place: Path, ended: Ended, command: str, sound: References | None) -> tuple[str, str]:
    """Return the outcome and the fault of a case."""
    code, seconds, memory = ended
    errors = (place / "stderr").read_text(errors="replace")
    if seconds > LIMIT:
        return "fault", f"took {seconds:.0f} s"
    if memory > READING and command in READERS:
        return "fault", f"took {memory >> 20} MB"
    if code < 0:
        return "fault", f"ended by signal {-code}"
    if code == 99 or "Traceback" in errors:
        return "fault", "a traceback"
    if re.search(r"[A-Z]\w*Warning: ", errors):
        return "fault", "a warning of Python"
    if CONTROL.search(errors + (place / "stdout").read_text(errors="replace")):
        return "fault", "a control character"
    if code:
        allowed = code in (2, 3) or (command in VERIFYING and code == 1) or any(text in errors for text in ENDED)
        said = "ees-mpi: " in errors
        return ("refused", "") if allowed and said else ("fault", f"exit code {code}")
    if sound is None:
        return "no fault", ""
    answer = json.loads((place / "answer").read_text())
    return ("right bits", "") if _right(answer, command, sound) else ("fault", f"wrong bits {str(answer)[:300]}")


def _right(answer: Any, command: str, sound: References) -> bool:
    if command == "info" and answer.get("damage"):
        return True  # it says that later generations cannot be read
    if command not in ("resume", "repair", "verify", "verify --updates"):
        return bool(answer == sound[command])
    longest, rows = sound["resume"], answer.get("rows", [])
    same = rows == longest["rows"][: len(rows)]
    if command.startswith("verify"):
        return bool(answer == sound[command])
    if command == "resume" and (len(rows) != len(longest["rows"]) or answer["state"] != longest["state"]):
        return False
    return same or bool(answer.get("noticed"))
