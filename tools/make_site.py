"""Build the site from README.md, ees_mpi/docs and jobs with Material for MkDocs; `tools/site` calls it.

The files are staged in the layout of the repository, so that their links work as they are. The navigation is the list
of `ees-mpi docs`. A broken link ends the build with an error.
"""

import argparse
import base64
import json
import logging
import re
import shutil
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config

from ees_mpi.cli.files import contents

CHECKOUT = Path(__file__).resolve().parents[1]
NOTEBOOK = "jobs/examples/tutorial.ipynb"
LARGE = (".h5", ".npz", ".pyc")  # files that no page shows
API = """# Python API

All names are in the package: `import ees_mpi`. [Python](ees_mpi/docs/python.md) shows them at work. Letters in shapes:
N individuals, D parameters, B numbers of a behaviour, O observations, A actions, K means. `Singles` and `Floats` are
arrays of float32 and float64, `Arrays` are arrays by name.
"""
NAMES = {  # the names of the API, by heading
    "Your own loop": ("Strategy", "maxent_weights", "maxvar_weights"),
    "Train, measure and adapt": ("train", "measure", "adapt", "sample", "signal", "presets", "load_config", "shelf"),
    "Run files": ("open_run", "Run"),
    "Plugins": (
        "tasks.base.Rollouts",
        "tasks.base.TaskPlugin",
        "policies.PolicyPlugin",
        "strategy.objectives.base.Objective",
        "strategy.populations.base.PopulationPlugin",
        "strategy.optimizers.base.OptimizerPlugin",
    ),
    "Errors": ("EesError", "ConfigError", "RunFileError", "TaskError", "TrustError", "LaunchError", "Interrupted"),
}
FIRST = {  # the members of a class in the order in which a reader needs them, not in that of the source
    "Strategy": (
        *("ask", "tell", "mean", "generation", "metrics", "state", "resume", "close", "normaliser", "sampled", "seeds"),
        *("rows", "gather", "draw", "noise", "rank"),
    )
}
MORE = {  # pages that are not in `ees-mpi docs`, by shelf
    "Learn": {"Notebook: one network, many behaviours": NOTEBOOK.replace(".ipynb", ".md")},
    "Do": {"Job scripts and examples": "jobs/README.md"},
    "Look up": {"Python API": "api.md", "Trained networks": "ees_mpi/trained/README.md", "Changes": "CHANGELOG.md"},
}
CSS = """.md-typeset img { max-width: 100%; }
.md-typeset p:has(> img + img) { font-size: 0; }
.md-typeset p > img + img + img { width: 99.3%; }
.md-typeset code { overflow-wrap: break-word; }
.md-typeset pre > code { overflow-wrap: normal; font-size: .775em; }
.md-typeset .highlight + .language-text { margin-top: -.8em; }
.md-typeset .highlight + .language-text code { background: none; box-shadow: -3px 0 #8888; }
.md-typeset .headerlink { position: absolute; }
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset table:not([class]) td, .md-typeset table:not([class]) th { min-width: 3rem; padding: .5em .8em; }
.md-typeset :is(td, th) { text-wrap: balance; }
.md-typeset :is(td, th):first-child code { overflow-wrap: normal; word-break: normal; }
.md-typeset table:not([class]):has(th:nth-child(8)) { font-size: .55rem; }
.md-typeset table:not([class]):has(th:nth-child(8)) :is(td, th) { min-width: 0; padding: .4em .35em; }
@media (min-width: 44rem) { .md-typeset td:first-child wbr { display: none; } }
.doc-contents { margin-left: .6rem; padding-left: .8rem; border-left: 1px solid var(--md-default-fg-color--lightest); }
@media (max-width: 44rem) {
  .md-typeset .headerlink { display: none; }
  .md-typeset table:not([class]) :is(td, th) { min-width: 0; padding: .5em .4em; }
  .md-typeset table:not([class]):has(th:nth-child(3)) { font-size: .6rem; }
  .md-typeset table:not([class]):has(th:nth-child(3)) code { padding: 0; font-size: .78em; }
  .md-typeset td:nth-child(3):last-child { min-width: 5.5rem; overflow-wrap: anywhere; }
  .md-typeset table:not([class]):has(th:nth-child(6)) { font-size: .5rem; }
  .md-typeset table:not([class]):has(th:nth-child(6)) :is(td, th) { padding: .4em .25em; }
}
"""


