"""The page on results shows the numbers of jobs/paper/results/, which are those of its HDF5 files."""

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.program import CHECKOUT, done, needs_results

sys.path.insert(0, str(CHECKOUT / "jobs" / "paper"))  # the scripts import each other by name

import blocks
import endpoints
import groups
import quoted
import results
import results_figures

pytestmark = needs_results
RESULTS, SHELF = results.RESULTS, results.SHELF
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
POLICIES = sorted(SHELF.glob("*.npz"))
PAGES = (results.DOCS / "results.md", results.DOCS / "heritability.md")


@pytest.fixture(scope="module")
def rows() -> list[groups.Row]:
    """All runs of numbers.csv."""
    return groups.read(RESULTS / "numbers.csv")


def numbers_differ(one: str, other: str) -> str:
    """Return the first place in which two texts differ by more than the last digit of a number; empty if none."""
    ours, theirs = re.split(r"[\s,]+", one.strip()), re.split(r"[\s,]+", other.strip())
    if len(ours) != len(theirs):
        return f"{len(ours)} and {len(theirs)} words"
    for mine, yours in zip(ours, theirs, strict=True):
        if mine == yours:
            continue
        values = [re.findall(NUMBER, word) for word in (mine, yours)]
        words = [re.sub(NUMBER, "#", word) for word in (mine, yours)]
        near = len(values[0]) == len(values[1]) and [float(x) for x in values[0]] == pytest.approx(
            [float(x) for x in values[1]], rel=0.02, abs=1e-9
        )
        if words[0] != words[1] or not near:
            return f"{mine} and {yours}"
    return ""


def test_the_tables_of_the_pages_have_the_numbers_of_the_file() -> None:
    for page, made in results.pages().items():
        whole = (results.DOCS / page).read_text(encoding="utf-8")
        for name, text in made.items():
            shown = whole.split(f"<!-- begin {name} -->")[1].split(f"<!-- end {name} -->")[0]
            assert not numbers_differ(shown, text), f"{name}: run: python jobs/paper/results.py update"


@pytest.mark.slow
def test_numbers_csv_is_that_of_the_blocks() -> None:
    made = endpoints.table(RESULTS.glob("*.h5"))
    assert not numbers_differ(made, (RESULTS / "numbers.csv").read_text(encoding="utf-8"))


def quotes(text: str) -> list[tuple[str, bool, str]]:
    """Return the numbers of a text that name their source: `12<!-- NAME -->`, `12 %<!-- NAME -->`."""
    found = re.findall(r"(-?\d[\d,]*(?:\.\d+)?)( %)?<!-- ([^>]+?)( %)? -->", text)
    return [(shown.replace(",", ""), bool(before or after), name) for shown, before, name, after in found]


def wrong_quotes(text: str, values: Mapping[str, float]) -> list[str]:
    """Return the numbers of a text that are not those of their source, to the digits shown."""
    wrong = []
    for shown, percent, name in quotes(text):
        digits = len(shown.partition(".")[2])
        value = f"{values[name] * (100 if percent else 1):.{digits}f}"
        wrong += [f"{name}: {shown} on the page, {value} in the files"] if value != shown else []
    return wrong


def test_a_source_is_a_group_of_runs_a_column_and_what_to_do_with_it() -> None:
    first = [{"seed": f"{seed}", "x": f"{2.0**seed}", "y": f"{-seed}"} for seed in (1, 2, 3)]
    second = [{"seed": f"{seed}", "x": f"{4.0**seed}", "y": ""} for seed in (3, 2, 4)]
    known = {"a": first, "b b": second}
    expected = {"a: x": 14 / 3, "a: x low": 2, "a: x high": 8, "a: x sum": 14, "a: x 2": 4, "a: runs": 3}
    expected |= {"a: |y| high": 3, "a: y high": -1, "a+b b: x from 8/3": 5, "a+b b: runs": 6}
    expected |= {"b b / a: x": 16, "b b / a: x paired": 2**2.5, "b b / a: x/x": 16}
    for source, value in expected.items():
        assert quoted.quoted(source, known) == pytest.approx(value), source
    assert quoted.quoted("b b / a: x low", known) < 16 < quoted.quoted("b b / a: x high", known)
    assert quoted.quoted("b b / a: x p", known) == pytest.approx(0.1, abs=0.05)
    for source in ("a: x upside down", "c: runs", "a / c: x"):  # c has no runs
        with pytest.raises(KeyError):
            quoted.quoted(source, {**known, "c": []})


