"""Files that are asked for: whole or not there, whatever ends the program."""

import errno
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.program import TINY, done, sets

from ees_mpi.errors import ConfigError, EesError, RunFileError
from ees_mpi.files import beside, check_writable, replaced, written


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    with written(target, "w") as one, written(target, "w") as other:
        one.write("one")
        other.write("other")
    assert target.read_text() == "one" and list(tmp_path.iterdir()) == [target]
    assert beside(target) != beside(target)


def test_a_path_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    for place, why in (
        (tmp_path, "is a folder"),
        (Path("/proc/x"), "no file"),
        (Path(__file__) / "x", r"test_files\.py is not a folder"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_writable(place)
    check_writable(tmp_path / "x")
    check_writable(tmp_path / "no" / "no" / "x")
    assert list(tmp_path.iterdir()) == []
    refusal = mock.Mock(side_effect=OSError(errno.EROFS, "Read-only file system"))  # also if the name does not exist
    with (
        mock.patch("builtins.open", refusal),
        mock.patch("os.unlink", refusal),
        pytest.raises(ConfigError, match="no file can be written there: Read-only"),
    ):
        check_writable(tmp_path / "x")


def test_a_failure_leaves_no_file_behind_whatever_its_name(tmp_path: Path) -> None:
    make = os.mkdir

    def first_only(*words: Any) -> None:
        if list(tmp_path.iterdir()):
            raise OSError(errno.ENOSPC, "No space left on device")
        make(*words)

    target = tmp_path / "run[1]*.h5"
    with pytest.raises(ValueError, match="broken"), replaced(target) as fresh:
        for name in (fresh.name, f"{fresh.name}.journal"):
            (tmp_path / name).touch()
        raise ValueError("broken")
    with pytest.raises(ValueError, match="broken"), written(tmp_path / "new" / "new" / "x"):
        raise ValueError("broken")
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with (
        mock.patch("pathlib.Path.mkdir", full),
        pytest.raises(EesError, match="No space"),
        written(tmp_path / "n" / "x"),
    ):
        pass
    with (
        mock.patch("os.mkdir", first_only),
        pytest.raises(EesError, match="No space"),
        written(tmp_path / "n" / "n" / "x"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_another_process_has_written_in_the_meantime_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "x.h5"
    with replaced(target, overwrite=False) as fresh:
        fresh.write_text("first")
    assert target.read_text() == "first" and list(tmp_path.iterdir()) == [target]
    with (
        pytest.raises(RunFileError, match="another process has written it"),
        replaced(target, overwrite=False) as fresh,
    ):
        fresh.write_text("second")
    assert target.read_text() == "first" and {path.read_text() for path in tmp_path.glob("x-*.h5")} == {"second"}


@pytest.mark.parametrize(
    "words",
    [
        ["train", "interference-maxvar", *sets(*TINY, "run.generations=1"), "--out", "new/new/x.h5"],
        ["measure", "RUN", "--count", "2", "--std", "0.1", "-o", "new/new/x.h5"],
        ["export", "RUN", "--csv", "-o", "new/new/x.csv"],
        ["figure", "plane", "RUN", "-o", "new/new/x.png"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("quick_figures")
def test_every_command_creates_the_folders_of_its_output(
    ant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done(*(ant if word == "RUN" else word for word in words))
    assert Path(words[-1]).is_file()
