"""The work of seeds.sh, sweep.sh and paper/reproduce.sh: a list of commands, one per line, and whether each is done.

    STAGE train PRESET --out RUN.h5 [--from START] ...
    STAGE step OUTPUT sample|adapt RUN.h5 ...

A training is done if its run file is complete, or if its small files, from another machine, are in a folder of results.
"""

import json
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ees_mpi import config as configs
from ees_mpi.config import Config
from ees_mpi.errors import EesError
from ees_mpi.store.reader import open_run

ADAPTED = 50  # rollouts of an adaptation: 40 mutations, 10 evaluations


@dataclass(frozen=True)
class Work:
    """One command of the list."""

    stage: str
    kind: str  # train or step
    words: tuple[str, ...]  # of `ees-mpi train`; or the output file and the words of another command
    results: Path | None = None  # the folder of small files

    @property
    def out(self) -> Path:
        """The file that it makes."""
        return Path(option(self.words, "--out") if self.kind == "train" else self.words[0])

    @property
    def needs(self) -> Path | None:
        """The file that it starts from."""
        start = option(self.words, "--from") if self.kind == "train" else self.words[2]
        return Path(start) if start else None

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.out.stem

    @cached_property
    def config(self) -> Config | None:
        """The config of a training."""
        if self.kind != "train":
            return None
        settings = [self.words[place + 1] for place, word in enumerate(self.words) if word == "--set"]
        return configs.parse(configs.read_source(self.words[0]), settings)

    @property
    def wanted(self) -> int:
        """The number of generations, or 1."""
        return self.config.run.generations if self.config else 1

    def collected(self) -> bool:
        """Return whether its small files are in the folder of results."""
        if self.results is None:
            return False
        if self.kind == "step" and self.words[1] == "adapt":
            return (self.results / "adaptations" / f"{self.name}.json").exists()
        about = self.results / self.name / "run.json"
        return about.exists() and int(json.loads(about.read_text())["generations"]) >= self.wanted

    def reached(self) -> int:
        """Return the number of generations of the run file; of another output 1 if it exists."""
        if self.collected():
            return self.wanted
        if self.kind == "step" or not self.out.exists():
            return int(self.out.exists())
        return generations(self.out)

    def done(self) -> bool:
        """Return whether nothing is left to do."""
        return self.reached() >= self.wanted

    def rollouts(self) -> float:
        """Return the number of rollouts of a whole run."""
        if self.config:
            return float(self.wanted * self.config.population.size * self.config.method.rollouts)
        return float(option(self.words, "--count") or ADAPTED)


def option(words: Iterable[str], name: str) -> str:
    """Return the value of an option; empty if it is not given."""
    found = list(words)
    return found[found.index(name) + 1] if name in found else ""


def generations(path: Path) -> int:
    """Return the number of committed generations of a run file; 0 if it cannot be read."""
    try:
        with open_run(path) as run:
            return run.generations
    except EesError as error:
        print(f"note: {error}", file=sys.stderr)
        return 0


def read(lines: Iterable[str], results: Path | None) -> list[Work]:
    """Return the work of a list; a line that occurs twice counts once."""
    found: dict[Path, Work] = {}
    for line in lines:
        stage, kind, *words = shlex.split(line)
        each = Work(stage, kind, tuple(words), results)
        found.setdefault(each.out, each)
    return list(found.values())
