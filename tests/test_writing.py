"""Files that are asked for: whole or not there, whatever ends the program."""

import os
import signal
from pathlib import Path

import pytest

from ees_mpi.errors import ConfigError
from ees_mpi.writing import beside, check_writable, written


def test_sigterm_while_writing_removes_what_is_half_written_and_ends_the_program(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    target.write_text("old")
    with pytest.raises(SystemExit) as leaving, written(target, "w") as file:
        file.write("new")
        os.kill(os.getpid(), signal.SIGTERM)
    assert leaving.value.code == 143 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_two_who_write_one_file_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    with written(target, "w") as one, written(target, "w") as other:
        one.write("one")
        other.write("other")
    assert target.read_text() == "one" and list(tmp_path.iterdir()) == [target]
    assert beside(target) != beside(target)


def test_a_place_where_nothing_can_be_written_is_told_before(tmp_path: Path) -> None:
    for place, why in (
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "x", "does not exist"),
        (Path("/proc/x"), "no file"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_writable(place)
    check_writable(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
