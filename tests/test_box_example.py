"""jobs/examples/box.py: a kernel of 1.0 empties the middle of a box, and Scott's rule does not."""

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.program import CHECKOUT

import ees_mpi
from ees_mpi.analysis.numbers.selection import scales, series

pytestmark = pytest.mark.slow


def test_the_logged_entropy_rises_with_a_wide_kernel_while_fewer_cells_are_covered(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("box.py", "box.toml"):
        shutil.copy(CHECKOUT / "jobs" / "examples" / name, inside)
    monkeypatch.syspath_prepend(inside)
    ends = {}
    for width in (1.0, "scott"):
        settings = {"objective.bandwidth": width, "run.generations": 31}
        with ees_mpi.train("box.toml", inside / f"{width}.h5", settings=settings, seed=0) as run:
            scale = scales([run], cell=0.2)[0]
            curves = {name: series(run, name, scale) for name in ("entropy", "entropy_fixed", "coverage")}
            assert np.abs(run["behavior"][:]).max() <= 3
        ends[width] = {name: (curve[0], curve[-1]) for name, curve in curves.items()}
    for name in ("entropy_fixed", "coverage"):
        assert ends[1.0][name][1] < 0.8 * ends[1.0][name][0] and ends[1.0][name][1] < 0.8 * ends["scott"][name][1]
    assert ends[1.0]["entropy"][1] > ends[1.0]["entropy"][0] + 1
    assert ends["scott"]["entropy_fixed"][1] > ends["scott"]["entropy_fixed"][0]


def test_flippers_are_counted_with_means_that_are_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(CHECKOUT / "jobs" / "examples")
    flippers = importlib.import_module("flippers")
    corner, other = [2.9, 2.9], [-2.9, -2.9]
    places = np.array([[corner, other], [other, corner], [corner, corner], [other, other]])
    assert flippers.flips(places) == flippers.nowhere(places) == 0.5
