"""The commands about files and configs: info, repair, export, config, sweep, presets, docs, jobs."""

import filecmp
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click

from ees_mpi import ranks
from ees_mpi.cli import command, echo, print_notes
from ees_mpi.commands import arguments as kinds
from ees_mpi.commands import requests, shelf
from ees_mpi.commands.arguments import Option, path_of
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.registry import unknown

PACKAGE = Path(__file__).parents[1]
DOCS = PACKAGE / "docs"
# The build puts the folder jobs of a checkout into the package.
JOBS = PACKAGE / "jobs" if (PACKAGE / "jobs").is_dir() else PACKAGE.parent / "jobs"
BEGIN = {  # presets to begin with, and what to expect of each
    "interference-maxent": "The paper's first task, a function of one number: two minutes on one core",
    "cheetah-maxent-authors-laptop": "A cheetah whose mutations run left and right: 11 minutes on two cores",
    "gymnasium-ant-maxent-laptop": "An ant whose mutations walk in many directions, without pybullet: half an hour",
    "cheetah-maxent-authors": "The paper's cheetah in full: a cluster, or a GPU with --set task.engine=mujoco",
    "ant-maxent-heritable": "An ant whose mutations do the same from other starts: a cluster, or a GPU as above",
}
PRESETS = {  # headings, and what the names under them have; the first heading that fits is taken
    "The paper's experiments, by its text": (
        "^(interference|cheetah|ant)-(es|maxvar|maxent|adapt|maml)(-mixture|-split)?$"
    ),
    "The same, by the rules of the authors' released program": "-authors$",
    "To use the variety: the mean of several own starts of each individual": "-heritable$",
    "Gymnasium's robots": "^gymnasium-(ant|cheetah)-[a-z]+$",
    "Small ones, for a laptop": "-laptop$",
    "Others": "",
}


def read_seeds(name: str, word: str) -> tuple[int, ...]:
    """Return the seeds of numbers and ranges, such as 0-5,8, in the order in which they are given."""
    seeds: list[int] = []
    for part in word.split(","):
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if last < first:
            raise ConfigError(f"{name}: expected numbers and ranges, such as 0-5 or 1,4,7; got {word!r:.80}")
        seeds += range(first, last + 1)
    return tuple(seeds)


SEEDS = kinds.Kind(read_seeds, "0-5")


@command()
def info(
    runs: Annotated[Sequence[Path], Option("", kinds.RUN_OR_POLICY, "RUN.h5|shelf:NAME ...")],
    sort: Annotated[
        str | None,
        Option("Of a table: a column, a key such as population.std, or -KEY: largest first.", usage="--sort KEY"),
    ] = None,
    complete: Annotated[bool, Option("Print nothing: the exit code is 0 if all files are complete, else 1.")] = False,
    as_json: requests.Json = False,
) -> None:
    """Print a summary of a run, sample or adaptation file, or a table.

    The table of several files shows the keys in which they differ, and how far unfinished runs are. JSON: one object
    per line. Of shelf:NAME, the card.
    """
    from ees_mpi.commands import info

    if complete:
        sys.exit(0 if all(map(info.is_complete, runs)) else 1)
    if len(runs) == 1 and not as_json and (card := shelf.card(runs[0])):
        echo(card, nl=False)
        return
    summaries, failed = [], []
    for run in runs:
        try:
            summaries.append(info.read(run))
        except RunFileError as error:
            if len(runs) == 1:
                raise
            failed.append(error)
    summaries = info.in_order(summaries, sort)
    if as_json:
        echo("\n".join(map(json.dumps, summaries)))
    elif len(runs) == 1:
        echo("\n".join(info.lines(summaries[0])))
    elif summaries:
        from ees_mpi.analysis.numbers.tables import columns

        more = info.notes(summaries)
        echo("\n".join([*columns(info.table(summaries)), *([""] if more else []), *more]))
    if failed:
        raise RunFileError(f"{len(failed)} of {len(runs)} files cannot be read; the first: {failed[0]}")


@command()
def repair(run: requests.RunArgument) -> None:
    """Fold the journal of a killed run into its file, and check all of it.

    `resume` does the first, too. A damaged file is named with its arrays and generations; nothing mends it.
    """
    from ees_mpi.run.file import open_run
    from ees_mpi.store import journal
    from ees_mpi.store.writer import repair

    path = path_of(run)
    done = "journal folded" if journal.path_of(path).exists() else "no journal to fold"
    warning = repair(path)
    with open_run(path) as opened:
        echo(f"{path}: {opened.generations} generations, {done}" + (f"\nwarning: {warning}" if warning else ""))
        opened.check_all()


