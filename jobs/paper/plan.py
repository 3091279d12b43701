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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ees_mpi import config as configs
from ees_mpi.errors import ConfigError, EesError
from ees_mpi.terminal import say

WORK = tomllib.loads(Path(__file__).with_name("plans.toml").read_text(encoding="utf-8"))


def arms_of(robot: str, arms: dict[str, Any]) -> dict[str, Any]:
    """Return the arms of a robot of heritability, such as ant.four, with all that they do not say themselves."""
    usual = {"preset": f"{robot}-maxent-authors", "do": ["train", "measure"]}
    return {f"{robot}.{key}": {"name": f"{robot}-maxent-authors-{key}", **usual, **arm} for key, arm in arms.items()}


ARMS = {key: arm for robot, arms in WORK["heritability"].items() for key, arm in arms_of(robot, arms).items()}
PLANS: dict[str, Any] = {
    "paper": WORK["paper"],
    "heritability": {key.replace(".", "-"): [{"seeds": arm["seeds"], "runs": [arm]}] for key, arm in ARMS.items()},
}


@dataclass(frozen=True)
class Sizes:
    """How the experiments are run: in some engine, at some scale."""

    engine: str = "mujoco"
    scale: float = 1.0  # of populations and generations
    seeds: int = 12  # of those of each run, at most
    folder: Path = Path()


FULL = Sizes()


def engine_of(preset: str, engine: str) -> list[str]:
    """Return the settings that run a preset in this engine."""
    robot = preset and not preset.startswith("interference")
    return ["task.engine=mujoco"] if robot and engine == "mujoco" else []


@cache
def size_of(preset: str, engine: str, scale: float) -> list[str]:
    """Return the settings that shrink an experiment."""
    if scale == 1 or not preset:
        return []
    whole = configs.load(preset, engine_of(preset, engine))
    population = max(8 if whole.population.has_individuals else 2, int(whole.population.size * scale + 0.5))
    generations = max(3, int(whole.run.generations * scale + 0.5))
    return [f"run.generations={generations}", f"population.size={population + population % 2}"]


def command(template: str, seed: int, run: dict[str, Any], sizes: Sizes) -> str:
    """Return one command of a run: `template` with the run's words in place of those in braces."""
    preset = run.get("preset", "")
    folder = "" if sizes.folder == Path() else shlex.quote(f"{sizes.folder}/")
    mujoco = "-mujoco" if sizes.engine == "mujoco" else ""
    name = run.get("name", preset)
    words = {**WORK["settings"], **run, "preset": preset, "seed": seed, "folder": folder, "mujoco": mujoco}
    words["run"] = f"{name}{mujoco}-seed{seed}"
    words["file"] = f"{folder}{words['run']}"
    words["engine"] = " ".join(f"--set {each}" for each in engine_of(preset, sizes.engine))
    words["size"] = " ".join(f"--set {each}" for each in size_of(preset, sizes.engine, sizes.scale))
    words["words"] = run.get("words", "").format(**words)
    return shlex.join(shlex.split(template.format(**words)))


def blocks(plan: str, names: Sequence[str] = (), sizes: Sizes = FULL) -> list[str]:
    """Return the commands of some blocks of a plan, or of all: group by group, and inside a group seed by seed."""
    known, lines = PLANS[plan], []
    if unknown := set(names) - set(known):
        raise ConfigError(f"expected blocks {', '.join(known)}, got {', '.join(sorted(unknown))}")
    for group in (group for name in names or known for group in known[name]):
        for seed in group["seeds"][: sizes.seeds]:
            for run in group["runs"]:
                lines += [command(WORK["commands"][each], seed, run, sizes) for each in run.get("do", ["train"])]
    return lines


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
