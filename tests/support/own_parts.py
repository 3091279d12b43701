"""The examples of `docs/plugins.md`: its Python files, and a config for each family."""

import re
import tomllib
from pathlib import Path

import tomli_w

from support.program import CHECKOUT

PAGE = (CHECKOUT / "ees_mpi" / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", PAGE, re.DOTALL)
MODULES = {text.split("\n")[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "python"}
BASE, *SECTIONS = [tomllib.loads(text) for kind, text in BLOCKS if kind == "toml"]
HEADINGS = [part.split("\n")[0] for part in PAGE.split("\n## ")[1:] if "```toml" in part]
EXAMPLES = dict(zip(HEADINGS, SECTIONS, strict=True))  # "A task": its section


def write(folder: Path, heading: str, **run: object) -> Path:
    """Write all modules of the page, and the config of one example; `run`: keys of section `run`."""
    for name, text in MODULES.items():
        (folder / name).write_text(text)
    config = {**BASE, **EXAMPLES[heading]}
    config["run"] = {**BASE["run"], "fsync": False, **run}
    path = folder / "own.toml"
    path.write_text(tomli_w.dumps(config))
    return path
