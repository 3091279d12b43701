"""The trained means that come with the package, found by name: `shelf:NAME` in place of the path of a policy."""

import re
from pathlib import Path

from ees_mpi.errors import ConfigError
from ees_mpi.files import SHELF

TRAINED = Path(__file__).parents[1] / "trained"


def trained_means() -> dict[str, str]:
    """Return how each mean was trained, by its name: the rows of the list in trained/README.md."""
    text = (TRAINED / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| \[([\w-]+)\]\([\w-]+\.md\) \| (.+?) \|", text, re.MULTILINE))


def shelf(name: str) -> Path:
    """Return the path of a trained mean of the package: a policy for `measure`, `sample`, `adapt`, `train` and others.

    A ConfigError for an unknown name lists all of them.
    """
    means = trained_means()
    if name not in means:
        known = "".join(f"\n  {SHELF}{each:30} {line}" for each, line in means.items())
        raise ConfigError(f"{SHELF}{name!s:.80}: no trained mean of this name; expected one of{known}")
    return TRAINED / f"{name}.npz"


def shown(path: Path | str) -> str:
    """Return `shelf:NAME` for the path of a trained mean of the package; any other path as it is."""
    path = Path(path)
    return f"{SHELF}{path.stem}" if path.parent == TRAINED else str(path)


def card(path: Path) -> str:
    """Return the card of a trained mean of the package; empty for any other path."""
    file = path.with_suffix(".md")
    return file.read_text(encoding="utf-8") if path.parent == TRAINED and file.is_file() else ""


def output_beside(source: Path, ending: str) -> Path:
    """Return the default name of an output: beside its source, or here if that is a trained mean of the package."""
    folder = Path() if source.parent.resolve() == TRAINED else source.parent
    return folder / f"{source.stem}{ending}"
