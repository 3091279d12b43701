"""The page `ees-mpi docs scg`: its examples run in order, and print what it says."""

import contextlib
import io
import re
from typing import Any

import pytest
from support.program import CHECKOUT

NUMBER = re.compile(r"-?\d+\.\d+")


def test_the_examples_of_the_page_print_what_it_says() -> None:
    page = (CHECKOUT / "ees_mpi" / "docs" / "scg.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for code, expected in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert NUMBER.sub("_", printed.getvalue()) == NUMBER.sub("_", expected)
        numbers = [[float(each) for each in NUMBER.findall(text)] for text in (printed.getvalue(), expected)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.05)
    assert len(found) == page.count("```python") == 5
