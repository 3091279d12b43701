#!/usr/bin/env python3
"""Keep the results of runs in jobs/paper/results/: an HDF5 file per block of runs, and numbers.csv with a row per run.

    python jobs/paper/results.py pack runs/sixth ...       adds the runs of a folder of small files to its block
    python jobs/paper/results.py update                    numbers.csv, heritability.csv, figures, tables
    python jobs/paper/results.py quoted                    prints the numbers that pages quote, by their sources

The small files are those that this script wrote with the code of the plans (`git show 08614bcb:jobs/paper/results.py`,
`collect`). They stay outside of git; blocks.py describes what a block keeps of them, endpoints.py the columns.
A block keeps no trained mean: a `policy.npz` among the small files is left out. One that is copied into
ees_mpi/trained needs a card like those beside it, and a line in the README there.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import claims
import endpoints
import numpy as np
import page_tables as tables
from blocks import read_block, read_by_start, read_folder, with_adaptations, write_block
from groups import read_groups
from quoted import quoted

from ees_mpi.errors import ConfigError, EesError

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SHELF, DOCS = (HERE.parents[1] / "ees_mpi" / name for name in ("trained", "docs"))
QUOTING = (HERE.parents[1] / "README.md", *(DOCS / f"{name}.md" for name in ("results", "heritability", "fidelity")))


def pack(folders: Sequence[Path], results: Path) -> None:
    """Add the runs of each folder to the block of its name."""
    for folder in folders:
        found = [read_folder(path.parent) for path in sorted(folder.glob("*/run.json"))]
        if not found:
            raise ConfigError(f"{folder}: expected folders of small files with run.json in them")
        path = results / f"{folder.resolve().name}.h5"
        kept = {run.name: run for run in (read_block(path) if path.exists() else [])}
        kept |= {run.name: run for run in found}
        runs = [with_adaptations(run, folder / run.name) for run in kept.values()]
        by_start = read_by_start(path) if path.exists() else {}
        by_start |= {raw.parent.name: np.load(raw)["by_start"] for raw in folder.glob("*/by_start.npz")}
        write_block(path, runs, by_start)
        print(f"{path}: {len(runs)} runs, {path.stat().st_size / 1e6:.2f} MB")


def pages() -> dict[str, dict[str, str]]:
    """Return the generated tables of each page of the docs, by the name of their markers."""
    known = read_groups(RESULTS)
    return {
        "results.md": {"claims": claims.table(known)},
        "heritability.md": {"ants": tables.arms(known, "ant"), "cheetahs": tables.arms(known, "cheetah")},
    }


def sources(text: str) -> dict[str, float]:
    """Return the numbers that a text quotes, by the source that stands behind each."""
    known = read_groups(RESULTS)
    return {name: quoted(name, known) for name in re.findall(r"<!-- ([^>]+?: [^>]+?)(?: %)? -->", text)}


def fill(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with new text between its markers."""
    for name, made in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ConfigError(f"the page: expected one {begin.strip()} and one {end}")
        text = text[: text.index(begin) + len(begin)] + made + text[text.index(end) :]
    return text


def update() -> None:
    """Write everything that is made from the blocks: numbers.csv, heritability.csv, figures, tables."""
    from results_figures import draw

    print(endpoints.write(RESULTS), endpoints.write_measured(RESULTS), *draw(RESULTS, RESULTS / "figures"), sep="\n")
    for name, made in pages().items():
        path = DOCS / name
        path.write_text(fill(path.read_text(encoding="utf-8"), made), encoding="utf-8")
        print(path)


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["pack", "update", "quoted"])
    parser.add_argument("folders", nargs="*", type=Path, help="of small files, for `pack`")
    told = parser.parse_args()
    if (told.command == "pack") != bool(told.folders):
        parser.error("expected folders with `pack`, and only there")
    match told.command:
        case "pack":
            pack(told.folders, RESULTS)
        case "update":
            update()
        case "quoted":
            text = "".join(page.read_text(encoding="utf-8") for page in QUOTING)
            print(*(f"{value:<12.6g} {name}" for name, value in sources(text).items()), sep="\n")


if __name__ == "__main__":
    try:
        main()
    except (EesError, OSError) as error:
        sys.exit(f"results.py: {error}")