def test_every_number_that_names_its_source_has_its_value() -> None:
    texts = {page.name: page.read_text(encoding="utf-8") for page in results.QUOTING}
    values = results.sources("".join(texts.values()))
    for page, text in texts.items():
        assert not wrong_quotes(text, values), page
        assert len(quotes(text)) == len(re.findall(r"[\d%]<!--", text)), f"{page}: a mark is not read"


def test_numbers_with_decimals_in_running_text_name_their_source() -> None:
    given = {"0.94", "0.92", "0.83", "0.85", "22.5", "3.5", "7.854", "0.005", "0.707", "0.2154", "1.0"}  # the paper's
    given |= {"1.00", "0.05", "0.1", "0.9", "0.2", "0.3", "0.8", "1.25"}  # settings, limits
    for page in PAGES:
        text = page.read_text(encoding="utf-8").partition("## The objective")[0]
        text = re.sub(r"<!-- begin.*?<!-- end[^\n]*", "", text, flags=re.DOTALL)
        text = re.sub(r"`[^`]*`|^    .*$|\[arXiv [^]]*\]\S*", "", text, flags=re.MULTILINE)
        bare = set(re.findall(r"(?<![\d.])\d+\.\d+(?![\d.]*(?: %)?<!--)", text))
        assert bare <= given, f"{page.name}: {sorted(bare - given)}"


@pytest.mark.slow
def test_every_figure_is_drawn_from_the_blocks_and_shown_by_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure
    canvas = pytest.importorskip("matplotlib.backends.backend_agg").FigureCanvasAgg

    def draw_once(self: Any, path: Path, **how: Any) -> None:
        self.set_layout_engine("none")  # it would draw everything several times to find room for it
        self.set_dpi(30)
        canvas(self).print_png(path)  # `savefig` would draw everything twice

    monkeypatch.setattr(figure, "savefig", draw_once)
    drawn = results_figures.draw(RESULTS, tmp_path)
    assert {path.name for path in drawn} == {path.name for path in (RESULTS / "figures").iterdir()}
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "ees_mpi" / "docs").glob("*.md")]
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG") and f"figures/{path.name})" in text, path.name


def test_no_block_has_a_path_of_a_machine() -> None:
    for path in RESULTS.glob("*.h5"):
        with h5py.File(path) as file:
            texts = [text.decode() for name in ("config", "about") for text in file[name][:]]
        assert not any(re.search(r"[\"' ]/\w+/", text) for text in texts), path.name


def test_a_block_opens_in_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(RESULTS / "sixth.h5", engine="h5netcdf") as data:
        assert data["distance_mean"].dims == ("run", "generation")
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in data["run"].values]
        assert "ant-maxent-mujoco-seed20" in names


def test_every_policy_of_the_shelf_has_a_card_with_its_hashes_and_numbers(rows: list[groups.Row]) -> None:
    assert 6 <= len(POLICIES) <= 12
    homes = {row["digest"]: row for row in rows if row["kind"] != "sample"}
    measured = groups.read(RESULTS / "heritability.csv")
    first = [row for row in measured if row["engine"] == "mujoco" and not row["mean"].endswith("-again")]
    shares = {row["digest"]: row["heritable_share"] for row in first}
    listed = (SHELF / "README.md").read_text(encoding="utf-8")
    for path in POLICIES:
        card = path.with_suffix(".md").read_text(encoding="utf-8")
        with np.load(path) as file:
            about = str(file["about"])
        digest = json.loads(about)["state_sha256"]
        home, distance = homes[digest], f"mean distance {float(homes[digest]['distance_last']):.1f}; "
        said = [hashlib.sha256(path.read_bytes()).hexdigest(), digest, f"`{home['run']}` of `{home['block']}.h5`"]
        said += [f"{home['generations']} generations, N = {int(home['population']):,}, seed {home['seed']}", distance]
        said += [f"| {100 * float(shares[digest]):.0f} % of the variance belong to the"] if digest in shares else []
        said += [f"{way} {float(home[f'adapt_{way}']):.1f}" for way in ("left", "right") if home[f"adapt_{way}"]]
        assert not [each for each in said if each not in card] and not re.search(r"[\"' ]/\w+/", about), path.name
        assert re.search(rf"\[{path.stem}\]\({path.stem}.md\) .*{distance}", listed)


