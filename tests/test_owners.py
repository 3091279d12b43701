"""What only the owners can fill in is in one file, and `tools/release` writes it into the tree that it builds."""

import re
import shutil
import tomllib
from pathlib import Path

import owners
from support.program import CHECKOUT, needs_results

from ees_mpi.version import __version__ as VERSION

pytestmark = needs_results  # the files of an sdist have been filled in

FILES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "README.md", owners.OWNERS)
FILLED = """
date = "2027-01-31"
doi = "10.1/2"
pages = "https://a.org/blob/v1/"
pictures = "https://a.org/raw/v1"

[urls]
Repository = "https://a.org/ees"

[[authors]]
given-names = "Ada \\"A\\""
family-names = "Bee"
email = "ada@a.org"
orcid = "https://orcid.org/1"

[[authors]]
given-names = "Cem"
family-names = "Dee"
"""


def tree(folder: Path) -> Path:
    """Copy the files that are filled in."""
    for name in FILES:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, folder / name)
    return folder


def test_the_values_of_the_owners_are_in_the_tree_that_is_built(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    (folder / owners.OWNERS).write_text(FILLED)
    owners.fill(folder, VERSION)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["authors"] == [{"name": 'Ada "A" Bee', "email": "ada@a.org"}, {"name": "Cem Dee"}]
    assert project["urls"] == {"Repository": "https://a.org/ees"} and "ees-mpi" in project["scripts"]
    citation = (folder / "CITATION.cff").read_text()
    added = f'version: "{VERSION}"\ndate-released: "2027-01-31"\ndoi: "10.1/2"\nrepository-code: "https://a.org/ees"\n'
    assert added in citation and '    family-names: "Dee"\n' in citation and owners.NOBODY not in citation
    assert f"\n## {VERSION} (2027-01-31)\n" in (folder / "CHANGELOG.md").read_text()
    links = re.findall(r'(?:\]\(|src=")([^)"]+)', (folder / "README.md").read_text())
    assert "https://a.org/blob/v1/ees_mpi/docs/tutorial.md" in links and all(re.match("http|#", link) for link in links)
    assert "https://a.org/raw/v1/jobs/paper/pictures/ant.gif" in links


def test_every_empty_value_is_named(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    text = 'date = "x"\ndoi = ""\n[urls]\nIssues = ""\n[[authors]]\nemail = ""\n'
    (folder / owners.OWNERS).write_text(text)
    assert [each.partition(": ")[2] for each in owners.empty(folder)] == ["Issues", "doi", "email of author 1"]
