#!/usr/bin/env python3
"""Print the finished and the missing work of jobs/paper/reproduce.sh, and the time that it will take.

Reads the list of `worklist.py`. The time is estimated from the steps per second of the runs that have begun here.

    status.py [RESULTS]     RESULTS: a folder of small files; the runs that it has are done
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from worklist import Work, read

from ees_mpi.config import Config
from ees_mpi.errors import EesError
from ees_mpi.store.reader import open_run


@dataclass
class Stage:
    """The work of one stage."""

    done: int = 0
    missing: int = 0
    seconds: float = 0.0  # that are left, of work whose speed is known
    unknown: int = 0  # missing work whose speed is not known
    names: list[str] = field(default_factory=list)  # of the missing runs


@dataclass
class Speeds:
    """Seconds per step of the runs that have begun, by kind of work."""

    seconds: dict[str, float] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """Count the time of a run file."""
        try:
            with open_run(path) as run:
                clock, per = run["seconds_clock"][:], run.config.population.size * run.config.method.rollouts
                kind, steps = kind_of(run.config), steps_of(run.config, (len(clock) - 1) * per)
        except EesError:
            return  # `worklist.generations` reports it
        if len(clock) > 1:
            self.seconds[kind] = self.seconds.get(kind, 0.0) + clock[-1] - clock[0]
            self.steps[kind] = self.steps.get(kind, 0.0) + steps

    def time(self, config: Config, rollouts: float) -> float | None:
        """Return the seconds of some rollouts; None if no run of this kind has begun."""
        kind = kind_of(config)
        return steps_of(config, rollouts) * self.seconds[kind] / self.steps[kind] if self.steps.get(kind) else None


def kind_of(config: Config) -> str:
    """Return the kind of work: runs of one kind need the same time for a step."""
    task = config.sections()["task"]
    return f"{config.method.name} {task['name']} {task.get('model', '')} {task.get('engine', '')}"


def steps_of(config: Config, rollouts: float) -> float:
    """Return the number of steps of some rollouts."""
    return rollouts * float(config.sections()["task"].get("steps", 1))


def examine(work: Sequence[Work]) -> dict[str, Stage]:
    """Return the stages by name."""
    stages: dict[str, Stage] = {}
    configs = {each.name: each.config for each in work if each.kind == "train"}
    speeds, left = Speeds(), []
    for each in work:
        stage = stages.setdefault(each.stage, Stage())
        if each.kind == "train" and each.out.exists():
            speeds.add(each.out)
        reached = each.reached()
        if reached >= each.wanted:
            stage.done += 1
            continue
        stage.missing += 1
        stage.names.append(each.name)
        left.append((stage, each, 1 - reached / each.wanted))
    for stage, each, share in left:
        config = each.config or configs.get(each.needs.stem if each.needs else "")
        seconds = speeds.time(config, share * each.rollouts()) if config else None
        stage.unknown += seconds is None
        stage.seconds += seconds or 0.0
    return stages


def main() -> int:
    """Print a line for each stage, and a total."""
    stages = examine(read(sys.stdin, Path(sys.argv[1]) if sys.argv[1:] else None))
    print(f"{'stage':14}{'done':>6}{'missing':>9}   time left")
    for name, stage in stages.items():
        print(f"{name:14}{stage.done:6}{stage.missing:9}   {words(stage)}")
    both = Stage(*(sum(getattr(s, key) for s in stages.values()) for key in ("done", "missing", "seconds", "unknown")))
    print(f"{'all':14}{both.done:6}{both.missing:9}   {words(both)}")
    if sys.argv[1:]:  # a plan: its runs have names that count
        for name, stage in stages.items():
            if stage.names:
                print(f"missing in {name}: {' '.join(stage.names)}")
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