@command()
def export(
    run: requests.RunArgument,
    policy: Annotated[bool, Option("A policy with its normaliser, as npz.")] = False,
    table: Annotated[bool, Option("The metrics as a table, one row per generation.", usage="--csv")] = False,
    generation: Annotated[int | None, Option("Of a policy.  [default: the final state]", kinds.ANY_WHOLE)] = None,
    individual: Annotated[int | None, Option("Of a policy.  [default: the mean]", kinds.whole())] = None,
    component: Annotated[int | None, Option("The mean, of a mixture.", kinds.whole())] = None,
    out: Annotated[Path | None, Option("[default: policy*.npz or RUN.csv]", kinds.FILE, "-o, --out FILE")] = None,
    overwrite: requests.Overwrite = False,
    trust: requests.Trust = False,
) -> None:
    """Write a policy or the metrics of a run file for other programs.

    `ees-mpi docs tutorial` has the lines of numpy that load a policy. Arrays: see `ees-mpi docs python`.
    """
    given = {"--generation": generation, "--individual": individual, "--component": component}
    of_policy = [name for name, value in given.items() if value is not None]
    if policy is table:
        raise ConfigError("expected either --policy or --csv")
    if table and of_policy:
        raise ConfigError(f"{of_policy[0]} does not belong to --csv")
    if None not in (individual, component):
        raise ConfigError("--individual and --component exclude each other: an individual has one component")
    from ees_mpi.commands.export import export_csv, export_policy
    from ees_mpi.run.file import open_run, tell_missing

    with tell_missing(open_run(path_of(run), trust)) as opened:
        if table:
            echo(str(export_csv(opened, out, overwrite)))
        else:
            echo(str(export_policy(opened, out, *given.values(), overwrite=overwrite)))


@command()
def config(
    source: Annotated[str | None, Option("", kinds.SOURCE, "[PRESET|FILE.toml|RUN.h5|shelf:NAME]")] = None,
    settings: requests.KeyChanges = None,
    keys: Annotated[
        bool, Option("Every key with its type, unit and meaning; without a source, all there are.")
    ] = False,
) -> None:
    """Print the whole config of a preset, a config file or a run file.

    No environment is opened, and no code of yours runs.
    """
    from ees_mpi.config import keys as listing
    from ees_mpi.registry import flat
    from ees_mpi.registry.toml import source_of
    from ees_mpi.run.start import load

    if source is None and not keys:
        raise ConfigError("expected PRESET, FILE.toml or RUN.h5; or --keys for a list of all keys")
    found = source_of(path_of(source)) if source else None
    resolved = load(found, requests.changes_of(settings)) if found else None
    if keys:
        values = dict(flat(resolved.sections())) if resolved else None
        every = listing.sections()
        echo("\n".join(listing.text(every, values)))
    elif resolved:
        print_notes(resolved.notes)
        echo(resolved.to_toml(), nl=False)


@command()
def sweep(
    source: requests.SourceArgument,
    settings: requests.KeyChanges = None,
    seeds: Annotated[Sequence[int], Option("Random seeds, one run each: 0-5 or 1,4,7.", SEEDS)] = (),
    out: Annotated[Path | None, Option("The folder of the run files.", kinds.FOLDER, "-o, --out FOLDER")] = None,
) -> None:
    """Print one `ees-mpi train` command for each run of a sweep.

    --set population.std=0.01,0.02 has two values; each combination of values and seeds is a run with its own file. The
    lines are for bash, xargs, GNU parallel or jobs/array.slurm; repeated, they skip complete runs and continue others.
    """
    from ees_mpi.config.sweeps import runs

    for file, chosen in runs(source, [*map(str, requests.changes_of(settings))], seeds).items():
        words = [word for setting in chosen for word in ("--set", setting)]
        echo(shlex.join(["ees-mpi", "train", source, *words, "--out", str((out or Path()) / file), "--resume"]))


