"""Every figure from small real run files: that it is drawn, that it shows what is in them, and what is refused."""

import gzip
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from matplotlib.image import imread
from support.program import TESTS, ees, refused
from support.run_files import edited
from support.small_runs import Zoo, seeds, walk

from ees_mpi import open_run
from ees_mpi.analysis.figures.catalog import FIGURES, draw
from ees_mpi.analysis.figures.curves import standard_error
from ees_mpi.analysis.figures.style import draw_curves, drawing
from ees_mpi.commands.requests import FigureRequest
from ees_mpi.generation import Outcomes
from ees_mpi.metrics import Sample, Settings
from ees_mpi.ranks import Ranks

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("there")]
INGREDIENTS = {
    "interference": ["maxvar", "maxent", "maxent1"],
    "line": ["cheetah", "cheetah-es", "running"],
    "maml": ["cheetah", "cheetah1", "cheetah-es", "narrow"],
    "plane": ["ant", "ant-es", "ant1", "mixture"],
    "adaptation": ["random", "seeded", "seeded1", "backwards"],
    "adaptation-heatmaps": ["seeded", "random"],
    "mixture": ["ant", "mixture", "split"],
    "locomotion": ["ant", "ant1", "ant-es"],
    "sweep": ["cheetah", "cheetah1", "narrow"],
    "signal": ["mixture", "split"],
}


def panels_of(name: str, paths: Sequence[Path], *generations: Sequence[int]) -> list[Any]:
    """Draw a figure and return its panels, colour bars and empty places left out."""
    with drawing(), ExitStack() as stack:
        runs = [stack.enter_context(open_run(path)) for path in paths]
        figure = FIGURES[name].draw(runs, *generations)
        figure.canvas.draw()
    return [axes for axes in figure.axes if axes.axison and axes.get_label() != "<colorbar>"]


@pytest.mark.parametrize("name", INGREDIENTS)
def test_every_figure_is_drawn_and_saved_whole(zoo: Zoo, folder: Path, name: str) -> None:
    paths, out = [zoo[each] for each in INGREDIENTS[name]], folder / f"{name}.png"
    assert draw(name, paths, FigureRequest(out)) == out and not list(folder.glob("*.new"))
    picture = imread(out)
    assert picture.shape[1] <= 7.2 * 200 and picture[..., :3].std() > 0.01
    if name == "interference":
        said = ees("figure", name, *paths, "-o", "page.pdf")
        assert said.returncode == 0 and said.stdout == "page.pdf\n", said.stderr
        assert Path("page.pdf").read_bytes().startswith(b"%PDF")


def test_a_heat_map_holds_every_offspring(zoo: Zoo, folder: Path) -> None:
    place = np.random.default_rng(0).normal(size=(8, 2))
    (path,) = seeds(folder, zoo["ant"], "placed", [place])
    (panel,) = panels_of("plane", [path], ())
    mesh = panel.collections[0]
    assert mesh.get_array().sum() == pytest.approx(1)
    x, y = panel.get_xlim()
    assert x < np.abs(place).max() < y


def test_the_genomes_of_all_components_are_drawn(folder: Path) -> None:
    path = walk(folder / "two.h5", "interference-maxent", "population.name=mixture", "population.components=2")
    _, panel = panels_of("interference", [path])
    with open_run(path) as run:
        drawn = [line.get_ydata() for line in panel.get_lines()[:2]]
        np.testing.assert_array_equal(np.transpose(drawn), run["mean"][:, :, 0])


def test_generations_can_be_chosen(zoo: Zoo) -> None:
    panels = panels_of("plane", [zoo["ant"]], (0, 2))
    assert [axes.get_title().split()[-2:] for axes in panels] == [["generation", "0"], ["generation", "2"]]
    titles = [axes.get_title() for axes in panels_of("adaptation-heatmaps", [zoo["seeded"]], ())]
    assert titles == ["after 0 generations", "after 1 generations", "after 2 generations"]


def test_a_map_of_a_measurement_names_its_std_also_below_a_long_name(zoo: Zoo, folder: Path) -> None:
    out = folder / "ant-measured.h5"
    assert ees("measure", zoo["ant"], "--std", "0.1,0.7", "--count", 20, "-o", out).returncode == 0
    titles = [axes.get_title() for axes in panels_of("plane", [out, zoo["mixture"], zoo["ant"]], (0, 1))]
    last = [title.splitlines()[-1] for title in titles]
    assert last == ["std 0.1", "std 0.7", *2 * ["generation 0", "generation 1"]]
    (panel,) = panels_of("plane", [out], ())
    assert panel.get_title().splitlines()[-1] == "std 0.7" and "0.1" not in panel.get_title()
    for name in ("line", "adaptation-heatmaps"):  # the rows of a measurement are no generations
        code, line = refused("figure", name, out)
        assert code == 3 and "no training to show over generations" in line


def test_locomotion_is_the_mean_over_seeds_of_the_mean_distance(zoo: Zoo) -> None:
    (panel,) = panels_of("locomotion", [zoo["ant"], zoo["ant1"], zoo["ant-es"]])
    lines = {line.get_label(): line.get_ydata() for line in panel.get_lines()}
    logged = []
    for name in ("ant", "ant1"):
        with h5py.File(zoo[name]) as file:
            logged.append(file["generations/distance_mean"][:])
    np.testing.assert_allclose(lines["MaxEnt-EES, mean of 2 runs"], np.mean(logged, axis=0))
    assert list(lines) == ["standard ES", "MaxEnt-EES, mean of 2 runs"]


