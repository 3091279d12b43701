"""The site: it is built from the pages, a broken link ends the build, and a browser shows it."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.program import CHECKOUT

import ees_mpi

pytest.importorskip("material", reason="needs the extra docs")
griffe_extension: Any = pytest.importorskip("griffe_extension", reason="needs the extra docs", exc_type=ImportError)
make_site: Any = pytest.importorskip("make_site", reason="needs the extra docs", exc_type=ImportError)


BUILDS = """
import make_site, pathlib
for text in ("[itself](index.md)", "[nothing](nothing.md)", "[nothing](index.md#nothing)", "no link"):
    pathlib.Path("pages", "index.md").write_text(f"# A page\\n\\n{text}\\n")
    try:
        make_site.render(pathlib.Path("pages"), pathlib.Path("site"), None)
        print("good")
    except SystemExit as error:
        print("ended" if error.code else "good")
"""


@pytest.mark.slow
def test_a_broken_link_ends_the_build(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'tools'}"}
    (tmp_path / "pages").mkdir()
    done = subprocess.run([sys.executable, "-c", BUILDS], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.split() == ["good", "ended", "ended", "good"], done.stderr


def test_a_picture_of_raw_html_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<img src="b.gif"><img src="a.html?x"><img src="data:,"><a href="c">c</a>')
    assert make_site.problems(tmp_path) == ["a.html: b.gif"]


def test_the_navigation_has_every_page_on_its_shelf() -> None:
    shelves = {name: entries for each in make_site.navigation() for name, entries in each.items()}
    assert list(shelves) == ["Overview", "Learn", "Do", "Look up", "Understand"]
    pages = {page for name in list(shelves)[1:] for entry in shelves[name] for page in entry.values()}
    assert {f"ees_mpi/docs/{path.name}" for path in (CHECKOUT / "ees_mpi" / "docs").glob("*.md")} <= pages


def test_the_page_of_the_api_has_every_public_name_and_protocols_that_exist() -> None:
    names = [name for names in make_site.NAMES.values() for name in names]
    public = set(ees_mpi.__all__) - {"__version__"}
    assert {name for name in names if "." not in name} == public, "tools/make_site.py: NAMES has all public names"
    for path in [name for name in names if "." in name]:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(f"ees_mpi.{module}"), name)
