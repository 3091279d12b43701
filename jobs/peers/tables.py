#!/usr/bin/env python3
"""Keep what run.sh has measured in results.json, and write the tables of docs/peers.md from it.

python jobs/peers/tables.py collect FOLDER ...  makes results.json from the parts of all runs, then updates the page
python jobs/peers/tables.py update              updates the page from results.json
"""

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ees_mpi.machine import fingerprint

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "paper"))

RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "ees_mpi" / "docs" / "peers.md"
ROWS = {
    "ees_mpi-maxent": "ees_mpi (MaxEnt)",
    "ees_mpi-es": "ees_mpi (standard ES)",
    "evosax": "evosax (Open_ES)",
    "evotorch": "EvoTorch (PGPE)",
    "pyribs": "pyribs (CMA-MAE)",
    "archive": "the archive of pyribs",
    "cma": "cma (CMA-ES)",
    "layout": "the authors' layout",
}
PEERS = ("evosax", "evotorch", "pyribs", "cma")
Parts = dict[str, dict[str, list[dict[str, Any]]]]  # piece -> library -> what each run found


class Column(NamedTuple):
    """A column of numbers: how to find one, how to write it, and whether more is better."""

    title: str
    value: Callable[[dict[str, Any]], float | None]
    form: str
    more: bool = True

    def cell(self, value: float) -> str:
        """Return a number as the table shows it."""
        return self.form.format(round(value, 6) + 0.0)

    def known(self, rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[float]]:
        """Return the numbers of the rows that have one for each run, as the table shows them; more is better."""
        sign = 1 if self.more else -1
        values = {name: [self.value(part) for part in parts] for name, parts in rows.items()}
        return {
            name: [sign * float(self.cell(value).replace(",", "").rstrip("%")) for value in runs]
            for name, runs in values.items()
            if None not in runs
        }


def number(key: str, unit: float = 1) -> Callable[[dict[str, Any]], float | None]:
    """Return a function that finds a number, in a unit."""
    return lambda part: None if part.get(key) is None else part[key] / unit


def median(measure: Callable[[dict[str, Any]], float]) -> Callable[[dict[str, Any]], float]:
    """Return a function that finds the median over the seeds of a measure of offspring."""
    return lambda part: statistics.median(map(measure, part["offspring"]))


def speed(part: dict[str, Any]) -> float | None:
    """Return the median over the seeds of the steps in a CPU second."""
    return statistics.median(part["steps_per_s"]) if "steps_per_s" in part else None


ROLLOUT = [
    Column("steps per CPU second", number("steps_per_s"), "{:,.0f}"),
    Column("share of physics", number("physics"), "{:.0%}"),
]
UPDATE = [
    Column("CPU seconds", number("cpu_s"), "{:.2f}", more=False),
    Column("peak memory, GB", number("peak_bytes", 1e9), "{:.2f}", more=False),
]
WALK = [
    Column("coverage", median(lambda each: each["coverage"]), "{:.3f}"),
    Column("entropy", median(lambda each: each["entropy"]), "{:.2f}"),
    Column("best of 40 at 0°", median(lambda each: each["best_of_40"][0]), "{:.1f}"),
    Column("at the worst of 0°, 120°, 240°", median(lambda each: min(each["best_of_40"])), "{:.1f}"),
    Column("steps per CPU second", speed, "{:,.0f}"),
]


def unordered(known: dict[str, list[float]]) -> dict[str, list[str]]:
    """Return, for each row of ours, those of others that are better in some runs and not in others, or equal."""
    found: dict[str, list[str]] = {}
    for ours, other in ((a, b) for a in known for b in known if a.startswith("ees_mpi") > b.startswith("ees_mpi")):
        signs = {(x > y) - (x < y) for x, y in zip(known[ours], known[other], strict=True)}
        if len(signs) > 1 or 0 in signs:
            found.setdefault(ours, []).append(other)
    return found


