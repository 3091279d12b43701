"""A stop signal that comes while a run starts stops it as later ones do."""

import os
import signal
from pathlib import Path

import pytest
from support.program import TESTS, TINY, done, ees, info, sets

from ees_mpi.run import session


def test_a_signal_before_the_run_is_ready_ends_with_75(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = session.run_session

    def signalled(*arguments: object, **named: object) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        begin(*arguments, **named)  # type: ignore[arg-type]

    out = tmp_path / "run.h5"
    words = ("train", "interference-maxvar", *sets(*TINY, "run.fsync=false"), "--out", out)
    with monkeypatch.context() as patched:
        patched.setattr(session, "run_session", signalled)
        stopped = ees(*words)
    assert stopped.returncode == 75 and "interrupted by SIGUSR1" in stopped.stderr
    done(*words, "--resume")
    assert info(out)["complete"] is True


@pytest.mark.parametrize(
    ("module", "number", "code", "message"),
    [
        ("h5py", signal.SIGINT, 130, "ees-mpi: interrupted"),
        ("click", signal.SIGTERM, 75, "ees-mpi: interrupted by SIGTERM; 0 generations"),
    ],
)
def test_a_signal_during_an_import_is_one_sentence(
    module: str, number: signal.Signals, code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text((TESTS / "support" / "signal_in_import.py").read_text())
    words = ("train", "interference-maxvar", *sets(*TINY), "--out", tmp_path / "run.h5")
    stopped = ees(*words, PYTHONPATH=str(tmp_path), SIGNAL_IN_IMPORT=f"{module} {int(number)}")
    assert stopped.returncode == code, stopped.stderr
    assert stopped.stderr.strip().startswith(message) and stopped.stderr.strip().count("\n") == 0, stopped.stderr
    assert (tmp_path / "run.h5").exists() is (code == 75)


def test_commands_that_save_nothing_end_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text((TESTS / "support" / "signal_in_import.py").read_text())
    stopped = ees("presets", PYTHONPATH=str(tmp_path), SIGNAL_IN_IMPORT=f"click {int(signal.SIGTERM)}")
    assert stopped.returncode == -signal.SIGTERM and stopped.stdout == stopped.stderr == ""


def test_a_measurement_that_is_stopped_says_that_nothing_is_saved(tmp_path: Path) -> None:
    (tmp_path / "stops.py").write_text("import os, signal\n\ndef vector():\n    os.kill(os.getpid(), signal.SIGUSR1)\n")
    words = ("measure", "stops:vector", "--task", "interference-maxvar", "-o", tmp_path / "m.h5")
    stopped = ees(*words, PYTHONPATH=str(tmp_path))
    assert stopped.returncode == 128 + signal.SIGUSR1 and not (tmp_path / "m.h5").exists()
    assert stopped.stderr.count("\n") == 1 and "stopped by SIGUSR1" in stopped.stderr and "from zero" in stopped.stderr
