"""`ees-mpi sweep`: one `train` command for each run."""

import re
import shlex
from pathlib import Path

import pytest
from support.program import CHECKOUT, TINY, done, ees, sets, train
from support.run_files import assert_same_bits

WORDS = ("interference-maxvar", *sets(*TINY))

pytestmark = pytest.mark.usefixtures("inside")


def commands(*words: object) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in done("sweep", *words).stdout.splitlines()]


def test_every_combination_is_a_line_that_trains_into_its_own_file_and_may_be_given_again() -> None:
    chosen = sets("population.std=0.2,0.5", "objective.name=maxvar,fitness")
    lines = commands(*WORDS, *chosen, "--seeds", "5,3", "--out", "runs")
    both = [(std, name) for std in ("0.2", "0.5") for name in ("maxvar", "fitness")]
    files = [f"runs/interference-maxvar-std-{std}-objective-{name}-seed{k}.h5" for std, name in both for k in (5, 3)]
    assert [line[-2] for line in lines] == files and list(Path().iterdir()) == []
    for _ in range(2):
        done(*lines[5])  # makes the folder
    single = train(Path("single.h5"), "interference-maxvar", "population.std=0.5", "run.seed=3")
    assert_same_bits(single, Path(files[5]))


def test_a_run_that_is_not_given_a_name_has_that_of_its_preset_and_seed() -> None:
    (line,) = commands(*WORDS)
    name = "interference-maxvar-seed0.h5"
    assert line == ["train", *WORDS, "--out", name, "--resume"]
    done("train", *WORDS)
    assert [path.name for path in Path().iterdir()] == [name]
    assert ees("train", *WORDS, "--set", "population.std=0.3").returncode == 3  # another run has this name


@pytest.mark.slow
def test_the_commands_of_the_page_make_six_files_a_table_a_comparison_and_a_figure() -> None:
    text = (CHECKOUT / "ees_mpi" / "docs" / "clusters.md").read_text(encoding="utf-8")
    page = re.sub(r"\\\n +", "", text.partition("\n## Many settings, compared\n")[2])  # long commands have two lines
    first, *others = [shlex.split(line) for line in re.findall(r"^    ees-mpi (.*)$", page, re.MULTILINE)][:4]
    for line in commands(*first[1 : first.index("|")]):
        done(*line, *sets("run.generations=3", "run.fsync=false", "noise.size=5000"))
    files = sorted(Path().glob("*.h5"))
    assert len(files) == 6
    found = [
        done(*(name for word in words for name in (map(str, files) if "*" in word else [word]))).stdout
        for words in others
    ]
    table = [line.split() for line in found[0].splitlines()]
    place = table[0].index("population.std")
    assert [row[place] for row in table[1:]] == ["0.1", "0.1", "0.2", "0.2", "0.5", "0.5"]
    assert len(re.findall(r"^population.std = 0.[125] +2 ", found[1], re.MULTILINE)) == 3
    assert len(re.findall(r"^population.std = 0.\d against population.std = 0.\d", found[1], re.MULTILINE)) == 3
    assert found[2] == "sweep.png\n" and Path("sweep.png").stat().st_size > 5000
