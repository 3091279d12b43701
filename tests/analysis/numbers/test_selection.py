"""The lengths of metrics fit the places of all generations of all files; those of the paper's robots are its own."""

from pathlib import Path

import numpy as np
import pytest
from support.program import done
from support.small_runs import Zoo

import ees_mpi
from ees_mpi import open_run
from ees_mpi.analysis.numbers.selection import scales, series
from ees_mpi.arrays import Floats
from ees_mpi.metrics import METRICS, Sample
from ees_mpi.spread import rounded


def told(path: Path, places: list[Floats]) -> Path:
    """Write a run of one's own loop whose generations end at some places."""
    noise = {"noise": {"size": 500}}
    with ees_mpi.Strategy(np.zeros(2), size=len(places[0]), std=0.1, config=noise, record=path) as es:
        for rows in places:
            es.ask()
            es.tell(rows)
    return path


def box(seed: int, side: float = 6.0) -> Floats:
    return np.random.default_rng(seed).uniform(-side / 2, side / 2, (200, 2))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("two")
    wild = box(2) * [1, 10]
    wild[:8] *= 300  # four of a hundred of the file
    return told(folder / "small.h5", [box(0, 0.1), box(1, 0.1)]), told(folder / "large.h5", [box(3) * [1, 10], wild])


def test_lengths_are_those_of_all_files_and_generations_without_outliers(two: tuple[Path, Path]) -> None:
    with open_run(two[0]) as small, open_run(two[1]) as large:
        alone, each = scales([small])[0], scales([large])[0]
        together = scales([small, large])
        assert alone.cell.tolist() == [0.005, 0.005] and alone.radius == 0.01
        assert each.cell.tolist() == [0.2, 2.0] and str(each) == "cells of 0.2 x 2, radius 5"
        assert together[0] == together[1] and together[0].cell.tolist() == [0.2, 2.0]
        chosen = scales([large], cell=0.3)[0]
        assert chosen.cell.tolist() == [0.3, 0.3] and chosen.radius == each.radius
    for command in ("metrics", "compare"):
        sides = ("--against", two[1], "--metric", "coverage") if command == "compare" else (two[1],)
        assert "cells of 0.2 x 2" in done(command, two[0], *sides).stdout
    assert "cells of 0.7, radius 3" in done("metrics", *two, "--cell", 0.7, "--radius", 3).stdout


def test_lengths_are_rounded_to_1_2_or_5_and_a_constant_has_1() -> None:
    lengths = {0.27: 0.2, 0.04: 0.05, 1.3: 1.0, 8.0: 10.0, 0.0: 1.0}
    assert {length: rounded(length) for length in lengths} == lengths


def test_the_robots_of_the_paper_have_cells_of_1_and_a_radius_of_5(zoo: Zoo) -> None:
    with open_run(zoo["ant"]) as run:  # six steps lead nowhere
        assert str(scales([run])[0]) == "cells of 1, radius 5"


def test_a_curve_of_the_fixed_entropy_is_computed_for_sixty_generations_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    metric = METRICS["entropy_fixed"]

    def counting(sample: Sample) -> float:
        seen.append(metric.compute(sample))
        return seen[-1]

    monkeypatch.setitem(METRICS, "entropy_fixed", metric._replace(compute=counting))
    path = told(tmp_path / "long.h5", [box(g)[:10] for g in range(150)])
    with open_run(path) as run:
        curve = series(run, "entropy_fixed", scales([run])[0])
    assert len(seen) == 60 and len(curve) == 150 and np.isfinite(curve).all()
    assert curve[[0, -1]].tolist() == [seen[0], seen[-1]]