def test_runs_of_which_one_has_no_place_are_drawn_by_their_variance(zoo: Zoo, folder: Path) -> None:
    path = folder / "placeless.h5"
    path.write_bytes(zoo["cheetah1"].read_bytes())
    with edited(path) as file:
        file.attrs["metrics"] = json.dumps({**json.loads(file.attrs["metrics"]), "places": 0})
    (panel,) = panels_of("locomotion", [zoo["cheetah"], path])
    assert panel.get_ylabel().startswith("variance")


def test_runs_that_differ_in_a_key_are_not_taken_for_seeds(zoo: Zoo, folder: Path) -> None:
    changes = {"std = 0.5": "std = 0.7", "lr = 0.1": "lr = 0.2"}
    paths = seeds(folder, zoo["maxent"], "plain", [np.arange(8.0)[:, None]])
    for old, new in changes.items():
        paths += seeds(folder, zoo["maxent"], old[:2], [np.arange(8.0)[:, None]], lambda text: text.replace(old, new))  # noqa: B023
    (panel,) = panels_of("locomotion", paths)
    names = [line.get_label() for line in panel.get_lines()]
    assert {name.partition(", ")[2] for name in names} == {"lr 0.1, std 0.5", "lr 0.1, std 0.7", "lr 0.2, std 0.5"}
    titles = [axes.get_title() for axes in panels_of("maml", paths)]
    assert [title.partition(", ")[2] for title in titles] == ["lr 0.1\nstd 0.7", "lr 0.1\nstd 0.5", "lr 0.2\nstd 0.5"]


def test_outer_iterations_without_a_task_to_one_side_are_a_gap_and_invalid_tasks_do_not_count(folder: Path) -> None:
    path = folder / "maml.h5"
    path.write_bytes(gzip.decompress((TESTS / "data" / "format5" / "maml.h5.gz").read_bytes()))
    with edited(path) as file:
        file["generations/sign"][1] = 1
        file["generations/valid"][2, 0] = 0
        file["generations/fitness"][2, 0] = 1e9  # of an invalid task a number says nothing
        after = file["generations/fitness"][2, 1:].mean()
    (panel,) = panels_of("maml-training", [path])
    assert panel.get_lines()[1].get_ydata()[2] == pytest.approx(after)
    gaps = {line.get_label(): np.isnan(line.get_ydata()).tolist() for line in panel.get_lines()[1:]}
    assert gaps.pop("before, to the left") == [False, True, False]
    assert list(gaps.values()) == [[False] * 3, [False] * 3]


def test_a_histogram_of_a_measurement_names_the_std_of_its_rows(zoo: Zoo, folder: Path) -> None:
    out = folder / "measured.h5"
    assert ees("measure", zoo["maxvar"], "--std", "0.1,0.7", "--count", 20, "-o", out).returncode == 0
    (panel,) = panels_of("maml", [out])  # the last one is drawn
    assert panel.get_title().endswith("std 0.7")


def test_a_missing_package_is_named_with_its_extra(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, name, run in (("matplotlib", "plane", "ant"), ("scipy.ndimage", "mixture", "mixture")):
        with monkeypatch.context() as patched:  # which leaves alone what is imported meanwhile
            patched.setitem(sys.modules, package, None)
            code, line = refused("figure", name, zoo[run])
        assert code == 2 and "pip install 'ees_mpi[analysis]'" in line and package.split(".")[0] in line


def test_a_sweep_has_a_curve_for_each_value_with_the_mean_of_its_runs(zoo: Zoo) -> None:
    paths = [zoo[name] for name in INGREDIENTS["sweep"]]
    (panel,) = panels_of("sweep", paths, "population.std", "distance_mean")  # type: ignore[arg-type]
    assert [line.get_label() for line in panel.lines] == ["0.005", "0.02, mean of 2 runs"]
    with open_run(paths[0]) as one, open_run(paths[1]) as two:
        mean = (one["distance_mean"][:] + two["distance_mean"][:]) / 2
    assert np.array_equal(panel.lines[1].get_ydata(), mean)
    assert panel.figure.legends[0].get_title().get_text().startswith("population.std")
    assert panel.get_ylabel() == "mean distance from the origin"
    (panel,) = panels_of("sweep", paths)  # the key in which they differ, the metric of progress lines
    assert panel.get_ylabel().startswith("entropy") and len(panel.lines) == 2
    (panel,) = panels_of("sweep", paths[:2])  # nothing but the seed differs
    assert [line.get_label() for line in panel.lines] == ["MaxEnt-EES, mean of 2 runs"]
    draw_curves(panel, {"flat": [np.array([-np.inf, 1.0])] * 2}, ["flat"])  # without a warning of numpy


def test_the_standard_error_of_a_mean_is_that_of_the_textbook() -> None:
    x = 3.0 + np.random.default_rng(0).normal(size=(400, 1))
    outcomes = Outcomes(x, x[:, 0], *2 * (np.ones(400, bool),), np.zeros((0, 1)))
    mutations = Sample(outcomes, Settings(1, places=1), Ranks(), np.zeros(400, np.int32))
    expected = np.abs(x).std() / 20
    assert standard_error(mutations, "distance_mean") == pytest.approx(expected, rel=0.5)
    assert np.isnan(standard_error(mutations.at(np.array([3])), "distance_mean"))