@command()
def presets(name: Annotated[str, Option(usage="[NAME]")] = "") -> None:
    """List the presets, or print the TOML of one."""
    from ees_mpi import config
    from ees_mpi.commands import api

    if name:
        echo(config.read_source(name), nl=False)
        return
    about = api.presets()
    groups = {heading: list[str]() for heading in PRESETS}
    for preset in about:
        first = next(heading for heading, pattern in PRESETS.items() if re.search(pattern, preset))
        groups[first].append(f"  {preset:32} {_short(about[preset])}")
    begin = [f"  {preset:32} {_short(text)}" for preset, text in BEGIN.items()]
    lines = {"Begin with one of these. `ees-mpi presets NAME` prints a preset": begin, **groups}
    echo("\n\n".join("\n".join([heading, *rows]) for heading, rows in lines.items() if rows))


def _short(sentence: str) -> str:
    """Return a sentence about a preset without what its heading says, and without sections of the paper."""
    return re.sub(r" \(.*?\)|, (?:by|with|at) (?:the|its) .*|;(?!.*--from).*|\.$", "", sentence)


def contents() -> dict[str, dict[str, str]]:
    """Return the titles of the pages by shelf and topic; the site has the same list."""
    return tomllib.loads((DOCS / "contents.toml").read_text(encoding="utf-8"))


def pages() -> dict[str, str]:
    """Return the text of all pages by topic, in the order of the shelves."""
    topics = (topic for titles in contents().values() for topic in titles)
    texts = {topic: (DOCS / f"{topic}.md").read_text(encoding="utf-8") for topic in topics}
    return {topic: re.sub(r"^<!--.*-->\n|<!--.*?-->", "", text, flags=re.M) for topic, text in texts.items()}


@command()
def docs(topic: Annotated[str, Option(usage="[TOPIC]")] = "") -> None:
    """Print a page of the documentation, or the list of pages."""
    known, name = pages(), topic.lower().removesuffix(".md").replace("-", "_")
    if not topic:
        for part, titles in contents().items():
            echo("\n".join([part, *(f"  {page:15} {title}" for page, title in titles.items())]))
        echo("\n`ees-mpi docs TOPIC` prints a page.")
    elif name not in known:
        raise ConfigError(f"docs: {unknown(topic, known)}")
    elif sys.stdout and sys.stdout.isatty() and not ranks.launched()[0]:
        click.echo_via_pager(known[name])
    else:
        echo(known[name], nl=False)


def job_files() -> list[Path]:
    """Return the job scripts and the files that they need, and the examples."""
    files = [*sorted(JOBS.iterdir()), *sorted((JOBS / "examples").rglob("*"))]
    return [path for path in files if path.is_file() and "__pycache__" not in path.parts]


def describe(file: Path) -> str:
    """Return the first sentence of a file, or its title."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":  # JSON, whose first cell begins with the title
        return text.partition('"# ')[2].partition("\\n")[0]
    lines = [line.strip('#" ') for line in text.splitlines() if not line.startswith("#!")]
    words = "\n".join(lines).strip().split("\n\n")[0].split()
    ends = (number for number, word in enumerate(words, 1) if word[-1] in ".:;?")
    return " ".join(words[: next(ends, 12)]).rstrip(".:;")


def copy_jobs(folder: Path) -> int:
    """Copy the job scripts into a folder, and return their number; raise a ConfigError before one would be replaced."""
    copies = {file: folder / file.relative_to(JOBS) for file in job_files()}
    present = [(file, copy) for file, copy in copies.items() if os.path.lexists(copy)]
    changed = [str(copy) for file, copy in present if not (copy.is_file() and filecmp.cmp(file, copy, shallow=False))]
    if changed:
        raise ConfigError(
            f"--copy {folder}: nothing was copied, because files exist that differ from the scripts of this version: "
            f"{', '.join(changed)}; choose another folder, or move them away"
        )
    for file, copy in copies.items():
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            copy.chmod(0o755 if file.read_bytes().startswith(b"#!") else 0o644)
    return len(copies)


@command()
def jobs(
    folder: Annotated[Path | None, Option("Copy them into this folder.", kinds.FOLDER, "--copy FOLDER")] = None,
) -> None:
    """List the job scripts and the examples, or copy them."""
    if folder is None:
        for file in job_files():
            echo(f"{file.relative_to(JOBS)!s:30} {describe(file)}")
        return
    echo(f"{folder}: {copy_jobs(folder)} files; begin with README.md")
