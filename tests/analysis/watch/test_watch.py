"""Watching a run: what is drawn, when it ends, and that it is in nobody's way."""

import io
import os
import pty
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support.program import TINY, command, ees, environment
from support.run_files import edited

from ees_mpi.analysis import watch
from ees_mpi.config import load
from ees_mpi.store.reader import Run
from ees_mpi.store.writer import RunWriter


def test_it_follows_a_run_to_its_end_and_leaves_nothing_behind(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.h5"
    shutil.copy(finished, run)
    writer, _ = RunWriter.resume(run, load("interference-maxvar", [*TINY, "run.generations=9"]))
    writer.begin_session(6, 1, 1, {"numpy": "0"})
    with subprocess.Popen(
        command("watch", run, "--every", 0.05), stdout=subprocess.PIPE, text=True, env=environment()
    ) as watching:
        assert watching.stdout is not None
        assert "6/9 generations" in watching.stdout.readline()
        writer.close()
        assert ees("resume", run).returncode == 0
        lines = watching.stdout.read().splitlines()
    assert watching.returncode == 0 and lines[-1].endswith("9/9 generations, complete")
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]


def test_several_runs_are_a_table_that_ends_when_all_are_complete(finished: Path, tmp_path: Path) -> None:
    running, stopped = (Path(shutil.copy(finished, tmp_path / name)) for name in ("running.h5", "stopped.h5"))
    for path, seed in ((running, 1), (stopped, 2)):
        with edited(path) as file:
            text = file.attrs["config"].decode().replace("seed = 0", f"seed = {seed}", 1)
            file.attrs["config"] = text.replace("generations = 6", "generations = 9", 1)
    paths = [finished, running, stopped]
    stream = io.StringIO()
    watch.watch(paths, stream, 1.0, once=True)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 100 and "\x1b" not in stream.getvalue()
    assert lines[0].split()[:7] == ["run", "done", "s/gen", "to", "go", "entropy", "distance"]
    names = [line.partition("  ")[0] for line in lines[1:4]]
    assert names == [f"MaxVar-EES, seed {seed}" for seed in (0, 1, 2)]
    assert "6/6" in lines[1] and "complete" in lines[1] and "6/9" in lines[2]
    assert "stopped.h5: nobody writes it now" in lines[-1]

    def wait(seconds: float) -> None:
        with edited(stopped) as file:
            file.attrs["config"] = text  # of 6 generations
        running.write_bytes(stopped.read_bytes())

    stream = io.StringIO()
    watch.watch(paths, stream, 1.0, once=False, wait=wait)
    said = stream.getvalue().splitlines()
    names = [line.partition(".h5:")[0] for line in said]
    assert names == ["run", "running", "stopped", "running", "stopped"]
    assert all(line.endswith("complete") for line in said[3:])


def test_a_terminal_is_drawn_over_and_the_last_screen_stays(finished: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command("watch", finished), stdout=theirs, env=environment(COLUMNS="70", LINES="30")) as done:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    assert done.returncode == 0
    text = shown.decode()
    assert text.startswith("\x1b[H\x1b[J") and "6/6" in text
    lines = re.sub(r"\x1b\[[0-9]*[A-Z]", "", text).splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= 70


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other side is closed
        return b""


def test_a_writer_that_is_gone_is_told_from_one_that_is_silent(copied: Path) -> None:
    assert "nobody writes it now" in watch.writer(copied)
    sidecar = copied.with_name("copy.h5.lock")
    sidecar.write_text('{"host": "node7", "pid": 12}')
    assert watch.writer(copied) == "being written by process 12 on node7"
    os.utime(sidecar, (0, 0))
    assert "node7, has given no sign of life" in watch.writer(copied)


def test_ctrl_c_while_a_file_is_read_comes_after_it_is_closed(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def interrupted(run: Run) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        read.append(run["fitness"][:])  # h5py would lose the KeyboardInterrupt, or report a damaged file
        return ""

    monkeypatch.setattr(watch, "headline", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt):
            watch.watch([finished], io.StringIO(), 1.0, once=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert read
