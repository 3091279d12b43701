"""A stop signal that comes while a run starts stops it as later ones do."""

import os
import signal
from pathlib import Path

import pytest
from support.program import TINY, done, ees, info, sets

from ees_mpi.runs import session


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_before_the_run_is_ready_ends_with_75(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = session.run_session

    def signalled(*arguments: object, **named: object) -> None:
        os.kill(os.getpid(), number)
        begin(*arguments, **named)  # type: ignore[arg-type]

    out = tmp_path / "run.h5"
    words = ("train", "interference-maxvar", *sets(*TINY, "run.fsync=false"), "--out", out)
    with monkeypatch.context() as patched:
        patched.setattr(session, "run_session", signalled)
        stopped = ees(*words)
    assert stopped.returncode == 75 and f"interrupted by {number.name}" in stopped.stderr
    done(*words, "--resume")
    assert info(out)["complete"] is True
