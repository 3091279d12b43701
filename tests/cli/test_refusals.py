"""A command that cannot work ends with exit code 2 or 3 and one sentence: no traceback, no wait, no other file."""

import os
import shlex
import shutil
from pathlib import Path

import pytest
from support.program import refused
from support.run_files import edited

from ees_mpi.terminal import plain

COMPARE = "compare --metric distance_mean"
TRAIN = "train interference-maxvar --out new.h5"
REFUSED = [
    (2, "did you mean interference-maxvar", "train interference-maxvr"),
    (2, "objective.name: unknown name 'maxvax'; did you mean maxvar", f"{TRAIN} --set objective.name=maxvax"),
    (2, "method: unknown name 'mamml'; did you mean maml", f"{TRAIN} --set method=mamml"),
    (2, "population.std: expected a finite number, got inf", f"{TRAIN} --set population.std=inf"),
    (2, "run=4: expected section.key=value", f"{TRAIN} --set run=4"),
    (2, "expected section.key=value", f"{TRAIN} --set task.\udcff=4"),
    (2, "`ees-mpi resume RUN.h5` continues a run, --from RUN.h5 starts from", "train old.h5 --overwrite"),
    (3, "run.h5 exists already; use --resume to continue it, --overwrite", "train interference-maxvar --out run.h5"),
    (2, "--nonsense", f"{TRAIN} --nonsense"),
    (2, "no option --learning-rate; did you mean --set optimizer.lr=VALUE?", f"{TRAIN} --learning-rate 3"),
    (2, "did you mean --set population.size=VALUE or --set noise.size=VALUE?", f"{TRAIN} --size=3"),
    (2, "expected --from RUN.h5", "train ant-maxent-split --set noise.size=100000 --out new.h5"),
    (2, "population.size: needs at least", f"{TRAIN} --set population.size=1000000000000"),
    (2, "--max-hours: expected a number between 1e-30 and 1e+30, got inf", f"{TRAIN} --max-hours inf"),
    (2, "wrong.toml", "train wrong.toml"),
    (2, "GiB of memory", "sample run.h5 --count 1000000000000"),
    (2, "\\x1b]0;title\\x07left", "adapt run.h5 --direction '\x1b]0;title\x07left'"),
    (3, "not a readable HDF5 file", "info text.h5"),
    *((3, "does not exist", f"{verb} absent.h5") for verb in ("info", "resume")),
    (2, "No such file or directory; did you mean wrong.toml?", "train wrongg.toml"),
    (2, "expected 0 to 5", "verify run.h5 --generation 6"),
    (2, "RUN.h5", "metrics"),
    (2, "--std: expected once, got it 2 times", "measure net.pt --std 0.1 --std 0.2 --task x"),
    (2, "--std: expected a number between 1e-30 and 1e+30, got 0", "measure net.pt --std 0.1,0 --task x"),
    (3, "expected a policy: a run file, .npz, .zip of Stable-Baselines3", "measure model.pkl --task cheetah-maxent"),
    (3, "text.h5 is not a readable HDF5 file; expected a run file", "measure text.h5"),
    (2, "either --policy or --csv", "export cheetah.h5 --csv --policy"),
    (2, "--component 1", "export cheetah.h5 --policy --component 1 -o p.npz"),
    (3, "has no policy", "export run.h5 --policy -o p.npz"),
    (2, "those of journals; expected the name of a run file, such as a.h5", "sample run.h5 --out a.h5.journal"),
    (3, "cut.h5 is truncated: more than its 3000 bytes are expected; copy it again", "resume cut.h5"),
    *((3, "sub is a folder; expected a run file", f"{verb} sub") for verb in ("figure", f"{TRAIN} --from")),
    (2, "argument (more); `ees-mpi train --help` lists the options", "train interference-maxvar more"),
    (2, "--out runs/: this is a folder", "train interference-maxvar --out runs/"),
    *((3, "text.h5 is not a folder", f"train ant-es --out text.h5/{name}") for name in ("run.h5", "no/run.h5")),
    (2, "noise.size", "train interference-maxvar --set noise.size=50 --out new/new/run.h5"),
    (2, "--together: for a video only; add --video", "replay cheetah.h5 --together"),
    (2, "--mutations 65: expected at most 64, or --extremes", "replay cheetah.h5 --mutations 65"),
    (2, "add --mutations", "replay cheetah.h5 --set task.engine=mujoco"),
    (3, "has nothing to draw", "replay run.h5 --individual 3 --video x.mp4"),
    *(
        (3, "of run.h5 has no limbs", f"replay run.h5 {some} --together --video x.gif")
        for some in ("--mutations 2", "--individual 0")
    ),
    (2, "needs runs", "figure plane"),
    (2, "has 0 to 2", "figure plane ant.h5 --generation 3"),
    (3, "no committed generation", "figure plane empty.h5"),
    (2, "did you mean", "compare --metric distance-meen cheetah.h5 --against ant.h5"),
    (2, "same run", f"{COMPARE} cheetah.h5 --against cheetah.h5"),
    (2, "task.starts", "measure run.h5 --starts 2 --count 20"),
    (2, "--starts 2 sets it; leave out", "measure run.h5 --starts 2 --set task.rollouts=3"),
    (3, "measure --starts", "figure starts run.h5"),
    *(
        (3, "not a plain file", words)
        for words in ("info pipe.h5", "train interference-maxvar --out pipe.h5", f"{TRAIN} --from pipe.npz")
    ),
    (2, "not a plain file", "train pipe.toml"),
    (2, "3 noise vectors (or antithetic pairs); expected 8", "signal cheetah.h5"),
    (2, "plan: expected an evolution strategy, got method 'maml'", "plan cheetah-maml"),
    (2, "population.std: expected float > 0", "sweep interference-maxvar --set population.std=0.2,-1"),
    (2, "would be the same file", "sweep interference-maxvar --set population.std=0.2,0.2"),
    (2, "run.seed is set twice", "sweep interference-maxvar --seeds 0 --set run.seed=7"),
    (2, "expected numbers and ranges", "sweep ant-es --seeds 3-1"),
]


