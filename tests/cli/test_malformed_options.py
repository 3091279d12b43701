"""Malformed options end with exit code 2 or 3 and one sentence: no traceback, no wait, no other file."""

import os
from pathlib import Path

import pytest
from support.program import TINY, refusal, sets

from ees_mpi import config
from ees_mpi.errors import ConfigError
from ees_mpi.terminal import plain

TRAIN = ("train", "interference-maxent", *sets(*TINY, "run.fsync=false"), "--out", "new.h5")


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    os.symlink(finished, "run.h5")
    os.mkfifo("pipe.h5")
    os.mkfifo("pipe.toml")
    Path("deep.toml").write_text("a=" + "[" * 5000 + "]" * 5000)
    Path("wrong.toml").write_text("[run")
    return tmp_path


@pytest.mark.parametrize(
    "setting",
    [
        "population.size=1000000000000",
        "population.std=1e300",
        "run.stall_minutes=1e308",
        "run.generations=" + "9" * 5000,
        "run.generations=" + "[" * 3000 + "]" * 3000,
    ],
    ids=lambda setting: setting[:30],
)
def test_a_setting_that_cannot_work_is_refused(folder: Path, setting: str) -> None:
    code, line = refusal(*TRAIN, "--set", setting)
    assert code == 2 and len(line) < 2500 and not Path("new.h5").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("train", "deep.toml"),
        ("train", "wrong.toml"),
        (*TRAIN, "--out", "\udcff.h5"),
        ("train", "pipe.toml"),
        (*TRAIN, "--from", "run.h5@" + "9" * 5000),
        ("figure", "interference", "pipe.h5"),
        ("sample", "", "--count", "2"),
        ("sample", "run.h5", "--count", "1000000000000"),
        ("adapt", "run.h5", "--direction", "../../x"),
        ("plan", "interference-maxvar", "--ranks", "4", "--set", "population.size=1000000000000"),
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_a_malformed_command_is_refused(folder: Path, words: tuple[str, ...]) -> None:
    code, line = refusal(*words)
    assert code in (2, 3) and len(line) < 2500
    assert code == 2 or not {"wrong.toml", "\udcff.h5"} & set(words)


def test_memory_is_estimated_before_it_is_asked_for() -> None:
    huge = config.load("interference-maxvar", ["population.size=2000000000"])
    with pytest.raises(ConfigError, match=r"population\.size: needs at least \d+ GiB of memory"):
        config.check(huge)


def test_a_split_preset_needs_a_trained_run(folder: Path) -> None:
    code, line = refusal("train", "ant-maxent-split", *sets("noise.size=100000"), "--out", "new.h5")
    assert code == 2 and "expected --from RUN.h5" in line and not Path("new.h5").exists()


def test_control_characters_do_not_reach_the_terminal(folder: Path) -> None:
    assert plain("a\x1b[31mb\x9bc\rd\te\n\u202ef") == "a\\x1b[31mb\\x9bc\\x0dd\te\n\\x202ef"
    code, line = refusal("adapt", "run.h5", "--direction", "\x1b]0;title\x07left")
    assert code == 2 and "\x1b" not in line and "\\x1b]0;title\\x07left" in line
