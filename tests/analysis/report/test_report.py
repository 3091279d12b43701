"""The report as a browser shows it, and what it is made of."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.program import done, ees, refused, train
from support.run_files import edited

from ees_mpi import open_run
from ees_mpi.analysis import report, report_charts
from ees_mpi.analysis.figures.style import drawing
from ees_mpi.analysis.numbers.tables import number
from ees_mpi.analysis.report_charts import LOOK, behaviors
from ees_mpi.commands.info import seconds_per_generation, summarize


def open_page(browser: Any, page: Path, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri())


def ask(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def put(browser: Any, element: str, value: int) -> None:
    """Move a slider, or choose from a list, as a user's hand does."""
    events = "s.dispatchEvent(new Event('input', {bubbles: true})); s.dispatchEvent(new Event('change'))"
    browser.execute_script(f"const s = document.getElementById('{element}'); s.value = '{value}'; {events}")


def data_of(page: Path) -> list:
    """The numbers that a page's slider moves through."""
    text = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)[0]
    return json.loads(text)


@pytest.mark.slow
def test_a_browser_shows_one_run_and_several_fetches_nothing_and_complains_of_nothing(
    browser: Any, cheetah: Path, ant: Path, tmp_path: Path
) -> None:
    one, several = tmp_path / "one.html", tmp_path / "several.html"
    other = Path(shutil.copy(cheetah, tmp_path / "other.h5"))
    assert done("report", ant, "-o", one).stdout == f"{one}\n"
    done("report", cheetah, other, "-o", several)
    open_page(browser, one, 390)
    assert ask(browser, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert ask(browser, "[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    facts, seen = [frame["facts"] for frame in data_of(one)[0]["frames"]], set()
    for generation in (2, 0, 1):
        put(browser, "generation", generation)
        assert ask(browser, "document.getElementById('shown').textContent") == f"{generation} of 2"
        told = ask(browser, "[...document.querySelectorAll('#readout dd')].map(d => Number(d.textContent))")
        assert told == pytest.approx(list(facts[generation].values()), rel=1e-3)
        seen.add(ask(browser, "document.getElementById('frame').src"))
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert len(seen) == 3 and {address for address in sent if not address.startswith("data:")} == {one.as_uri()}
    open_page(browser, several, 1280)
    put(browser, "generation", 0)
    put(browser, "run", 1)
    assert ask(browser, "document.getElementById('shown').textContent") == "2 of 2" and not browser.get_log("browser")
    assert ask(browser, "[...document.querySelectorAll('[data-run]')].map(m => m.hidden)") == 2 * [True, False]
    assert ask(browser, "[...document.querySelectorAll('.scroll')].every(t => t.scrollWidth <= t.clientWidth)")


def test_cells_count_every_valid_individual_and_those_beyond_the_edges_too(cheetah: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(cheetah, tmp_path / "copy.h5"))
    with edited(copy) as file:
        file["generations/behavior"][1, 0] = np.nan
        file["generations/valid"][1, 0] = 0
        file["generations/behavior"][2, 3] = 1.01e9
    with open_run(copy) as run, drawing(LOOK):
        (data,), _, _, about = behaviors([run], ["run"])
    assert [frame["facts"]["individuals"] for frame in data["frames"]] == [6, 5, 6]
    assert "count in the nearest cell" in about


@pytest.mark.slow
def test_info_report_and_watch_never_read_more_than_a_generation_of_a_large_array(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = h5py.Dataset.__getitem__

    def noted(self: h5py.Dataset, *key: object, **options: object) -> object:
        rows = original(self, *key, **options)
        large = self.ndim > 1 and self.shape[1] > 1  # one number or more for every individual or parameter
        if large and not self.name.endswith("/checksums"):
            read.append(len(rows))
        return rows

    monkeypatch.setattr(h5py.Dataset, "__getitem__", noted)
    with open_run(finished) as run:
        summarize(run)
        report.render([run])
        seconds_per_generation(run)
    assert len(read) > 10 and set(read) == {1}


def test_several_seeds_have_their_mean_with_an_interval(finished: Path, tmp_path: Path) -> None:
    low, high = report_charts.interval_of_mean(np.array([[1.0], [2.0], [4.0]]))
    assert (low[0], high[0]) == pytest.approx((-1.461, 6.128), abs=1e-3)  # 2.333 +- 4.303 * 1.528 / sqrt(3)
    other = train(tmp_path / "other.h5", "interference-maxvar", "run.seed=7")
    with open_run(finished) as one, open_run(other) as two:
        page, ends = report.render([one, two]), [run["variance"][-1] for run in (one, two)]
    row = page.split("</table>")[0]
    assert row.count("<tr>") == 2 and f"{number(np.mean(ends))} (" in row and "interval of 95 % (t)" in row
    assert "Thin lines are runs" in page


@pytest.mark.usefixtures("quick_figures")
def test_a_report_compares_measurements_at_the_same_stds_only(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_charts, "_svg", lambda *figure, **more: "")  # drawing takes most of the time
    paths = [tmp_path / f"{name}.h5" for name in ("one", "same", "other")]
    for path, stds in zip(paths, ("0.1,0.5", "0.1,0.5", "0.1"), strict=True):
        done("measure", finished, "--std", stds, "--count", 20, "-o", path)
    done("report", *paths[:2], "-o", tmp_path / "page.html")
    assert "<th>std 0.5<th>" in (tmp_path / "page.html").read_text().replace("</th>", "")
    for other, rows in ((paths[2], "stds 0.1"), (finished, "generations")):
        code, line = refused("report", paths[0], other)
        assert code == 3 and f"{other} has {rows}, so their rows do not belong together" in line


def test_rollouts_from_several_starts_are_shown_and_not_their_means(tmp_path: Path) -> None:
    words = ("task.name=gymnasium", "task.env=support.own_place:PlacePoint-v0", "task.behavior=final_observation")
    small = ("task.hidden=[2]", "task.steps=3", "task.rollouts=3", "task.starts=own")
    with open_run(train(tmp_path / "run.h5", "gymnasium-ant-maxent", *words, *small)) as run, drawing(LOOK):
        (data,), _, _, about = behaviors([run], ["run"])
        places, parent = report_charts._places(run, 1)
        np.testing.assert_array_equal(places, run["behavior_by_start"][1].reshape(-1, 2))
    assert len(parent) == 60 and "each of its rollouts is shown" in about
    assert data["frames"][1]["facts"]["individuals"] == 20


def test_the_name_of_a_file_cannot_break_the_page(cheetah: Path, tmp_path: Path) -> None:
    run = Path(shutil.copy(cheetah, tmp_path / "<b>&$data'.h5"))
    assert ees("report", run).returncode == 0
    text = (tmp_path / "<b>&$data'-report.html").read_text()
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
    assert ees("info", copy, copy).returncode == 0