@pytest.fixture(scope="module")
def folder(finished: Path, cheetah: Path, ant: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("refusals")
    for name, source in {"run": finished, "cheetah": cheetah, "ant": ant}.items():
        (place / f"{name}.h5").symlink_to(source)
    for name in ("pipe.h5", "pipe.npz", "pipe.toml"):
        os.mkfifo(place / name)
    for name, text in {"wrong.toml": "[run", "text.h5": "hello", "model.pkl": "", "boat.py": ""}.items():
        (place / name).write_text(text)
    (place / "sub").mkdir()
    (place / "cut.h5").write_bytes(ant.read_bytes()[:3000])
    shutil.copy(ant, place / "empty.h5")
    with edited(place / "empty.h5") as file:
        file.attrs["run_id"] = "1" * 32
        for dataset in file["generations"].values():
            if dataset.maxshape[0] is None:
                dataset.resize(0, axis=0)
    return place


@pytest.mark.parametrize(("code", "message", "words"), REFUSED, ids=[ascii(words[:50]) for _, _, words in REFUSED])
def test_a_command_that_cannot_work_is_one_sentence_and_changes_nothing(
    code: int, message: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = {path: path.stat().st_mtime_ns for path in Path().iterdir()}
    found, line = refused(*shlex.split(words))
    assert found == code and message in line and len(line) < 2500 and plain(line) == line, line
    assert {path: path.stat().st_mtime_ns for path in Path().iterdir()} == before


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert plain("a\x1b[31mb\x9bc\rd\te\n\u202ef") == "a\\x1b[31mb\\x9bc\\x0dd\te\n\\x202ef"
