"""The page on other libraries shows the numbers of jobs/peers/results.json."""

import json

import pytest
import tables
from results import fill

PARTS = json.loads(tables.RESULTS.read_text(encoding="utf-8"))
COLUMN = tables.Column("steps", tables.number("steps"), "{:.0f}")
NAMES = {"ees_mpi": "we", "peer": "peer"}


def rows(ours: tuple[float, ...], theirs: tuple[float, ...]) -> dict[str, list[dict[str, float]]]:
    """Return two rows of one column, with two runs each."""
    return {"ees_mpi": [{"steps": each} for each in ours], "peer": [{"steps": each} for each in theirs]}


def test_the_tables_of_the_page_have_the_numbers_of_the_file() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert fill(page, tables.blocks(PARTS)) == page, "run: python jobs/peers/tables.py update"


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ((3, 4), (1, 2), ""),
        ((3, 1), (2, 2), "too close to call between we and peer"),
        ((3, 3, 3, 1), (2, 2, 2, 2), "too close to call between we and peer"),
        ((1.1, 1.2), (0.9, 1.0), "too close to call between we and peer"),  # the table shows 1 for all
        ((1, 3), (2, 4), "ees_mpi **loses** to peer"),
        ((1,), (3,), "are not compared"),
    ],
)
def test_a_table_names_open_orders_and_losses(ours: tuple[float, ...], theirs: tuple[float, ...], said: str) -> None:
    text = tables.numbers_table([COLUMN], rows(ours, theirs), NAMES)
    assert said in text and text.count("\n- ") == bool(said)
