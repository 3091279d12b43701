"""The page on results shows the numbers of jobs/paper/results/, and its figures can be drawn from there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.program import CHECKOUT, ees, needs_results

from ees_mpi import open_run
from ees_mpi.analysis.offspring import read_offspring

sys.path.insert(0, str(CHECKOUT / "jobs" / "paper"))  # the scripts import each other by name

import results
import results_figures
from claims import CLAIMS, GYMNASIUM, examine
from small_runs import SmallRun, collect, read_all

pytestmark = needs_results
RESULTS = CHECKOUT / "jobs" / "paper" / "results"
PAGE = (CHECKOUT / "ees_mpi" / "docs" / "results.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w-]+)`:\s((?:[^|;).]|\.(?=\d))*)")
STARTS = (  # jobs/paper/plan.py, jobs/paper/gentle_start.py; seeding and splits of the plan; jobs/paper/replica.py
    r"mujoco-(cheetah|ant)-(maxvar|maxent)-short-seed\d|ant-(maxvar|maxent|es-backward)-mujoco-seed\d"
    r"|cheetah-maxent-laptop-seed0|ant-maxent-n1000-seed0"
)
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
VERDICTS = {"holds", "does not hold", "not decided", "not run"}


@pytest.fixture(scope="module")
def runs() -> dict[str, SmallRun]:
    """All runs of the repository, by name."""
    return {run.path.name: run for run in read_all(RESULTS)}


def numbers_differ(one: str, other: str) -> str:
    """Return the first place in which two texts differ by more than the last digit of a number; empty if none."""
    ours, theirs = one.split(), other.split()
    if len(ours) != len(theirs):
        return f"{len(ours)} and {len(theirs)} words"
    for mine, yours in zip(ours, theirs, strict=True):
        values = [re.findall(NUMBER, word) for word in (mine, yours)]
        words = [re.sub(NUMBER, "#", word) for word in (mine, yours)]
        near = len(values[0]) == len(values[1]) and [float(x) for x in values[0]] == pytest.approx(
            [float(x) for x in values[1]], rel=0.02, abs=1e-9
        )
        if mine != yours and (words[0] != words[1] or not near):
            return f"{mine} and {yours}"
    return ""


def test_every_number_in_the_text_is_that_of_its_run(runs: dict[str, SmallRun]) -> None:
    found = NAMED.findall(PAGE)
    groups = results.groups(list(runs.values()))
    assert {name for name, _ in found} <= set(runs) | set(groups) and len(found) > 10
    for name, text in found:
        values = results.numbers(runs[name]) if name in runs else results.group_numbers(groups[name], RESULTS)
        shown = [part.strip().replace("\n", " ") for part in text.split(",")]
        for part in shown:
            key = max((key for key in values if part.startswith(f"{key} ")), key=len, default="")
            assert key, f"{name} has no number called {part}; it has {sorted(values)}"
            assert not numbers_differ(part, f"{key} {values[key]}"), f"{name}: {part}, but {key} {values[key]}"


def test_the_tables_of_the_pages_have_the_numbers_of_the_small_files() -> None:
    for page, tables in results.pages(RESULTS).items():
        whole = (results.DOCS / page).read_text(encoding="utf-8")
        for name, text in tables.items():
            shown = whole.split(f"<!-- begin {name} -->")[1].split(f"<!-- end {name} -->")[0]
            assert not numbers_differ(shown, text), "run: python jobs/paper/results.py update"


def test_numbers_are_compared_not_bytes() -> None:
    assert not numbers_differ("p 0.0291 (6)", "p 0.0290 (6)") and not numbers_differ("left 12.4 %", "left 12.41 %")
    assert numbers_differ("left 12.4 %", "left 13.4 %") and numbers_differ("left 1 %", "right 1 %")


def test_a_wrong_number_would_be_found() -> None:
    assert NAMED.findall("`a-seed0`: left 1.0 %, right 2.0 %; `b-seed1`: x 3 |") == [
        ("a-seed0", "left 1.0 %, right 2.0 %"),
        ("b-seed1", "x 3 "),
    ]


def test_every_claim_has_one_short_line_with_a_verdict() -> None:
    table = PAGE.split("<!-- begin claims -->")[1].split("<!-- end claims -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line][2:]
    assert len(rows) == len(CLAIMS) + 2 and all(len(row) == 6 and all(row) for row in rows)
    assert all(row[5] in VERDICTS or row[5].startswith("not decided (") for row in rows)


def test_the_second_family_shows_the_directions_of_the_ant_with_four_seeds(runs: dict[str, SmallRun]) -> None:
    found = next(each for each in examine(runs, RESULTS, GYMNASIUM) if each.claim.name == "ant-directions")
    assert [answer.test.p for answer in found.answers] == pytest.approx([2 / 70] * 2)
    ranges = [(min(group.values), max(group.values)) for group in found.groups.values()]
    assert ranges[1] == pytest.approx((0.28, 0.34), abs=0.005)
    assert min(low for low, _ in (ranges[0], ranges[2])) > 0.8 and found.verdict == "not decided (4 of 6)"


def test_a_trained_mean_is_kept_only_where_a_command_starts_from_it() -> None:
    for path in RESULTS.glob("*/policy*.npz"):
        name = path.parent.name
        measured = (RESULTS / f"{name}-sample").exists() and (
            RESULTS / "adaptations" / f"{name}-adapt-left.json"
        ).exists()
        assert re.fullmatch(STARTS, name) or ("-mujoco-" in name and not measured), f"nothing starts from {path}"


def test_no_small_file_has_a_path_of_a_machine_and_each_run_is_small() -> None:
    for folder in (path.parent for path in RESULTS.glob("*/run.json")):
        policies = list(folder.glob("policy*.npz"))
        sizes = sum(path.stat().st_size for path in folder.iterdir() if path not in policies)
        assert sizes < 150_000, folder.name
        texts = [(folder / "run.json").read_text()]
        for path in policies:
            with np.load(path) as file:
                texts += [str(file["about"]), str(file["config"])]
        assert not any(re.search(r"[\"' ]/\w+/", text) for text in texts), folder.name


def save_without_layout(figure: Figure, path: Path) -> Path:
    """Save a figure; its layout takes most of the time, and the test of the script has it."""
    figure.set_layout_engine("none")
    figure.savefig(path)
    return path


def test_figures_and_statistics_are_drawn_from_the_small_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_figures, "_save", save_without_layout)
    made = results_figures.draw(RESULTS, tmp_path)
    assert {path.relative_to(tmp_path) for path in made} == {
        path.relative_to(RESULTS) for path in [RESULTS / "statistics.txt", *(RESULTS / "figures").iterdir()]
    }
    assert all(path.stat().st_size > 10_000 for path in made[1:])
    assert not numbers_differ(made[0].read_text(), (RESULTS / "statistics.txt").read_text())
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


def test_a_large_run_keeps_all_offspring_of_its_last_generation_only(runs: dict[str, SmallRun]) -> None:
    run = runs["mujoco-ant-maxent-seed0"]
    assert [len(run["behavior"][g]) for g in (1, 58, 59)] == [0, 0, 10_000] and 500 < len(run["behavior"][10]) <= 1000
    assert np.isfinite(run["direction_uniformity"]).all()  # the measures of each generation are in the table


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
    script = [sys.executable, CHECKOUT / "jobs" / "paper" / "results.py"]
    subprocess.run([*script, "draw", "--results", tmp_path], check=True)
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"ant-mixture.png", "cheetah-maxent.png", "run.png", "sampled.png"}