def test_a_block_takes_the_adaptations_of_its_runs_and_no_trained_mean(tmp_path: Path) -> None:
    name, block = "cheetah-maxent-mujoco-seed25", tmp_path / "sixth.h5"
    (run,) = (run for run in blocks.read_block(RESULTS / "sixth.h5") if run.name == name)
    blocks.write_block(block, [dataclasses.replace(run, last=run.last[:2], component=run.component[:2])])
    small = tmp_path / "sixth"
    (small / "adaptations").mkdir(parents=True)
    (small / "more").mkdir()
    about = {"config": run.toml, "kind": "study", "sessions": run.about["sessions"], "started_from": "", "note": ""}
    about |= {"generations": 1, "state_sha256": "0"}
    (small / "more" / "run.json").write_text(json.dumps(about))
    (small / "more" / "metrics.csv").write_text("generation,seconds_clock,distance_mean\n0,1,2\n")
    np.savez(small / "more" / "behaviors.npz", behavior=[[1.0], [-2.0]], parent=[0, 0])
    np.savez(small / "more" / "policy.npz", mean=np.zeros(3))
    left = {"method": "mutation", "evaluations/fitness": [3.0, 4.0], "mutations/fitness": [5.0, 6.0]}
    (small / "adaptations" / f"{name}-adapt-left.json").write_text(json.dumps(left))
    right = small / "adaptations" / f"{name}-adapt-right"  # as of MAML, which has no mutations
    right.with_suffix(".json").write_text(json.dumps({"method": "gradient", "evaluations/fitness": [-1.0]}))
    right.with_name(f"{right.name}-own").mkdir()
    np.savez(right.with_name(f"{right.name}-own") / "behaviors.npz", behavior=[[7.0], [7.0]])
    results.pack([small], tmp_path)
    kept = {each.name: each for each in blocks.read_block(block)}
    found = endpoints.adaptations(kept[name])
    assert found == {"adapt_left": 3.5, "adapt_right": -1.0, "adapt": 1.25, "adapt_best": 6.5, "adapt_wrong": 1}
    assert [*kept] == [name, "more"] and not kept["more"].evaluations
    with h5py.File(block) as file:
        assert "policies" not in file


@pytest.mark.parametrize("name", ["cheetah-maxent-released-seed7", "ant-maxent-text-seed24"])
@pytest.mark.usefixtures("quick_figures")
def test_sample_adapt_and_measure_take_a_policy_of_the_shelf(name: str, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    with np.load(SHELF / f"{name}.npz") as file:
        arrays = dict(file)
    config, steps = re.subn(r"(?m)^steps = \d+$", "steps = 5", str(arrays["config"]))  # a short rollout
    config, noise = re.subn(r"(\[noise\]\nsize =) \d+", r"\1 300000", config)
    assert steps == noise == 1
    policy, way = tmp_path / "policy.npz", "left" if "cheetah" in name else "90"
    np.savez(policy, **{**arrays, "config": np.array(config)})
    done("sample", policy, "--count", 2, "--out", tmp_path / "sampled.h5")
    done("adapt", policy, "--direction", way, "--mutations", 2, "--evaluations", 1, "--out", tmp_path / "adapted.h5")
    done("measure", policy, "--std", "0.02", "--count", 2, "-o", tmp_path / "measured.h5")
