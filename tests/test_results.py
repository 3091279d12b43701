"""The page on results shows the numbers of jobs/results/, and its figures can be drawn from there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.program import CHECKOUT, ees

from ees_mpi import open_run
from ees_mpi.analysis.offspring import read_offspring

sys.path.insert(0, str(CHECKOUT / "jobs"))  # the scripts import each other by name

import results
from results_figures import draw
from small_runs import THIN, SmallRun, collect, read_all

RESULTS = CHECKOUT / "jobs" / "results"
PAGE = (CHECKOUT / "ees_mpi" / "docs" / "results.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w-]+)`:\s([^|;)]*)")
VERDICTS = {"holds", "does not hold", "not decided"}


@pytest.fixture(scope="module")
def runs() -> dict[str, SmallRun]:
    """All runs of the repository, by name."""
    return {run.path.name: run for run in read_all(RESULTS)}


def test_every_number_on_the_page_is_that_of_its_run(runs: dict[str, SmallRun]) -> None:
    found = NAMED.findall(PAGE)
    groups = results.groups(list(runs.values()))
    names = {name for name, _ in found}
    assert (
        names >= {name for name in runs if "-sample" not in name}
        and names <= set(runs) | set(groups)
        and len(found) > 40
    )
    for name, text in found:
        values = results.numbers(runs[name]) if name in runs else results.group_numbers(groups[name], RESULTS)
        known = {f"{key} {value}" for key, value in values.items()}
        shown = {part.strip().replace("\n", " ") for part in text.split(",")}
        assert shown <= known, f"{name}: the page has {sorted(shown - known)}; the results have {sorted(known)}"


def test_a_wrong_number_would_be_found() -> None:
    assert NAMED.findall("`a-seed0`: left 1.0 %, right 2.0 %; `b-seed1`: x 3 |") == [
        ("a-seed0", "left 1.0 %, right 2.0 %"),
        ("b-seed1", "x 3 "),
    ]


def test_the_table_of_runs_is_the_one_that_the_script_prints(runs: dict[str, SmallRun]) -> None:
    assert results.table(runs.values()) in PAGE, "run: python jobs/results.py table"


def test_every_claim_has_a_verdict() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.count("|") == 7 and "---" not in line]
    assert len(rows) > 10 and rows[0][4].strip() == "verdict"
    assert {row[4].strip() for row in rows[1:]} <= VERDICTS and all(cell.strip() for row in rows for cell in row)


def test_figures_and_statistics_are_drawn_from_the_small_files_alone(tmp_path: Path) -> None:
    made = draw(RESULTS, tmp_path)
    assert {path.relative_to(tmp_path) for path in made} == {
        path.relative_to(RESULTS) for path in [RESULTS / "statistics.txt", *(RESULTS / "figures").iterdir()]
    }
    assert all(path.stat().st_size > 10_000 for path in made[1:])
    assert made[0].read_text() == (RESULTS / "statistics.txt").read_text()
    for picture in re.findall(r"\]\(\.\./\.\./(jobs/[^)]*)\)", PAGE):
        assert (CHECKOUT / picture).is_file()


def test_the_results_stay_small() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 30e6 and not any(path.suffix == ".h5" for path in files)


def test_small_files_give_back_the_offspring_of_a_run_file(cheetah: Path, species: Path, tmp_path: Path) -> None:
    for path in (cheetah, species):
        small = SmallRun(collect(path, tmp_path))
        with open_run(path) as run:
            assert small.generations == run.generations and small.config == run.config
            mine, theirs = read_offspring(small), read_offspring(run)
            assert mine.position.tolist() == theirs.position.astype("f4").tolist()
            assert mine.parent.tolist() == theirs.parent.tolist() and mine.components == theirs.components
            assert small["distance_mean"].tolist() == pytest.approx(run["distance_mean"][:].tolist(), rel=1e-5)


def test_a_large_run_keeps_all_offspring_of_the_shown_generations_only(runs: dict[str, SmallRun]) -> None:
    run = runs["mujoco-ant-maxent-seed0"]
    sizes = [len(run["behavior"][g]) for g in (0, 1, 10, 58, 59)]
    assert sizes == [10_000, THIN, 10_000, THIN, 10_000]


def test_the_script_collects_runs_with_their_trained_means(
    cheetah: Path, species: Path, finished: Path, tmp_path: Path
) -> None:
    adapted, sampled = tmp_path / "adapted.h5", tmp_path / "sampled.h5"
    adapting = ["--direction", "left", "--mutations", 2, "--evaluations", 1]
    assert ees("adapt", cheetah, *adapting, "--out", adapted).returncode == 0
    assert ees("sample", cheetah, "--count", 4, "--out", sampled).returncode == 0
    files = [str(path) for path in (cheetah, species, finished, adapted)]
    assert results.main(["collect", *files, "--policy", "--results", str(tmp_path)]) == 0
    assert results.main(["collect", str(sampled), "--results", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "adaptations" / "adapted.json").read_text())
    assert len(found["evaluations/fitness"]) == 1 and json.loads(found["run"])["path"] == cheetah.name
    policies = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/policy*")}
    assert policies == {f"{cheetah.stem}/policy.npz", *(f"{species.stem}/policy-{k}.npz" for k in (0, 1))}
    script = [sys.executable, CHECKOUT / "jobs" / "results.py"]
    subprocess.run([*script, "draw", "--results", tmp_path], check=True)
    assert len(list((tmp_path / "figures").iterdir())) == 5