def stage(folder: Path) -> None:
    """Copy all files that pages are made of, or link to, in the layout of the repository."""
    texts = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff")
    for name in (*texts, "ees_mpi/docs", "ees_mpi/trained", "jobs"):
        source = CHECKOUT / name
        files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
        for path in files:
            if path.suffix not in LARGE:
                target = folder / path.relative_to(CHECKOUT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    for page in folder.rglob("*.md"):
        page.write_text(for_the_site(page.read_text(encoding="utf-8")), encoding="utf-8")
    notebook = folder / NOTEBOOK
    notebook.with_suffix(".md").write_text(of_notebook(notebook), encoding="utf-8")
    parts = [API, *(f"## {heading}\n\n{blocks(names)}" for heading, names in NAMES.items())]
    (folder / "api.md").write_text("\n".join(parts), encoding="utf-8")


def blocks(names: tuple[str, ...]) -> str:
    """Return the lines by which mkdocstrings describes some names of the package."""
    options = {
        name: f"    options:\n      members: [{', '.join(members)}]\n      group_by_category: false\n"
        for name, members in FIRST.items()
    }
    return "".join(f"::: ees_mpi.{name}\n{options.get(name, '')}\n" for name in names)


def for_the_site(text: str) -> str:
    """Return a page with the blank lines and the indents of lists that GitHub does not need, and links to the site."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    item = r"(?:[-*]|\d+\.) "
    before = re.compile(rf"^(?!\s*{item}|\s*$|[|<#])(.+)\n(?={item})", re.MULTILINE)
    inner = re.compile(rf"^ {{2,3}}(?={item})", re.MULTILINE)
    mark = r"(?:<!--[^>]*-->)?"
    limits = re.compile(rf"(\(-?[\d.]+){mark} to (-?[\d.]+){mark}\)(?=.*\|)")  # a range in a table
    long = re.compile(r"`([\w./]{18,})`(?=.*\|$)", re.MULTILINE)  # a long name in a table
    for place, part in enumerate(parts[::2]):  # not in blocks of code
        spaced = inner.sub("    ", before.sub(r"\1\n\n", part))
        together = limits.sub(r"\1&nbsp;to&nbsp;\2)", spaced)
        parts[2 * place] = long.sub(lambda found: f"<code>{re.sub(r'(?<=[./_])', '<wbr>', found[1])}</code>", together)
    return "".join(parts).replace("tutorial.ipynb)", "tutorial.md)")


def of_notebook(path: Path) -> str:
    """Return a notebook as a page, with the outputs that it stores."""
    parts = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for place, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if "image/png" in data:
                picture = path.with_name(f"{path.stem}-{number}-{place}.png")
                picture.write_bytes(base64.b64decode("".join(data["image/png"])))
                parts.append(f"![Output]({picture.name})")
            elif said := "".join(output.get("text", data.get("text/plain", ""))):
                parts.append(f"```text\n{said.rstrip()}\n```")
    return "\n\n".join(parts) + f"\n\n[The notebook itself]({path.name}) can be opened in Jupyter.\n"


def navigation() -> list[dict[str, Any]]:
    """Return the pages by shelf, as `ees-mpi docs` lists them, with those that only the site has."""
    shelves: list[dict[str, Any]] = [{"Overview": "README.md"}]
    for shelf, titles in contents().items():
        pages = {title: f"ees_mpi/docs/{topic}.md" for topic, title in titles.items()} | MORE.get(shelf, {})
        shelves.append({shelf: [{title: page} for title, page in pages.items()]})
    return shelves


class Sources(HTMLParser):
    """Collects the pictures, scripts and style sheets that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note the address of a file that the browser loads."""
        given = dict(attributes)
        name = given.get("src") or (given.get("href") if tag == "link" and given.get("rel") == "stylesheet" else None)
        if name and not name.startswith("data:"):
            self.found.append(name)


def problems(site: Path) -> list[str]:
    """Return the files that pages load and that are not in the site: raw HTML is not checked by MkDocs."""
    wrong = []
    for page in sorted(site.rglob("*.html")):
        sources = Sources()
        sources.feed(page.read_text(encoding="utf-8"))
        names = (name.partition("?")[0] for name in sources.found)
        files = {name: (site / name[1:] if name.startswith("/") else page.parent / name) for name in names}
        wrong += [f"{page.relative_to(site)}: {name}" for name, file in files.items() if not file.is_file()]
    return wrong


def render(pages: Path, site: Path, nav: list[dict[str, Any]] | None) -> None:
    """Build the site from staged pages; a warning, such as one of a broken link, ends the program."""
    logging.basicConfig(format="tools/site: %(message)s", level=logging.WARNING)
    (pages / "site.css").write_text(CSS, encoding="utf-8")
    folders = {"docs_dir": str(pages.resolve()), "site_dir": str(site.resolve())}
    build(load_config(str(CHECKOUT / "tools" / "mkdocs.yml"), **folders, nav=nav))


def main(words: list[str] | None = None) -> int:
    """Stage the pages, build the site, and check it; return the exit code."""
    parser = argparse.ArgumentParser(prog="tools/site", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a new one  [default: build/site, which is replaced]")
    named = parser.parse_args(words).folder
    if named and named.exists():
        parser.error(f"{named} exists; expected the name of a new folder")
    site = (named or CHECKOUT / "build" / "site").resolve()
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        render(Path(folder), site, navigation())
    if wrong := problems(site):
        print("tools/site: these files are missing:", *wrong, sep="\n  ", file=sys.stderr)
        return 1
    print(f"{site / 'index.html'}: python -m http.server --directory {site} shows it, with its search")
    return 0


if __name__ == "__main__":
    sys.exit(main())
