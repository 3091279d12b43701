#!/usr/bin/env python3
"""Print the finished and the missing work of jobs/reproduce.sh, and the time that it will take.

Reads commands, one per line: STAGE train PRESET --out RUN.h5 ..., or STAGE step OUTPUT sample|adapt RUN.h5 ...
The time is estimated from the steps per second of the runs that have begun.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ees_mpi import config as configs
from ees_mpi.config import Config
from ees_mpi.errors import EesError
from ees_mpi.store.reader import open_run

ADAPTED = 50  # rollouts of an adaptation: 40 mutations, 10 evaluations


@dataclass
class Stage:
    """The work of one stage."""

    done: int = 0
    missing: int = 0
    seconds: float = 0.0  # that are left, of work whose speed is known
    unknown: int = 0  # missing work whose speed is not known


@dataclass
class Speeds:
    """Seconds per step of the runs that have begun, by kind of work."""

    seconds: dict[str, float] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, seconds: float, steps: float) -> None:
        """Count a run."""
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds
        self.steps[kind] = self.steps.get(kind, 0.0) + steps

    def time(self, kind: str, steps: float) -> float | None:
        """Return the seconds of some steps; None if no run of this kind has begun."""
        return steps * self.seconds[kind] / self.steps[kind] if self.steps.get(kind) else None


def option(words: list[str], name: str) -> str:
    """Return the value of an option."""
    return words[words.index(name) + 1] if name in words else ""


def kind_of(config: Config) -> str:
    """Return the kind of work: runs of one kind need the same time for a step."""
    task = config.sections()["task"]
    return f"{config.method.name} {task['name']} {task.get('model', '')}"


def steps_of(config: Config, rollouts: float) -> float:
    """Return the number of steps of some rollouts."""
    return rollouts * float(config.sections()["task"].get("steps", 1))


def progress(path: Path, speeds: Speeds) -> int:
    """Return the number of generations of a run file, and count its time."""
    if not path.exists():
        return 0
    try:
        with open_run(path) as run:
            clock, per = run["seconds_clock"][:], run.config.population.size * run.config.method.rollouts
            if len(clock) > 1:
                steps = steps_of(run.config, (len(clock) - 1) * per)
                speeds.add(kind_of(run.config), clock[-1] - clock[0], steps)
            return run.generations
    except EesError as error:
        print(f"note: {error}", file=sys.stderr)
        return 0


def examine(commands: Iterable[str]) -> dict[str, Stage]:
    """Return the stages by name."""
    stages: dict[str, Stage] = {}
    configurations: dict[str, Config] = {}  # by run file
    left: list[tuple[Stage, Config | None, float]] = []
    speeds, config = Speeds(), None
    for line in commands:
        name, kind, *words = line.split()
        stage = stages.setdefault(name, Stage())
        if kind == "train":
            settings = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
            path, wanted = option(words, "--out"), configs.parse(configs.read_source(words[0]), settings)
            configurations[path] = wanted
            missing = wanted.run.generations - progress(Path(path), speeds)
            config, rollouts = wanted, float(missing * wanted.population.size * wanted.method.rollouts)
        else:
            missing = int(not Path(words[0]).exists())
            config, rollouts = configurations.get(words[2]), float(option(words, "--count") or ADAPTED)
        stage.done += missing <= 0
        if missing > 0:
            stage.missing += 1
            left.append((stage, config, rollouts))
    for stage, config, rollouts in left:
        seconds = speeds.time(kind_of(config), steps_of(config, rollouts)) if config else None
        stage.unknown += seconds is None
        stage.seconds += seconds or 0.0
    return stages


def main() -> int:
    """Print a line for each stage, and a total."""
    stages = examine(sys.stdin)
    print(f"{'stage':14}{'done':>6}{'missing':>9}   time left")
    for name, stage in stages.items():
        print(f"{name:14}{stage.done:6}{stage.missing:9}   {words(stage)}")
    both = Stage(*(sum(getattr(s, key) for s in stages.values()) for key in ("done", "missing", "seconds", "unknown")))
    print(f"{'all':14}{both.done:6}{both.missing:9}   {words(both)}")
    return 0


def words(stage: Stage) -> str:
    """Return the time that is left, in words."""
    if not stage.missing:
        return "-"
    known = f"{stage.seconds / 3600:.2f} h" if stage.missing > stage.unknown else ""
    unknown = f"{stage.unknown} of unknown length: no such run has begun (see ees-mpi plan)" if stage.unknown else ""
    return ", and ".join(filter(None, (known, unknown)))


if __name__ == "__main__":
    sys.exit(main())
