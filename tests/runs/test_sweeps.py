"""Sweeps: one command, several run files."""

import re
import shlex
from pathlib import Path

import pytest
from support.program import CHECKOUT, TINY, done, ees, info, refusal, sets, train
from support.run_files import assert_same_bits

from ees_mpi.ranks import Ranks

WORDS = ("train", "interference-maxvar", *sets(*TINY))
SWEEP = (*WORDS, "--set", "population.std=0.2,0.5", "--seeds", "0-1")
NAME = "interference-maxvar-noise.size5000-population.size20"
FILES = [f"{NAME}-std{std}-seed{seed}.h5" for std in ("0.2", "0.5") for seed in (0, 1)]


OWN = """
[run]
generations = 2
[noise]
size = 1000
[task]
name = "custom"
function = "support.own_tasks:Unstable"
[population]
name = "normal"
size = 4
std = 0.1
[objective]
name = "maxvar"
"""


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sweep_makes_the_files_of_single_runs_and_continues_with_resume() -> None:
    said = done(*SWEEP, ranks=2).stdout
    assert sorted(path.name for path in Path().iterdir()) == FILES
    order = re.findall(r"^sweep: run (\d) of 4: (\S+)$", said, re.MULTILINE)
    assert order == [(str(number + 1), file) for number, file in enumerate(FILES)]
    assert said.rstrip().endswith("sweep: 4 runs, all complete")
    single = train(Path("single.h5"), "interference-maxvar", "population.std=0.5", "run.seed=1")
    assert_same_bits(single, Path(FILES[3]))
    code, line = refusal(*SWEEP)
    assert code == 3 and "exists already" in line and "--resume" in line
    Path(FILES[2]).unlink()
    before = Path(FILES[3]).read_bytes()
    done(*SWEEP, "--resume")
    assert info(Path(FILES[2]))["complete"] is True and Path(FILES[3]).read_bytes() == before
    done(*SWEEP, "--set", "run.generations=8", "--resume")
    assert [info(Path(file))["generations"] for file in FILES] == [8] * 4


def test_a_wrong_value_is_found_before_the_first_run() -> None:
    for words, message in {
        ("--set", "population.std=0.2,-1"): "population.std: expected float > 0",
        ("--set", "population.std=0.2,0.20"): "would be the same file",
        ("--seeds", "0-1", "--seed", "3"): "exclude each other",
        ("--seeds", "0-1", "--out", "run.h5"): "expected an existing folder",
    }.items():
        code, line = refusal(*WORDS, *words)
        assert code == 2 and message in line
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_run_that_fails_is_named_and_the_others_are_trained(ranks: int | None) -> None:
    Path("own.toml").write_text(OWN)
    failed = ees("train", "own.toml", "--set", "task.settings.limit=9.0,0.0,8.0", ranks=ranks)
    assert failed.returncode == 1 and "Traceback" not in failed.stderr
    (last,) = [line for line in failed.stderr.splitlines() if line.startswith("ees-mpi: ")]
    assert last.startswith("ees-mpi: sweep: 1 of 3 runs failed: own-task.settings.limit0.0-seed0.h5; the first: ")
    assert "sweep: own-task.settings.limit0.0-seed0.h5 failed, and the sweep goes on" in failed.stderr
    assert [info(path)["complete"] for path in sorted(Path().glob("*.h5"))] == [False, True, True]


def test_a_stop_request_ends_the_sweep_and_resume_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = Ranks.stopping
    monkeypatch.setattr(Ranks, "stopping", lambda ranks: Path(FILES[1]).exists() or stopping(ranks))
    stopped = ees(*SWEEP)
    assert stopped.returncode == 75 and stopped.stderr.count("ees-mpi: ") == 1
    assert sorted(path.name for path in Path().glob("*.h5")) == FILES[:2]
    assert info(Path(FILES[0]))["complete"] is True and info(Path(FILES[1]))["complete"] is False
    monkeypatch.setattr(Ranks, "stopping", stopping)
    assert "sweep: 4 runs, all complete" in done(*SWEEP, "--resume").stdout


def test_the_time_limit_counts_for_the_whole_sweep() -> None:
    late = ees(*SWEEP, "--max-hours", "1e-9")
    assert late.returncode == 75 and "--resume goes on" in late.stderr and not list(Path().glob("*.h5"))


def test_out_is_a_folder_for_a_sweep() -> None:
    Path("there").mkdir()
    done(*WORDS, "--seeds", "4,6", "--out", "there")
    assert sorted(path.name for path in Path("there").iterdir()) == [f"{NAME}-seed{seed}.h5" for seed in (4, 6)]
    assert [path.name for path in Path().iterdir()] == ["there"]


def test_the_papers_main_comparison_starts_from_a_maxent_preset() -> None:
    words = ("train", "interference-maxent", *sets(*TINY, "objective.name=fitness,maxvar,maxent"))
    said = done(*words).stdout
    assert [info(path)["objective"] for path in sorted(Path().glob("*.h5"))] == ["fitness", "maxent", "maxvar"]
    assert said.count("note: ") == 2 and "note: objective.name=maxvar drops objective.bandwidth" in said


def test_the_four_commands_of_the_page_make_six_files_a_table_a_comparison_and_a_figure() -> None:
    page = (CHECKOUT / "ees_mpi" / "docs" / "sweeps.md").read_text(encoding="utf-8")
    lines = re.findall(r"^    ees-mpi (.*)$", page, re.MULTILINE)
    assert len(lines) == 4
    commands = [shlex.split(line) for line in lines]
    done(*commands[0], *sets("run.generations=3", "run.fsync=false", "noise.size=5000"))
    files = sorted(Path().glob("*.h5"))
    assert len(files) == 6
    found = [
        done(*(name for word in words for name in (map(str, files) if "*" in word else [word]))).stdout
        for words in commands[1:]
    ]
    table = [line.split() for line in found[0].splitlines()]
    place = table[0].index("population.std")
    assert [row[place] for row in table[1:]] == ["0.1", "0.1", "0.2", "0.2", "0.5", "0.5"]
    assert len(re.findall(r"^population.std = 0.[125] +2 ", found[1], re.MULTILINE)) == 3
    assert len(re.findall(r"^population.std = 0.\d against population.std = 0.\d", found[1], re.MULTILINE)) == 3
    assert found[2] == "sweep.png\n" and Path("sweep.png").stat().st_size > 5000
