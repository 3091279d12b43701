#!/usr/bin/env python3
"""Print the work of the paper as commands, one per line: a list for bash, xargs or jobs/array.slurm.

    plan.py runs --scale tiny >paper.list        all trainings, adaptations and samples, in an order that works
    plan.py figures --scale tiny | bash          the paper's figures, from the files of the list
    plan.py statistics --scale tiny | bash       the tests of its claims
    plan.py sixth text                           the runs of plan6.md with the text's rules
    plan.py heritability four own                the arms `four` and `own` of docs/heritability.md

The options must be the same for runs, figures and statistics. plans.toml has the runs as data. Those of the sixth plan
and of heritability have sizes of their own, and take no options.
"""

import argparse
import re
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
PLANS = ("sixth", "heritability")
SEEDS = {"tiny": 2}  # the other scales: 12
TINY = ["task.steps=8", "task.hidden=[4,4]", "noise.size=5000"]


def sets(*settings: str) -> list[str]:
    """Return the words that set some keys."""
    return [word for setting in settings for word in ("--set", setting)]


@dataclass(frozen=True)
class Paper:
    """How the experiments are run: in some engine, at some scale."""

    engine: str = "mujoco"
    scale: str = "paper"  # paper, tiny or a number
    seeds: int = 12
    folder: Path = Path()
    maml: bool = True

    def range(self, which: str) -> range:
        """Return the seeds that a word of plans.toml means; mixtures have half of them, as in the paper."""
        half = 2 if self.scale == "tiny" else (self.seeds + 1) // 2
        return range({"all": self.seeds, "half": half, "0": 1}[which])

    def share(self, tiny: float) -> float:
        """Return the share of the paper's numbers; `tiny`: that of the tiny scale."""
        return {"paper": 1.0, "tiny": tiny}.get(self.scale) or float(self.scale)

    def after(self, updates: int) -> int:
        """Return the number of updates of further evolution for a number in the paper."""
        return max(1, int(updates * self.share(tiny=0.15) + 0.5))

    def replica(self, preset: str) -> list[str]:
        """Return the words that run a preset in MuJoCo, if that is the engine."""
        robot = preset and not preset.startswith("interference")
        return sets("task.engine=mujoco") if robot and self.engine == "mujoco" else []

    @cache  # noqa: B019  (the program ends soon)
    def size(self, preset: str) -> list[str]:
        """Return the words that shrink an experiment."""
        if self.scale == "paper" or not preset:
            return []
        whole, share = configs.load(preset, self.replica(preset)[1::2]), self.share(tiny=0.0001)
        population = max(8 if whole.population.has_individuals else 2, int(whole.population.size * share + 0.5))
        least = self.after(20) + 1 if preset == "ant-adapt" else 3
        generations = max(least, int(whole.run.generations * share + 0.5))
        found = [f"run.generations={generations}", f"population.size={population + population % 2}"]
        if self.scale == "tiny" and not preset.startswith("interference"):
            found += TINY + (["maml.rollouts=2"] if preset.endswith("-maml") else [])
        return sets(*found)

    def lines(self, groups: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Return the commands of a block: group by group, and inside a group seed by seed."""
        for group in groups:
            seeds = group["seeds"] if isinstance(group["seeds"], list) else self.range(group["seeds"])
            for seed in seeds:
                for run in group["runs"]:
                    if self.maml or "maml" not in run.get("preset", ""):
                        yield from (
                            self.command(WORK["commands"][name], seed, run) for name in run.get("do", ["train"])
                        )

    def command(self, template: str, seed: int, run: dict[str, Any]) -> str:
        """Return one command of a run: `template` with its words, its file and the settings of this scale."""
        preset, settings = run.get("preset", ""), WORK["settings"]
        facts = {"seed": seed, "mujoco": "-mujoco" * (self.engine == "mujoco"), "folder": self.file("")}
        facts |= {"name": run.get("name", preset), "count": 20 if self.scale == "tiny" else 1000}
        facts["file"] = run.get("file", "{folder}{name}{mujoco}-seed{seed}").format(**facts)
        more = " ".join(settings.get(word, word) for word in run.get("words", "").split())
        few = "--mutations 4 --evaluations 2" if self.scale == "tiny" and "maml" not in preset else ""
        several = {"{preset}": preset.split(), "{engine}": self.replica(preset), "{size}": self.size(preset)}
        several |= {"{words}": more.split(), "{few}": few.split()}
        words = [each for word in template.split() for each in several.get(word, [word])]
        return shlex.join(word.format(**facts) for word in words)

    def file(self, name: str) -> str:
        """Return a path in the folder of all files."""
        return name if self.folder == Path() else f"{self.folder}/{name}"

    def files(self, text: str) -> list[str]:
        """Return the words of a text; names with {0}, {all} or {half} become files of these seeds."""
        found = []
        mujoco = "-mujoco" * (self.engine == "mujoco")
        for word in text.split():
            if match := re.fullmatch(r"(.*)\{(\w+)\}(.*)", word):
                name, which, ending = match.groups()
                if self.maml or "maml" not in name:
                    found += [self.file(f"{name}{mujoco}-seed{seed}{ending}.h5") for seed in self.range(which)]
            else:
                found.append(word)
        return found

    def runs(self) -> Iterator[str]:
        """Return all commands of the paper."""
        return self.lines(WORK["paper"]["runs"])

    def figures(self) -> Iterator[str]:
        """Return the commands of the paper's figures; those of single runs take seed 0."""
        yield shlex.join(["mkdir", "-p", self.file("figures")])
        for name, text in WORK["paper"]["figures"].items():
            kind, *files = self.files(text)
            if files:
                yield shlex.join(["ees-mpi", "figure", kind, *files, "-o", self.file(f"figures/{name}.png")])

    def statistics(self) -> Iterator[str]:
        """Return the commands that test the claims of the paper, each after its sentence."""
        for each in WORK["paper"]["statistics"]:
            files = self.files(each["files"])
            # In short runs no offspring may pass the radius, and balance has no value.
            radius = ["--radius", "1e-9"] if each["metric"] == "balance" and self.scale != "paper" else []
            for updates in dict.fromkeys(map(self.after, each.get("updates", [0]))) if files[-1] != "--against" else ():
                claim, metric = (each[name].format(updates=updates) for name in ("claim", "metric"))
                test = shlex.join(["ees-mpi", "compare", "--metric", metric, *files, *radius])
                yield f"echo {shlex.quote('## ' + claim)} && {test} && echo"


def blocks(plan: str, names: Sequence[str] = ()) -> list[str]:
    """Return the commands of some blocks of a plan, or of all."""
    known = WORK[plan]
    if unknown := set(names) - set(known):
        raise ConfigError(f"expected blocks {', '.join(known)}, got {', '.join(sorted(unknown))}")
    return [line for name in names or known for line in Paper().lines(known[name])]


def main() -> int:
    """Print the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["runs", "figures", "statistics", *PLANS])
    parser.add_argument("blocks", nargs="*", help="of a plan [all]")
    parser.add_argument(
        "--engine", choices=["bullet", "mujoco"], default="bullet", help="of the paper's robots [bullet]"
    )
    parser.add_argument(
        "--scale", default="paper", help="paper; tiny; or a number up to 1 that multiplies populations and generations"
    )
    parser.add_argument("--seeds", type=int, help="of each algorithm; mixtures: half [12; tiny 2]")
    parser.add_argument("--folder", type=Path, default=Path(), help="of all files [this one]")
    parser.add_argument("--without-maml", action="store_true", help="leave MAML out; it needs torch")
    told = parser.parse_args()
    try:
        if told.scale not in ("paper", "tiny") and not 0 < float(told.scale) <= 1:
            raise ValueError
    except ValueError:
        parser.error(f"--scale {told.scale}: expected paper, tiny, or a number above 0 and up to 1")
    seeds = SEEDS.get(told.scale, 12) if told.seeds is None else told.seeds
    if seeds < 1:
        parser.error(f"--seeds {seeds}: expected a number of runs")
    if told.blocks and told.what not in PLANS:
        parser.error(f"{told.what} {' '.join(told.blocks)}: only a plan has blocks: {', '.join(PLANS)}")
    paper = Paper(told.engine, told.scale, seeds, told.folder, not told.without_maml)
    try:
        say("\n".join(blocks(told.what, told.blocks) if told.what in PLANS else getattr(paper, told.what)()))
    except EesError as error:
        print(f"plan.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
