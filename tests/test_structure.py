"""The order of the package."""

from pathlib import Path

import structure
from support.program import CHECKOUT


def test_the_package_keeps_to_its_map() -> None:
    assert not structure.problems(CHECKOUT / "ees_mpi")


def test_a_circle_an_import_upwards_and_a_room_that_is_not_in_the_map_are_noticed(tmp_path: Path) -> None:
    texts = {
        "__init__": '"""A map:\n\n    high.py   first\n    low.py    second\n    lowest.py third\n\nIts end.\n"""\n',
        "high": "from ees_mpi import low\n",
        "low": 'PART = "ees_mpi.high:name"\n\n\ndef work():\n    import ees_mpi.lowest\n',
        "lowest": "import ees_mpi.low\n",
        "new": "",
    }
    package = tmp_path / "ees_mpi"
    package.mkdir()
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    found = structure.problems(package)
    assert found[:2] == ["not in the module map: new", "against the order: ees_mpi.low imports ees_mpi.high"]
    assert found[2] == "against the order: ees_mpi.lowest imports ees_mpi.low" and found[3].startswith("circle: ")
