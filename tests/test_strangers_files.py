"""Files that a stranger made, with the right hashes: their texts and numbers reach every command, and harm none."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import pytest
from support.program import TINY, ees, sets
from support.run_files import renew

from ees_mpi.terminal import plain

ESCAPE = "\x1b]0;title\x07\x1b[2J\x9b31m\r"
FROM = ("train", "interference-maxvar", *sets(*TINY), "--from", "run.h5", "--out", "out.h5")
COMMANDS = (
    ("info", "run.h5"),
    ("info", "run.h5", "run.h5"),
    ("report", "run.h5", "-o", "out.html"),
    ("compare", "--metric", "distance_mean", "run.h5", "--against", "run.h5"),
    ("metrics", "run.h5"),
    ("export", "run.h5", "--csv", "-o", "out.csv"),
    ("config", "run.h5"),
    ("verify", "run.h5"),
    ("sample", "run.h5", "--count", "2", "--out", "out.h5"),
    ("resume", "run.h5", "--generations", "7"),
    FROM,
)
Craft = Callable[[Callable[[h5py.File], object]], None]


@pytest.fixture
def craft(finished: Path, inside: Path) -> Craft:
    """Change a copy of a finished run, `run.h5` in the present folder, and renew its hashes."""

    def change(how: Callable[[h5py.File], object]) -> None:
        shutil.copy(finished, "run.h5")
        with h5py.File("run.h5", "r+") as file:
            how(file)
            renew(file)

    return change


def outputs_of(commands: Sequence[tuple[str, ...]] = COMMANDS) -> dict[str, str]:
    """Run commands on `run.h5`; return their outputs. None may end in a traceback, or without a sentence."""
    outputs = {}
    for words in commands:
        for path in Path().glob("out*"):
            path.unlink()
        ended = ees(*words)
        assert "Traceback" not in ended.stderr and ended.returncode in (0, 1, 2, 3), ended.stderr
        assert ended.returncode == 0 or ended.stderr.count("ees-mpi: ") == 1, (words, ended.stderr)
        outputs[" ".join(words)] = ended.stdout + ended.stderr
    return outputs


def test_control_characters_of_a_file_do_not_reach_the_terminal(craft: Craft) -> None:
    def change(file: h5py.File) -> None:
        escaped = ESCAPE.encode("unicode_escape").decode().replace("\\x", "\\u00").replace("\\r", "\\u000d")
        file.attrs["started_from"] = f'{{"path": "{escaped}", "objective": "{escaped}", "generation": 1}}'
        file.attrs["program"] = ESCAPE.replace("\0", "")
        machine = f'{{"numpy": "{escaped}", "cpu_features": "{escaped}", "device": "{escaped}"}}'
        file["sessions/0"].attrs["host"], file["sessions/0"].attrs["machine"] = ESCAPE, machine

    craft(change)
    outputs = outputs_of()
    for words, text in outputs.items():
        assert plain(text) == text, words
    assert "\\x1b[2J" in outputs["info run.h5"]  # it was shown


def test_an_integer_of_5000_digits_in_the_config_of_a_file_is_refused(craft: Craft) -> None:
    def change(file: h5py.File) -> None:
        config = file.attrs["config"].decode()
        assert "seed = 0" in config
        file.attrs["config"] = config.replace("seed = 0", f"seed = {'1' * 5000}", 1)

    craft(change)
    for words, text in outputs_of([("info", "run.h5"), ("resume", "run.h5"), FROM]).items():
        assert text.startswith("ees-mpi: ") and text.count("\n") == 1 and len(text) < 2500, words
