"""Fill a tree with what only the owners know, tools/owners.toml, before `tools/release` builds it."""

import re
import tomllib
from pathlib import Path
from typing import Any

OWNERS = "tools/owners.toml"
NOBODY = "the ees_mpi developers"


def read(root: Path) -> dict[str, Any]:
    """Return what the owners have filled in, and the empty places."""
    return tomllib.loads((root / OWNERS).read_text(encoding="utf-8"))


def empty(root: Path) -> list[str]:
    """Return the names of all values that nobody has filled in."""
    found = read(root)
    named = {**found.pop("urls", {}), **{key: value for key, value in found.items() if key != "authors"}}
    for number, author in enumerate(found.get("authors", []), 1):
        named |= {f"{key} of author {number}": value for key, value in author.items()}
    return [f"{OWNERS}: {name}" for name, value in named.items() if not value]


def fill(root: Path, version: str) -> None:
    """Write what the owners have filled in into the files of a tree."""
    owners = read(root)
    authors = [author for author in owners.get("authors", []) if author.get("family-names")]
    urls = {name: url for name, url in owners.get("urls", {}).items() if url}
    _replace(root / "pyproject.toml", *_metadata(authors, urls))
    _replace(root / "CITATION.cff", *_citation(authors, urls, owners, version))
    if owners.get("date"):
        _replace(root / "CHANGELOG.md", (f"## {version}\n", f"## {version} ({owners['date']})\n"))
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    for kind, mark in (("pages", r"\]\("), ("pictures", r'src="')):
        if owners.get(kind):
            text = re.sub(rf"({mark})(?!https?:|#)", rf"\g<1>{owners[kind].rstrip('/')}/", text)
    readme.write_text(text, encoding="utf-8")


def _metadata(authors: list[dict[str, str]], urls: dict[str, str]) -> list[tuple[str, str]]:
    """Return the changes of pyproject.toml."""
    changes = []
    if authors:
        people = [
            {"name": f"{author['given-names']} {author['family-names']}", "email": author.get("email")}
            for author in authors
        ]
        tables = (", ".join(f"{key} = {_quoted(value)}" for key, value in each.items() if value) for each in people)
        changes.append((f'authors = [{{ name = "{NOBODY}" }}]\n', f"authors = [{{ {' }, { '.join(tables)} }}]\n"))
    if urls:
        lines = "".join(f"{name} = {_quoted(url)}\n" for name, url in urls.items())
        changes.append(("[project.scripts]\n", f"[project.urls]\n{lines}\n[project.scripts]\n"))
    return changes


def _citation(
    authors: list[dict[str, str]], urls: dict[str, str], owners: dict[str, Any], version: str
) -> list[tuple[str, str]]:
    """Return the changes of CITATION.cff."""
    people = ""
    for author in authors:
        lines = [f"{key}: {_quoted(value)}" for key, value in author.items() if value]
        people += "  - " + "\n    ".join(lines) + "\n"
    facts: dict[str, Any] = {
        "version": version,
        "date-released": owners.get("date"),
        "doi": owners.get("doi"),
        "repository-code": urls.get("Repository"),
        "url": urls.get("Homepage"),
    }
    facts = {name: value for name, value in facts.items() if value}
    added = "".join(f"{name}: {_quoted(value)}\n" for name, value in facts.items())
    nobody = f"  - name: {NOBODY}\n"
    return [(nobody, people or nobody), ("preferred-citation:\n", f"{added}preferred-citation:\n")]


def _quoted(value: str) -> str:
    """Return a text in quotation marks, as TOML and YAML have them."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _replace(path: Path, *changes: tuple[str, str]) -> None:
    """Replace texts of a file; each must be there once."""
    text = path.read_text(encoding="utf-8")
    for before, after in changes:
        if text.count(before) != 1:
            raise SystemExit(f"release: expected {before.strip()!r} once in {path.name}")
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")
