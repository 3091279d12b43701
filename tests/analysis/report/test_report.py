"""The report as a browser shows it, and what it is made of."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.browser import Browser, chromium
from support.program import ees
from support.run_files import edited

from ees_mpi import open_run
from ees_mpi.analysis import report, report_charts, watch
from ees_mpi.analysis.report_charts import COLORS, behaviors, chart, key, page_style, png
from ees_mpi.commands.info import summarize

WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def pages(cheetah: Path, ant: Path, finished: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of two kinds of runs, and of two runs."""
    folder = tmp_path_factory.mktemp("reports")
    made = {}
    other = Path(shutil.copy(cheetah, folder / "other.h5"))
    for name, paths in {"ant": [ant], "interference": [finished], "several": [cheetah, other]}.items():
        made[name] = folder / f"{name}.html"
        done = ees("report", *paths, "-o", made[name], "--thumbnails", 2)
        assert done.returncode == 0 and done.stdout.strip() == str(made[name]), done.stderr
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


def data_of(page: Path) -> list:
    """The numbers that a page's slider moves through."""
    text = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)[0]
    return json.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ant", "several"])
def test_a_page_fits_wide_and_narrow_windows_fetches_nothing_and_complains_of_nothing(
    pages: dict[str, Path], browser: Browser, kind: str
) -> None:
    for width in WIDTHS:
        browser.open(pages[kind], width)
        assert browser.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert browser.ask("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        assert browser.fetched() == {pages[kind].as_uri()} and browser.complaints() == []


@pytest.mark.slow
def test_the_slider_moves_the_map_the_numbers_and_the_marks_in_the_curves(
    pages: dict[str, Path], browser: Browser
) -> None:
    browser.open(pages["ant"], WIDTHS[0])
    facts = [frame["facts"] for frame in data_of(pages["ant"])[0]["frames"]]
    seen, places = [], {}
    for generation in (2, 0, 1):
        browser.drag(generation)
        assert browser.ask("document.getElementById('shown').textContent") == f"{generation} of 2"
        told = browser.ask("[...document.querySelectorAll('#readout dd')].map(d => Number(d.textContent))")
        assert told == pytest.approx(list(facts[generation].values()), rel=1e-3)
        place = "m.getBoundingClientRect().left - m.closest('svg').getBoundingClientRect().left"
        marks = f"[...document.querySelectorAll('.curves .mark')].map(m => {place})"
        left = browser.ask(marks)
        assert left and max(left) - min(left) < 0.1
        places[generation] = left[0]
        seen.append(browser.ask("document.getElementById('frame').src"))
    assert places[0] < places[1] < places[2] and places[1] == pytest.approx((places[0] + places[2]) / 2, abs=0.1)
    assert len(set(seen)) == 3 and browser.complaints() == []


def test_the_components_of_a_mixture_have_their_own_colors(species: Path) -> None:
    with open_run(species) as run, page_style():
        ends = [(-1.0, 1.0)] * 2
        counts = report_charts._counts(run, 2, [0, 1], ends)
        assert counts.sum(axis=(1, 2)).tolist() == [int((run["parent"][2] == k).sum()) for k in (0, 1)]
        shades = report_charts._shades(counts, 2)
        for component, other in ((0, 1), (1, 0)):
            alone = (counts[component] > 0) & (counts[other] == 0)
            assert (shades[alone][:, :3] == report_charts.color(component)).all()


@pytest.mark.slow
def test_several_runs_have_one_table_curves_over_each_other_and_a_choice_of_the_map(
    pages: dict[str, Path], browser: Browser
) -> None:
    text = pages["several"].read_text()
    assert [text.count(f"<tr><td>{key(place)}") for place in (0, 1, 2)] == [1, 1, 0]
    assert "fitness_mean" in text and "2 runs" in text and "Extremes" not in text
    entropy = text.split("Entropy of the behavior, nats")[1].split("</figure>")[0]
    assert all(f"stroke: {color}" in entropy for color in COLORS[:2]) and f"stroke: {COLORS[2]}" not in entropy
    names = [run["name"] for run in data_of(pages["several"])]
    assert len(set(names)) == 2 and names[1] == "MaxEnt-EES, seed 0 (other.h5)"
    browser.open(pages["several"], WIDTHS[0])
    browser.drag(0)
    browser.ask("(c => { c.value = '1'; c.dispatchEvent(new Event('change')) })(document.getElementById('run'))")
    assert browser.ask("document.getElementById('shown').textContent") == "2 of 2" and browser.complaints() == []
    assert browser.ask("[...document.querySelectorAll('[data-run]')].map(m => m.hidden)") == [True, False]


def test_runs_have_a_common_color_if_they_differ_in_the_seed_only_and_limits_that_hold_for_all(
    cheetah: Path, tmp_path: Path
) -> None:
    paths = [cheetah, *(Path(shutil.copy(cheetah, tmp_path / f"{name}.h5")) for name in "ab")]
    for path, old, new in ((paths[1], "seed = 0", "seed = 5"), (paths[2], "std = 0.02", "std = 0.5")):
        with edited(path) as file:
            file.attrs["config"] = file.attrs["config"].decode().replace(old, new, 1)
            file["generations/behavior"][2] = 7.0
    with ExitStack() as stack:
        runs = [stack.enter_context(open_run(path)) for path in paths]
        groups = report.groups(runs)
        ends = report_charts._spread(runs, [[2]] * 3, [0])
    assert {name: [run.path for run in members] for name, members in groups.items()} == {
        "MaxEnt-EES, std 0.02": paths[:2],
        "MaxEnt-EES, std 0.5": paths[2:],
    }
    assert ends[1] == 7.0


@pytest.mark.slow
def test_a_page_tells_what_was_run_and_how_to_go_on(pages: dict[str, Path], ant: Path, finished: Path) -> None:
    text = pages["ant"].read_text()
    with open_run(ant) as run:
        assert run.config.to_toml().split("[task]")[0].strip() in text
    for word in ("MaxEnt-EES on ant", "complete", "75,272", "ees-mpi replay", "By rank", "same bits when replayed"):
        assert word in text
    assert text.count('<img src="data:image/png;base64') == 2
    text = pages["interference"].read_text()
    assert "has nothing to draw" in text and "ees-mpi replay" not in text and "<img src" not in text


def test_cells_count_every_valid_individual_and_those_beyond_the_edges_too(cheetah: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(cheetah, tmp_path / "copy.h5"))
    with edited(copy) as file:
        file["generations/behavior"][1, 0] = np.nan
        file["generations/valid"][1, 0] = 0
        file["generations/behavior"][2, 3] = 1.01e9
    with open_run(copy) as run, page_style():
        (data,), _, about = behaviors([run], ["run"])
    assert [frame["facts"]["individuals"] for frame in data["frames"]] == [6, 5, 6]
    assert "count in the nearest cell" in about


def test_a_long_run_keeps_some_generations_the_first_and_the_last_among_them(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_charts, "FRAMES", {1: 3, 2: 3})
    monkeypatch.setattr(report_charts, "FEWEST", 1)
    with open_run(finished) as run, page_style():
        (data,), _, about = behaviors([run], ["run"])
    assert [frame["g"] for frame in data["frames"]] == [0, 2, 5] and "At most 3 generations" in about


@pytest.mark.slow
def test_info_report_and_watch_never_read_more_than_a_generation_of_a_large_array(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = h5py.Dataset.__getitem__

    def noted(self: h5py.Dataset, *key: object, **options: object) -> object:
        rows = original(self, *key, **options)
        if self.ndim > 1 and self.shape[1] > 1:  # one number or more for every individual or parameter
            read.append(len(rows))
        return rows

    monkeypatch.setattr(h5py.Dataset, "__getitem__", noted)
    with open_run(finished) as run:
        summarize(run)
        report.render([run], 0)
        watch.table([run])
    assert len(read) > 10 and set(read) == {1}


def test_names_and_paths_cannot_break_the_page(cheetah: Path, tmp_path: Path) -> None:
    folder = tmp_path / "<b>&$data"
    folder.mkdir()
    run = Path(shutil.copy(cheetah, folder / "a'b.h5"))
    assert ees("report", run, "--thumbnails", 0).returncode == 0
    text = (folder / "a'b-report.html").read_text()
    assert "<b>&$" not in text and "&lt;b&gt;&amp;$data" in text and text.count('id="data"') == 1


def test_a_run_without_a_valid_individual_at_its_end_has_a_page_too(species: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(species, tmp_path / "copy.h5"))
    with edited(copy) as file:
        file["generations/behavior"][2] = np.nan
        file["generations/valid"][2] = 0
        for name in ("entropy", "distance_mean", "distance_max", "fitness_mean", "fitness_max"):
            file["generations"][name][2] = np.nan
    done = ees("report", copy)
    assert done.returncode == 0 and not done.stderr
    assert "No individual of the last generation is valid" in (tmp_path / "copy-report.html").read_text()
    assert ees("watch", copy, "--once").returncode == 0


def test_a_sample_of_one_generation_has_a_page_too(cheetah: Path, tmp_path: Path) -> None:
    sample = tmp_path / "sample.h5"
    assert ees("sample", cheetah, "--count", 3, "--out", sample).returncode == 0
    done = ees("report", sample, "--thumbnails", 0)
    text = (tmp_path / "sample-report.html").read_text()
    assert done.returncode == 0 and "Sample of offspring: MaxEnt-EES on cheetah" in text
    assert "class='curves'" not in text and "One generation has no curves" in text


@pytest.mark.parametrize(
    ("run", "out", "code", "message"),
    [
        ("cheetah", "page.txt", 2, "ends in .html"),
        ("empty", "page.html", 3, "no committed generation"),
    ],
)
def test_a_report_that_cannot_be_made_is_refused_and_nothing_is_written(
    cheetah: Path, tmp_path: Path, run: str, out: str, code: int, message: str
) -> None:
    runs = {"cheetah": cheetah, "empty": tmp_path / "empty.h5"}
    shutil.copy(cheetah, runs["empty"])
    with edited(runs["empty"]) as file:
        for item in file["generations"].values():
            if item.maxshape[0] is None:
                item.resize(0, axis=0)
        file["final/generation"][...] = 0
    before = sorted(tmp_path.rglob("*"))
    done = ees("report", runs[run], "-o", tmp_path / out)
    assert done.returncode == code and message in done.stderr and "Traceback" not in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_charts_leave_gaps_and_are_left_out_if_they_would_be_empty() -> None:
    def lines(text: str) -> list[str]:
        paths = re.findall(r'<path d="(.*?)"[^>]*?style="([^"]*)"', text, re.DOTALL)
        return [words for words, style in paths if COLORS[0] in style and "fill: none" in style]

    with page_style():
        gap = lines(chart("gap", {"line": [np.array([1.0, 3.0, np.nan, 2.0, 1.0])]}))
        assert gap[0].count("M") == 2 and gap[0].count("L") == 2
        rare = np.full(6000, np.nan)
        rare[::1000] = [0, 5, 0, 5, 0, 5]
        assert lines(chart("rare", {"line": [rare]}))[0].count("L") == 5
        assert chart("none", {"line": [np.array([np.nan, -np.inf])]}) == chart("one", {"line": [np.ones(1)]}) == ""
        assert "logarithmic" in chart("wide", {"line": [np.array([1e-3, 10.0])]})
        assert "<svg" in chart("flat", {"line": [np.ones(3)]}) and chart("zeros", {"line": [np.zeros(3)]}) == ""
        assert "<svg" in chart("huge", {"line": [np.array([1e308, -1e308, np.inf])]})


@pytest.mark.slow
def test_a_page_has_the_color_of_its_reader_and_is_the_same_every_time(finished: Path) -> None:
    with open_run(finished) as run:
        text = report.render([run], 0)
        assert report.render([run], 0) == text
    assert "prefers-color-scheme: dark" in text and "currentColor" in text and report_charts.INK not in text


def test_a_png_is_read_back_as_it_was() -> None:
    import base64
    import io

    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), np.uint8)
    with Image.open(io.BytesIO(base64.b64decode(png(pixels).split(",")[1]))) as image:
        assert (np.asarray(image) == pixels).all()
