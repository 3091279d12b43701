"""The list of the arrays of a run file, and what is made of it."""

import pytest
from support.program import TESTS
from support.small_runs import trained

from ees_mpi.config import load
from ees_mpi.metrics import METRICS
from ees_mpi.run.arrays import ARRAYS, check, layout_of, listed
from ees_mpi.store.layout import Array, Layout

LISTED = listed()
SMALL = ("population.size=4", "noise.size=100000", "run.generations=1")
KINDS = {
    "starts": ("cheetah-maxent", "task.steps=4", "task.rollouts=2", "task.starts=own"),
    "learned std": ("interference-maxent", "population.name=diagonal"),
    "MAML": (str(TESTS / "support" / "maml_point.toml"), "population.size=2", "maml.rollouts=2"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_array_of_a_generation_is_in_the_list(kind: str) -> None:
    preset, *more = KINDS[kind]
    config, records = load(preset, [*SMALL, *more]), []
    trained(config, records.append)
    forgotten = sorted(records[0].arrays.keys() - LISTED.keys())
    assert not forgotten, f"add {forgotten} to ARRAYS in ees_mpi/run/arrays.py, or a metric to ees_mpi/metrics.py"
    absent = sorted(layout_of(config).columns.keys() - records[0].arrays.keys())
    assert not absent, f"nobody makes {absent}, which ARRAYS in ees_mpi/run/arrays.py has"


def test_each_array_is_listed_once_with_a_type_and_a_sentence() -> None:
    arrays = [array for group in ARRAYS.values() for array in group]
    assert len(arrays) == len(LISTED.keys() - METRICS.keys()) and all(array.about for array in LISTED.values())
    axes = {axis: 2 for array in LISTED.values() for axis in array.axes}
    assert len(Layout(LISTED.values(), axes).columns) == len(LISTED)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"add": Array("entropi", (), "<f8", "?")}, "its array entropi is not one of a run"),
        ({"add": Array("std", ("parameter",), "<f4", "?")}, "its array std is not one of a run"),
        ({"add": LISTED["shortened"]}, "its config has no array shortened"),
        ({"sizes": {"individual": 5}}, "its axis individual has the length 5; its config says 4"),
        ({"sizes": {"parameter": 7}}, "its axis parameter has the length 7; its config says 1"),
    ],
)
def test_a_list_that_is_not_that_of_a_config_is_refused(change: dict[str, object], said: str) -> None:
    config = load("interference-maxent", SMALL)
    layout = layout_of(config)
    check(layout, config)
    arrays = [*layout.arrays, change["add"]] if "add" in change else layout.arrays
    with pytest.raises(ValueError, match=said):
        check(Layout(arrays, {**layout.sizes, **change.get("sizes", {})}), config)