def numbers_table(columns: list[Column], found: dict[str, list[dict[str, Any]]], names: dict[str, str]) -> str:
    """Return a table with the range of all runs in each cell; below it, rows whose order differs, columns we lose."""
    found = {name: [part for part in parts if not part.get("failed")] for name, parts in found.items()}
    most = max([2, *map(len, found.values())])
    rows = {name: parts for name, parts in found.items() if len(parts) == most}
    lines = ["| | " + " | ".join(column.title for column in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, parts in found.items():
        cells = [interval(column, parts) for column in columns]
        lines.append(f"| {names[name]} | " + " | ".join(cells) + " |")
    notes = []
    if few := [names[name] for name in found if name not in rows]:
        notes.append(f"- Fewer runs than the others, so that they are not compared: {'; '.join(few)}.")
    if missing := [title for name, title in names.items() if name not in found]:
        notes.append(f"- Not measured yet: {'; '.join(missing)}.")
    said: dict[str, list[str]] = {}  # sentence -> the columns that it is about
    for column in columns:
        known = column.known(rows)
        for ours, others in unordered(known).items():
            listed = " or ".join(names[name] for name in others)
            said.setdefault(f"too close to call between {names[ours]} and {listed}", []).append(column.title)
        if better := winners(known):
            listed = " and ".join(names[name] for name in better)
            said.setdefault(f"ees_mpi **loses** to {listed}", []).append(column.title)
    notes += [f"- {' and '.join(titles)}: {sentence}." for sentence, titles in said.items()]
    return "\n".join(lines) + "\n\n" + "\n".join(notes) + ("\n" if notes else "")


def interval(column: Column, parts: list[dict[str, Any]]) -> str:
    """Return the lowest and the highest number of all runs; one number where both look the same."""
    values = [value for part in parts if (value := column.value(part)) is not None]
    ends = [column.cell(min(values)), column.cell(max(values))] if values else ["-"]
    return " to ".join(dict.fromkeys(ends))


def winners(known: dict[str, list[float]]) -> list[str]:
    """Return the rows that are better than all of ours in every run."""
    ours = [runs for name, runs in known.items() if name.startswith("ees_mpi")]
    best = [max(run) for run in zip(*ours, strict=True)]
    return [name for name, runs in known.items() if best and all(x > y for x, y in zip(runs, best, strict=True))]


def tried(parts: Parts) -> str:
    """Return the table of what was tried: other numbers of workers, kills, the disk."""
    lines = [
        "| | same bits, walker | same bits, D = 75,000 | after two SIGKILLs | left on disk |",
        "|---|---|---|---|---|",
    ]
    for name in ("ees_mpi-maxent", *PEERS):
        kills = parts["kill"].get(name, [])
        cells = [agreed([bits(part, task) for part in parts["bits"].get(name, [])]) for task in ("walker", "large")]
        cells.append(agreed(["the same network" if part["same"] else "continues, another network" for part in kills]))
        cells.append(agreed([disk(part) for part in kills[:1]]))
        lines.append(f"| {ROWS[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def disk(part: dict[str, Any]) -> str:
    """Return how much lies on disk after a run."""
    count = part["disk_files"]
    return f"{count} file{'s' * (count != 1)}, {part['disk_bytes'] / 1e3:,.0f} kB" if count else "nothing"


def bits(part: dict[str, Any], task: str) -> str:
    """Return what the try with other numbers of workers has shown."""
    return "failed" if "failed" in part else ", ".join("yes" if each else "no" for each in part[task])


def agreed(answers: list[str]) -> str:
    """Return the answer of all runs, or all their answers."""
    return "; ".join(dict.fromkeys(answers)) or "not tried"


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """Return the generated parts of the page, by the name of their markers."""
    parts: Parts = results["parts"]
    loops = {"ees_mpi-maxent": "ees_mpi", "evotorch": "EvoTorch (GymNE)", "cma": "your own loop (evosax, pyribs, cma)"}
    many = {"cma": "cma (CMA-ES with a diagonal, N = 1,000)", "pyribs": "pyribs (CMA-MAE's emitter with openai_es)"}
    updates = {**ROWS, **many}  # what these two run with 75,000 parameters
    walks = {name: title for name, title in ROWS.items() if name != "layout"}
    archives = [{"offspring": part["archive"]} for part in parts["walk"].get("pyribs", [])]
    del updates["archive"]

    def rows(found: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
        return {name: found[name] for name in names if found.get(name)}

    return {
        "machine": f"{results['machine']}. Versions: {', '.join(results['versions'])}.\n",
        "rollout": numbers_table(ROLLOUT, rows(parts["rollout"], loops), loops),
        "update": numbers_table(UPDATE, rows(parts["update"], updates), updates),
        "tried": tried(parts),
        "walk": numbers_table(WALK, rows({**parts["walk"], "archive": archives}, walks), walks),
    }


def collect(folders: list[Path]) -> dict[str, Any]:
    """Return the parts of all runs as one table."""
    parts: Parts = {piece: {} for piece in ("rollout", "update", "bits", "kill", "walk")}
    for path in (path for folder in folders for path in sorted(folder.glob("*.json"))):
        piece, name = path.stem[:-2].split("-", 1)
        parts[piece].setdefault(name, []).append(json.loads(path.read_text()))
    packages = {"ees_mpi-maxent": "ees_mpi", **{name: ROWS[name].split(" (")[0] for name in PEERS}}
    versions = [
        f"{package} {agreed([run['version'] for part in parts.values() for run in part.get(name, [])])}"
        for name, package in packages.items()
    ]
    machine = f"{fingerprint()['cpu']}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return {"machine": machine, "versions": versions, "parts": parts}


def main() -> None:
    """Run one of the commands."""
    from results import fill  # of jobs/paper

    command, *folders = sys.argv[1:] or [""]
    if command not in ("collect", "update") or (command == "collect") != bool(folders):
        sys.exit("tables.py: expected `collect FOLDER ...` or `update`")
    if command == "collect":
        RESULTS.write_text(json.dumps(collect([Path(folder) for folder in folders])) + "\n", encoding="utf-8")
    tables = blocks(json.loads(RESULTS.read_text(encoding="utf-8")))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
