"""A metric is one entry of the table: it is then logged, shown, compared and checked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import done, info, refusal, train
from support.run_files import edited, stored

import ees_mpi
from ees_mpi.analysis.numbers.selection import scales, titles
from ees_mpi.analysis.numbers.tables import number
from ees_mpi.metrics import METRICS, Metric

TABLES = "info report curves measure"
pytestmark = pytest.mark.usefixtures("quick_figures", "quick_noise")


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a metric that training logs, and one of files."""
    least = Metric("smallest fitness", compute=lambda of: of.fitness.min(), logged=True, tables=TABLES)
    monkeypatch.setitem(METRICS, "fitness_min", least)
    monkeypatch.setitem(METRICS, "span", Metric("span of the places", compute=lambda of: np.ptp(of.place)))


def test_it_is_found_wherever_metrics_are(tmp_path: Path) -> None:
    records, out = list[Any](), tmp_path / "run.h5"
    config = {"base": "interference-maxent", "run": {"generations": 3}, "noise": {"size": 999}}
    with ees_mpi.train(config, out, settings={"population.size": 10}, on_generation=records.append) as run:
        least = run["fitness"][-1].min()
        assert records[-1].metrics["fitness_min"] == run["fitness_min"][-1] == least
        assert {"fitness_min", "span"} <= titles([run], scales([run])[0]).keys()  # of figures
    assert info(out)["results"]["fitness_min"] == least
    other = train(tmp_path / "other.h5", "interference-maxvar")
    assert "fitness_min" in done("info", out, other).stdout
    said = done("metrics", out).stdout
    assert number(least) in said and "smallest fitness" in said and "span of the places" in said
    for name in ("fitness_min", "span"):
        assert name in done("compare", "--list").stdout
        assert (
            METRICS[name].about in done("compare", "--metric", name, out, "--against", other, "--generation", 2).stdout
        )
    done("export", out, "--csv")
    assert "fitness_min" in (tmp_path / "run.csv").read_text().splitlines()[0]
    done("report", out)
    assert "Smallest fitness" in (tmp_path / "run-report.html").read_text()
    assert "fitness_min" in done("measure", out, "--count", 4, "--std", 0.1, "-o", tmp_path / "m.h5").stdout
    with edited(out) as file:
        file["generations/fitness_min"][0] += 1e-9
    assert "another fitness_min than" in refusal("verify", out)[1]


def test_files_from_before_it_are_read_and_continued(tmp_path: Path) -> None:
    path = stored(tmp_path, "interference.h5")
    least = ees_mpi.open_run(path)["fitness"][-1].min()
    done("info", path)
    done("verify", path, "--updates")
    assert number(least) in done("metrics", path).stdout
    done("report", path)
    done("resume", path, "--generations", ees_mpi.open_run(path).generations + 1)
    assert "fitness_min" not in ees_mpi.open_run(path)


def test_it_is_among_the_metrics_of_a_loop() -> None:
    with ees_mpi.Strategy(np.zeros(2), size=4, std=0.1) as es:
        z = es.ask()
        es.tell(z, z[:, 0])
        assert es.metrics["fitness_min"] == z[:, 0].min()
