"""`ees-mpi jobs`: list the job scripts that come with the package, or copy them into a folder."""

import filecmp
import os
import shutil
from pathlib import Path

from ees_mpi.errors import ConfigError

PACKAGE = Path(__file__).parents[1]
# The build puts the folder jobs of a checkout into the package.
JOBS = next((path for path in (PACKAGE / "jobs", PACKAGE.parent / "jobs") if path.is_dir()), PACKAGE / "jobs")


def job_files() -> list[Path]:
    """Return the job scripts and the files that they need, and the examples."""
    if not JOBS.is_dir():
        raise ConfigError(f"expected the job scripts in {JOBS}; install the package again")
    files = [*sorted(JOBS.iterdir()), *sorted((JOBS / "examples").rglob("*"))]
    return [path for path in files if path.is_file() and "__pycache__" not in path.parts]


def describe(file: Path) -> str:
    """Return the first sentence of a file, or its title."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":  # JSON, whose first cell begins with the title
        return text.partition('"# ')[2].partition("\\n")[0]
    lines = [line.strip('#" ') for line in text.splitlines() if not line.startswith("#!")]
    words = "\n".join(lines).strip().split("\n\n")[0].split()
    ends = (number for number, word in enumerate(words, 1) if word[-1] in ".:;")
    return " ".join(words[: next(ends, 12)]).rstrip(".:;")


def copy_jobs(folder: Path) -> list[Path]:
    """Copy the job scripts into a folder, which may exist; raise a ConfigError before a changed file is replaced."""
    copies = {file: folder / file.relative_to(JOBS) for file in job_files()}
    present = [(file, copy) for file, copy in copies.items() if os.path.lexists(copy)]
    changed = [str(copy) for file, copy in present if not (copy.is_file() and filecmp.cmp(file, copy, shallow=False))]
    if changed:
        raise ConfigError(
            f"--copy {folder}: nothing was copied, because files exist that differ from the scripts of this version: "
            f"{', '.join(changed)}; choose another folder, or move them away"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, copy in copies.items():
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
                copy.chmod(0o755 if file.read_bytes().startswith(b"#!") else 0o644)
    except OSError as error:
        raise ConfigError(f"--copy {folder}: the scripts cannot be written there: {error.strerror}") from None
    return list(copies.values())
