"""Pages and files name keys and paths that exist."""

import re
from pathlib import Path

from support.program import CHECKOUT, done, needs_results

JOBS = CHECKOUT / "jobs"
MADE = {"__pycache__", "data", "results"}  # folders whose files people do not write


def test_the_page_on_fidelity_names_keys_that_exist() -> None:
    page = (CHECKOUT / "ees_mpi" / "docs" / "fidelity.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:run|noise|task|population|objective|optimizer|maml)\.\w+)", page))
    assert named <= set(re.findall(r"^  (\w+\.\w+) = ", done("config", "--keys").stdout, re.MULTILINE))


def sources() -> list[Path]:
    """Return the files of the project that people write."""
    folders = (CHECKOUT / name for name in ("ees_mpi", "jobs", "tests", "tools"))
    files = (*CHECKOUT.glob("*"), *(path for folder in folders for path in folder.rglob("*")))
    return [path for path in files if path.is_file() and not MADE & set(path.relative_to(CHECKOUT).parts)]


def missing_in_jobs(text: str) -> list[str]:
    """Return the paths below jobs/, and the modules in it, that a text names and that do not exist."""
    # A pattern that begins with a plain word is searched much faster.
    named = re.findall(r"jobs(?:(?<![\w-]jobs)/([\w./-]*)([*$?{<]?)|(?<!\wjobs)\.([\w.]+):\w)", text)
    paths = [(module.replace(".", "/") + ".py" if module else path.rstrip("."), more) for path, more, module in named]
    known = [path for path, _ in paths if (JOBS / path).exists()]
    begun = [path for path, more in paths if more and any(JOBS.glob(f"{path}*"))]  # the rest of it is a pattern
    return [path for path, _ in paths if path not in (*known, *begun)]


@needs_results
def test_every_path_in_jobs_that_a_file_of_the_project_names_exists() -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="ignore") for path in sources()}
    wrong = {str(path): missing for path, text in texts.items() if (missing := missing_in_jobs(text))}
    assert not wrong
