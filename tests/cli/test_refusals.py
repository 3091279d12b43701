"""A command that cannot work ends with exit code 2 or 3 and one sentence: no traceback, no wait, no other file."""

import os
import shlex
from pathlib import Path

import pytest
from support.program import refused

from ees_mpi.terminal import plain

TRAIN = "train interference-maxvar --out new.h5"
REFUSED = [
    (2, "did you mean interference-maxvar", "train interference-maxvr"),
    (2, "optimizer.speed: unknown name", f"{TRAIN} --set optimizer.speed=1"),
    (2, "`ees-mpi resume RUN.h5` continues a run, --from RUN.h5 starts from", "train old.h5 --overwrite"),
    (2, "--nonsense", f"{TRAIN} --nonsense"),
    (2, "exclude each other", f"{TRAIN} --resume --overwrite"),
    (2, "expected --from RUN.h5", "train ant-maxent-split --set noise.size=100000 --out new.h5"),
    (2, "ees-mpi sweep", f"{TRAIN} --set population.std=0.2,0.5"),
    (2, "population.size: needs at least", f"{TRAIN} --set population.size=1000000000000"),
    (2, "population.std", f"{TRAIN} --set population.std=1e300"),
    (2, "run.stall_minutes", f"{TRAIN} --set run.stall_minutes=1e308"),
    (2, "run.generations", f"{TRAIN} --set run.generations={'9' * 5000}"),
    (2, "run.generations", f"{TRAIN} --set run.generations={'[' * 3000 + ']' * 3000}"),
    (2, "UTF-8", f"{TRAIN} --out \udcff.h5"),
    (2, "@", f"{TRAIN} --from run.h5@{'9' * 5000}"),
    (2, "deep.toml", "train deep.toml"),
    (2, "wrong.toml", "train wrong.toml"),
    (2, "pipe.toml", "train pipe.toml"),
    (3, "pipe.h5", "figure interference pipe.h5"),
    (2, "expected the name of a file in UTF-8", "sample '' --count 2"),
    (2, "GiB of memory", "sample run.h5 --count 1000000000000"),
    (2, "left, right, or degrees", "adapt cheetah.h5 --direction ../../x"),
    (2, "\\x1b]0;title\\x07left", "adapt run.h5 --direction '\x1b]0;title\x07left'"),
    (2, "population.size", "plan interference-maxvar --ranks 4 --set population.size=1000000000000"),
    (2, "--ranks", "plan interference-maxvar --ranks 0"),
    *((3, "not a readable HDF5 file", f"{verb} text.h5") for verb in ("info", "repair", "resume", "verify")),
    *((3, "does not exist", f"{verb} absent.h5") for verb in ("info", "repair", "resume", "verify", "watch")),
    *((3, "not a readable HDF5 file", f"{verb} text.h5") for verb in ("config", "metrics")),
    (2, "absent.toml", "config absent.toml"),
    (
        2,
        "objective.bandwidth: unknown name",
        "config cheetah-maxent --set objective.name=maxvar --set objective.bandwidth=2",
    ),
    (2, 'method = "maml" has no such section', "config cheetah-maxent --set method=maml --set optimizer.lr=1.0"),
    (2, "expected 0 to 5", "verify run.h5 --generation 6"),
    (3, "is a folder", "watch ."),
    (2, "--every", "watch absent.h5 --every 0"),
    (2, "RUN.h5", "metrics"),
    (2, "exclude each other", "metrics run.h5 --generation 1 --all"),
    (2, "--bandwidth", "metrics run.h5 --bandwidth 1,zero"),
    (2, "--std: expected a positive number, got 0.0", "measure net.pt --std 0.1,0 --task cheetah-maxent"),
    (3, "No such file", "measure net.pt --task cheetah-maxent"),
    (2, "calling it raised TypeError", "measure json:loads --task cheetah-maxent"),
    (2, "ends in .csv", "export cheetah.h5 --csv -o x.npz"),
    (2, "either --policy or --csv", "export cheetah.h5 --csv --policy"),
    (2, "ends in .npz", "export cheetah.h5 --policy -o p.txt"),
    (2, "expected 0 to 5", "export cheetah.h5 --policy --individual 6 -o p.npz"),
    (2, "--component 1", "export cheetah.h5 --policy --component 1 -o p.npz"),
    (3, "has no policy", "export run.h5 --policy -o p.npz"),
    (2, "expected 0 to 5", "replay cheetah.h5 --individual 6"),
    (2, "ends in .mp4, .gif", "replay cheetah.h5 --video film.avi"),
    (2, "--together: for a video only; add --video", "replay cheetah.h5 --together"),
    (2, "--size, --seconds: for a video only; add --video", "replay cheetah.h5 --size 320x240 --seconds 1"),
    (2, "--speed: for a video only; add --video", "replay cheetah.h5 --speed 2"),
    (2, "add --mutations", "replay cheetah.h5 --set task.engine=mujoco"),
    (2, "population.std: expected float > 0", "sweep interference-maxvar --set population.std=0.2,-1"),
    (2, "would be the same file", "sweep interference-maxvar --set population.std=0.2,0.20"),
    (2, "antithetic", "sweep interference-maxvar --set population.size=20,21"),
    *(
        (2, "expected", f"sweep interference-maxvar --seeds '{seeds}'")
        for seeds in ("", "3-1", "1,1", "0-99999999", "²")
    ),
]


@pytest.fixture
def folder(finished: Path, cheetah: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.symlink(finished, "run.h5")
    os.symlink(cheetah, "cheetah.h5")
    os.mkfifo("pipe.h5")
    os.mkfifo("pipe.toml")
    Path("deep.toml").write_text("a=" + "[" * 5000 + "]" * 5000)
    Path("wrong.toml").write_text("[run")
    Path("text.h5").write_text("hello")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("code", "message", "words"), REFUSED, ids=[ascii(words[:50]) for _, _, words in REFUSED])
def test_a_command_that_cannot_work_is_one_sentence_and_changes_nothing(code: int, message: str, words: str) -> None:
    found, line = refused(*shlex.split(words))
    assert found == code and message in line and len(line) < 2500, line
    assert Path("text.h5").read_text() == "hello" and plain(line) == line
