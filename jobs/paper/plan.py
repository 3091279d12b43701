#!/usr/bin/env python3
"""Print the work of the paper as commands, one per line: a list for bash, xargs or jobs/array.slurm.

    plan.py paper text adapt --scale 0.01 >small.list   trainings with the text's rules, then their adaptations, small
    plan.py paper text released --folder runs           the runs of plan6.md with both rules
    plan.py heritability ant-four ant-own               two arms of docs/heritability.md

plans.toml has the runs as data.
"""

import argparse
import shlex
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ees_mpi import config as configs
from ees_mpi.errors import ConfigError, EesError
from ees_mpi.terminal import say

WORK = tomllib.loads(Path(__file__).with_name("plans.toml").read_text(encoding="utf-8"))
ARMS = WORK["heritability"]  # by robot


def arm_run(robot: str, key: str) -> str:
    """Return the name of the runs of an arm, without engine and seed."""
    return f"{robot}-maxent-authors" + (f"-{ARMS[robot][key].get('name', key)}" if key != "ranks" else "")


def heritability() -> dict[str, Any]:
    """Return the arms as blocks of a plan."""
    found = {}
    for robot, key, arm in ((robot, key, arm) for robot, arms in ARMS.items() for key, arm in arms.items()):
        run = {"preset": f"{robot}-maxent-authors", "do": ["train", "measure"], **arm, "name": arm_run(robot, key)}
        found[f"{robot}-{key}"] = [{"seeds": arm["seeds"], "runs": [run]}]
    return found


PLANS: dict[str, Any] = {"paper": WORK["paper"], "heritability": heritability()}


def sets(*settings: str) -> list[str]:
    """Return the words that set some keys."""
    return [word for setting in settings for word in ("--set", setting)]


@dataclass(frozen=True)
class Sizes:
    """How the experiments are run: in some engine, at some scale."""

    engine: str = "mujoco"
    scale: float = 1.0  # of populations and generations
    seeds: int = 12  # of those of each run, at most
    folder: Path = Path()

    def replica(self, preset: str) -> list[str]:
        """Return the words that run a preset in MuJoCo, if that is the engine."""
        robot = preset and not preset.startswith("interference")
        return sets("task.engine=mujoco") if robot and self.engine == "mujoco" else []

    @cache  # noqa: B019  (the program ends soon)
    def size(self, preset: str) -> list[str]:
        """Return the words that shrink an experiment."""
        if self.scale == 1 or not preset:
            return []
        whole = configs.load(preset, self.replica(preset)[1::2])
        population = max(8 if whole.population.has_individuals else 2, int(whole.population.size * self.scale + 0.5))
        generations = max(3, int(whole.run.generations * self.scale + 0.5))
        return sets(f"run.generations={generations}", f"population.size={population + population % 2}")

    def lines(self, groups: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Return the commands of a block: group by group, and inside a group seed by seed."""
        for group in groups:
            for seed in group["seeds"][: self.seeds]:
                for run in group["runs"]:
                    yield from (self.command(WORK["commands"][name], seed, run) for name in run.get("do", ["train"]))

    def command(self, template: str, seed: int, run: dict[str, Any]) -> str:
        """Return one command of a run: `template` with its words, its file and the settings of this scale."""
        preset, settings = run.get("preset", ""), WORK["settings"]
        facts = {"seed": seed, "mujoco": "-mujoco" * (self.engine == "mujoco"), "name": run.get("name", preset)}
        facts["folder"] = "" if self.folder == Path() else f"{self.folder}/"
        facts["run"] = "{name}{mujoco}-seed{seed}".format(**facts)
        facts["file"] = "{folder}{run}".format(**facts)
        more = " ".join(settings.get(word, word) for word in run.get("words", "").split())
        several = {"{preset}": preset.split(), "{engine}": self.replica(preset), "{size}": self.size(preset)}
        several |= {"{words}": more.split()}
        words = [each for word in template.split() for each in several.get(word, [word])]
        return shlex.join(word.format(**facts) for word in words)


FULL = Sizes()


def blocks(plan: str, names: Sequence[str] = (), sizes: Sizes = FULL) -> list[str]:
    """Return the commands of some blocks of a plan, or of all."""
    known = PLANS[plan]
    if unknown := set(names) - set(known):
        raise ConfigError(f"expected blocks {', '.join(known)}, got {', '.join(sorted(unknown))}")
    return [line for name in names or known for line in sizes.lines(known[name])]


def main() -> int:
    """Print the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("blocks", nargs="*", help="of the plan [all]")
    parser.add_argument("--folder", type=Path, default=Path(), help="of all files [this one]")
    parser.add_argument("--engine", choices=["bullet", "mujoco"], default="mujoco", help="of the robots [mujoco]")
    parser.add_argument("--scale", type=float, default=1.0, help="of populations and generations, up to 1 [1]")
    parser.add_argument("--seeds", type=int, default=12, help="of each run, at most [12]")
    told = parser.parse_args()
    if not 0 < told.scale <= 1 or told.seeds < 1:
        parser.error("expected a scale above 0 and up to 1, and a number of seeds")
    try:
        say("\n".join(blocks(told.plan, told.blocks, Sizes(told.engine, told.scale, told.seeds, told.folder))))
    except EesError as error:
        print(f"plan.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
