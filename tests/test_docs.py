"""The pages of the documentation name functions, keys and presets that exist."""

import ast
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from support.program import CHECKOUT, needs_results

from ees_mpi import config
from ees_mpi.generation.state import first_state
from ees_mpi.ranks import Ranks
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import open_job, train

PACKAGE = CHECKOUT / "ees_mpi"
INTERNALS = (PACKAGE / "docs" / "internals.md").read_text(encoding="utf-8")
PAGE, _, HANGS = INTERNALS.partition("\n## No job hangs\n")
FIDELITY = (PACKAGE / "docs" / "fidelity.md").read_text(encoding="utf-8")
JOBS = CHECKOUT / "jobs"
MADE = {"__pycache__", "data", "results"}  # folders whose files people do not write
NAMES = sorted(set(re.findall(r"`([a-z_0-9]+(?:\.\w+)+)`", PAGE)))


def defines(name: str) -> bool:
    """Return whether the package defines a function, class or method; modules are parsed, not imported."""
    folder, parts = PACKAGE, name.split(".")
    while (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    file = folder / f"{parts.pop(0)}.py"
    if not (file.is_file() and parts):
        return False
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for part in parts:
        found = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part]
        if not found:
            return False
        body = found[0].body
    return True


@pytest.mark.parametrize("name", NAMES)
def test_the_page_names_a_function_that_exists(name: str) -> None:
    assert defines(name), f"{name} is not in the package; correct ees_mpi/docs/internals.md"


def test_a_missing_function_is_noticed() -> None:
    assert len(NAMES) > 30 and defines("generation.state.State.digest")
    assert not any(
        map(defines, ("generation.state.State.digests", "generation.states.State", "ranks.serial", "ranks.none.Ranks"))
    )


MODULES = re.findall(r"`([\w/]+)`", PAGE.partition("Read them in this order:")[2])
NOT_COUNTED = ("config", "tasks", "contracts", "errors")


def test_the_page_lists_the_modules_of_one_generation_and_they_are_few(tmp_path: Path) -> None:
    settings = ["run.generations=1", "task.steps=3", "population.size=8", "noise.size=200000"]
    loaded = config.load("cheetah-maxent", [*settings, "task.observation_share=0.9"])
    job, state = open_job(loaded, Ranks()), first_state(loaded)
    writer = RunWriter.create(tmp_path / "run.h5", loaded, state.arrays())
    writer.begin_session(0, 1, 1, {})
    seen: set[str] = set()
    sys.setprofile(lambda frame, event, value: seen.add(frame.f_globals.get("__name__", "")))
    try:
        train(job, state, writer)
    finally:
        sys.setprofile(None)
        writer.close()
        job.close()
    ours = {name.removeprefix("ees_mpi.").replace(".", "/") for name in seen if name.startswith("ees_mpi.")}
    run = {name for name in ours if name.partition("/")[0] not in NOT_COUNTED}
    assert len(run) > 15 and run <= set(MODULES), run - set(MODULES)
    assert set(MODULES) - run <= {"ranks/mpi", "ranks/process", "ranks/slices"}  # only with several ranks
    lines = sum(len((PACKAGE / f"{name}.py").read_text(encoding="utf-8").splitlines()) for name in MODULES)
    assert len(MODULES) <= 23 and lines <= 3000


def test_the_page_on_fidelity_names_keys_that_exist() -> None:
    named = set(re.findall(r"`((?:run|noise|task|population|objective|optimizer|maml)\.\w+)", FIDELITY))
    presets = ("cheetah-maxent", "interference-maxent", "cheetah-maml")
    tables = [config.load(preset).sections() for preset in presets]
    known = {f"{name}.{key}" for each in tables for name, table in each.items() if name != "method" for key in table}
    # Keys whose default is None are not in the tables.
    assert named - known == {"task.reset_seed", "maml.horizon"} and len(named & known) > 12


def sources() -> list[Path]:
    """Return the files of the project that people write."""
    folders = (CHECKOUT / name for name in ("ees_mpi", "jobs", "tests", "tools"))
    files = (*CHECKOUT.glob("*"), *(path for folder in folders for path in folder.rglob("*")))
    return [path for path in files if path.is_file() and not MADE & set(path.relative_to(CHECKOUT).parts)]


def missing_in_jobs(text: str) -> list[str]:
    """Return the paths below jobs/, and the modules in it, that a text names and that do not exist."""
    named = re.findall(r"(?<![\w-])jobs/([\w./-]*)([*$?{<]?)|\bjobs\.([\w.]+):\w", text)
    paths = [(module.replace(".", "/") + ".py" if module else path.rstrip("."), more) for path, more, module in named]
    known = [path for path, _ in paths if (JOBS / path).exists()]
    begun = [path for path, more in paths if more and any(JOBS.glob(f"{path}*"))]  # the rest of it is a pattern
    return [path for path, _ in paths if path not in (*known, *begun)]


@needs_results
def test_every_path_in_jobs_that_a_file_of_the_project_names_exists() -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="ignore") for path in sources()}
    assert sum("jobs/" in text for text in texts.values()) > 40
    wrong = {str(path): missing for path, text in texts.items() if (missing := missing_in_jobs(text))}
    assert not wrong


@needs_results
def test_a_wrong_path_in_jobs_is_noticed() -> None:
    wrong = ["trian.slurm", "paper/sede", "examples/own_taks.py"]
    text = "run `{0}train.slurm`, {0}paper/pictures/ant$x or {0}*.slurm; not {0}{1}, {0}{2}$x, {3}".format(
        *("jobs" + "/", *wrong[:2]), "jobs" + ".examples.own_taks:Throw"
    )
    assert missing_in_jobs(text) == wrong


def test_the_page_on_jobs_names_every_file_there_and_no_other() -> None:
    page = (JOBS / "README.md").read_text(encoding="utf-8")
    patterns = set(re.findall(r"`([\w*]+\.(?:sh|slurm|py|toml|ipynb|def|md|txt|json)|Containerfile)`", page))
    folders = (JOBS, *(JOBS / name for name in ("examples", "paper", "peers", "containers")))
    names = {path.name for folder in folders for path in folder.iterdir() if path.is_file()} - {"README.md"}
    assert {name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)} == set()
    assert {pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in names)} == set()


def test_the_part_on_hangs_is_short_and_names_files_that_exist() -> None:
    part = HANGS.partition("\n## ")[0]
    files = set(re.findall(r"`((?:ranks|runs|store)/\w+\.py)`", part))
    assert len(part.splitlines()) <= 60 and len(files) >= 4 and all((PACKAGE / file).is_file() for file in files)
