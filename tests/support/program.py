"""The command `ees-mpi`, in this process or in processes of its own, alone or under mpirun."""

import atexit
import contextlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from ees_mpi.cli import main as cli
from ees_mpi.ranks import gpus
from ees_mpi.registry import search
from support import stand_in_gpu

if TYPE_CHECKING:
    from support.standing_ranks import StandingRanks

CHECKOUT = Path(__file__).parents[2]
TESTS = CHECKOUT / "tests"
OURS = (str(CHECKOUT), sys.prefix, sys.base_prefix)
BIN = Path(sys.executable).parent
MPIRUN = str(BIN / "mpirun")
# A killed mpirun leaves its session folder behind, and a later one with the same process id then refuses to start.
SESSIONS = tempfile.TemporaryDirectory(prefix="ees")
atexit.register(SESSIONS.cleanup)
TIMEOUT = 600.0  # seconds; generous, because other programs may keep the cores busy
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

needs_results = pytest.mark.skipif(
    not (CHECKOUT / "jobs" / "paper" / "results").is_dir(),
    reason="needs jobs/paper/results, which an sdist does not have",
)

TINY = ("population.size=20", "run.generations=6", "noise.size=5000")


def sets(*settings: str) -> list[str]:
    """Return the words of the command line that change some keys of a config."""
    return [word for setting in settings for word in ("--set", setting)]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a user's shell in which mpirun starts more ranks than cores; `more`: variables."""
    settings = (CHECKOUT / "tools" / "mpirun.env").read_text().splitlines()
    mpirun = dict(line.split("=", 1) for line in settings if "=" in line)
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join((str(TESTS), str(CHECKOUT)))
    return {**usual, **mpirun, "PYTHONPATH": path, "TMPDIR": SESSIONS.name, **more}


def command(*arguments: object, ranks: int = 0) -> list[str]:
    """Return the words that run `ees-mpi ARGUMENTS`, under mpirun if ranks are given."""
    words = [str(BIN / "ees-mpi"), *map(str, arguments)]
    return [MPIRUN, "-n", str(ranks), *words] if ranks else words


def python(program: str | Path, *arguments: object, ranks: int = 0, options: Iterable[str] = ()) -> list[str]:
    """Return the words that run a Python program, under mpirun if ranks are given; `options`: those of mpirun."""
    words = [sys.executable, str(program), *map(str, arguments)]
    return [MPIRUN, *options, "-n", str(ranks), *words] if ranks else words


def run(words: Sequence[str], **more: str) -> CompletedProcess[str]:
    """Run a program in processes of its own; `more`: environment variables."""
    return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, env=environment(**more))


def ees(*arguments: object, ranks: int | None = None, **more: str) -> CompletedProcess[str]:
    """Run `ees-mpi ARGUMENTS`, or `python PROGRAM.py ARGUMENTS`; return its exit code and output.

    `ranks`: None runs it in this process, which is fast; 0 in its own process; 1 or more on ranks that serve many
    tests, one after the other (`run(command(..., ranks=3))` starts others). `more`: environment variables of its own
    process.
    """
    if more or ranks == 0:
        return run(command(*arguments, ranks=ranks or 0), **more)
    return _standing_ranks(ranks).run(*map(str, arguments)) if ranks else here(*map(str, arguments))


STANDING: dict[int, "StandingRanks"] = {}  # by their number; conftest.py ends them


def _standing_ranks(size: int) -> "StandingRanks":
    from support.standing_ranks import StandingRanks

    if size not in STANDING:
        STANDING[size] = StandingRanks(size)
    return STANDING[size]


def here(*arguments: str) -> CompletedProcess[str]:
    """Run `ees-mpi ARGUMENTS` or `python PROGRAM.py ARGUMENTS` in this process."""
    program = arguments[0].endswith(".py")
    folder = [os.path.dirname(arguments[0])] if program else []  # Python searches it first
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    words = [*arguments] if program else ["ees-mpi", *arguments]
    code = 0
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "path", [*folder, *sys.path]),
        mock.patch.dict(os.environ),
        _gpus_of_the_test(),
        _same_signal_handlers(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_path(words[0], run_name="__main__") if program else cli.main()
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return CompletedProcess(words, code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def forget_modules() -> None:
    """Forget the modules that a test wrote, and their environments, as a new process would: another test has others."""
    environments = sys.modules["gymnasium"].registry if "gymnasium" in sys.modules else {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and not path.startswith(OURS):
            del sys.modules[name]
            search._digests.pop(name, None)  # by which another module of this name would be one of a config
            for spec in list(environments.values()):
                if getattr(spec.entry_point, "__module__", None) == name:
                    del environments[spec.id]
    search.MADE.clear()


def _gpus_of_the_test() -> AbstractContextManager[object]:
    """Show the GPUs of EES_TEST_GPUS instead of those of this machine."""
    shown = "EES_TEST_GPUS" in os.environ
    return mock.patch.object(gpus, "visible_gpus", stand_in_gpu.visible) if shown else contextlib.nullcontext()


@contextmanager
def _same_signal_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def done(*arguments: object, ranks: int | None = None, **more: str) -> CompletedProcess[str]:
    """Run a command that must succeed."""
    finished = ees(*arguments, ranks=ranks, **more)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    return finished


def refusal(*arguments: object, ranks: int | None = None) -> tuple[int, str]:
    """Run a command that must fail with one line, and return its exit code and that line."""
    failed = ees(*arguments, ranks=ranks)
    lines = [line for line in failed.stderr.splitlines() if line.startswith("ees-mpi: ")]
    assert len(lines) == 1 and "Traceback" not in failed.stderr + failed.stdout, failed.stderr + failed.stdout
    return failed.returncode, lines[0]


def refused(*arguments: object) -> tuple[int, str]:
    """Run a command that must fail with one line, print nothing else, and leave no file in the present folder.

    Other tests work in the checkout at the same time, so a test without a folder of its own gets one.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder if Path.cwd() == CHECKOUT else "."):
        before = sorted(os.listdir())
        failed = ees(*arguments)
        assert failed.stderr.startswith("ees-mpi: ") and failed.stderr.count("\n") == 1 and failed.stdout == "", failed
        assert sorted(os.listdir()) == before
    return failed.returncode, failed.stderr


def train(out: Path, preset: str = "interference-maxvar", *settings: str, ranks: int | None = None) -> Path:
    """Train a tiny run and return its file; its commits do not wait for the disk."""
    done("train", preset, *sets(*TINY, "run.fsync=false", *settings), "--out", out, ranks=ranks)
    return out


def info(path: Path) -> dict[str, object]:
    """Return the facts of `ees-mpi info --json`."""
    facts: dict[str, object] = json.loads(done("info", path, "--json").stdout)
    return facts
