#!/usr/bin/env python3
"""Print the work of the paper as commands, one per line: a list for jobs/run_list.py and jobs/array.slurm.

    plan.py runs --scale tiny >paper.list        all trainings, adaptations and samples, in an order that works
    plan.py runs --engine mujoco >plan.list      the plan of docs/reproduce.md: 30 generations, seeds 0 to 5
    plan.py figures --scale tiny | bash          the paper's figures, from the files of the list
    plan.py statistics --scale tiny | bash       the tests of its claims

The options must be the same for runs, figures and statistics.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ees_mpi import config as configs
from ees_mpi.errors import EesError
from ees_mpi.terminal import say

GENTLE, FRESH = (["--set", f"optimizer.correct_first={word}"] for word in ("false", "true"))  # see docs/reproduce.md
SEEDS = {"tiny": 2, "plan": 6}  # the others: 12
TINY = ["task.steps=8", "task.hidden=[4,4]", "noise.size=5000"]


def sets(*settings: str) -> list[str]:
    """Return the words that set some keys."""
    return [word for setting in settings for word in ("--set", setting)]


@dataclass
class Paper:
    """The experiments of the paper, in some engine, at some scale."""

    engine: str  # bullet or mujoco
    scale: str  # paper, plan, tiny or a number
    seeds: int
    folder: Path
    maml: bool

    def file(self, name: str, seed: int, ending: str = "") -> str:
        """Return the file of a run."""
        engine = "-mujoco" if self.engine == "mujoco" else ""
        return str(self.folder / f"{name}{engine}-seed{seed}{ending}.h5")

    def files(self, *names: str, ending: str = "", seeds: int = 0) -> list[str]:
        """Return the files of all seeds of some runs."""
        return [self.file(name, seed, ending) for name in names for seed in range(seeds or self.seeds)]

    @property
    def half(self) -> int:
        """The seeds of a mixture: the paper has six."""
        return 2 if self.scale == "tiny" else (self.seeds + 1) // 2

    def preset(self, name: str) -> list[str]:
        """Return the preset of an experiment, and the settings for this engine."""
        backward = sets("task.direction=180.0") if name.endswith("-backward") else []
        mujoco = self.engine == "mujoco" and not name.startswith("interference")
        return [name.removesuffix("-backward"), *backward, *(sets("task.engine=mujoco") if mujoco else [])]

    def after(self, updates: int) -> int:
        """Return the number of updates of further evolution for a number in the paper."""
        share = {"paper": 1.0, "plan": 1.0, "tiny": 0.15}.get(self.scale)
        return max(1, int(updates * (float(self.scale) if share is None else share) + 0.5))

    def size(self, name: str) -> list[str]:
        """Return the settings that shrink an experiment."""
        if self.scale == "paper":
            return []
        if self.scale == "plan":
            if name == "ant-adapt" or name.endswith("-split") or name.startswith("interference"):
                return []
            generations = 20 if name.endswith("-mixture") else 30
            if name.endswith("-maml"):
                generations = generations * 25 // 2  # as many steps as the other runs
            return sets(f"run.generations={generations}")
        source, *words = self.preset(name)
        whole = configs.load(source, words[1::2])
        share = 0.0001 if self.scale == "tiny" else float(self.scale)
        population = max(8 if whole.population.has_individuals else 2, int(whole.population.size * share + 0.5))
        least = self.after(20) + 1 if name == "ant-adapt" else 3
        generations = max(least, int(whole.run.generations * share + 0.5))
        found = [f"run.generations={generations}", f"population.size={population + population % 2}"]
        if self.scale == "tiny" and not name.startswith("interference"):
            found += TINY + (["maml.rollouts=2"] if name.endswith("-maml") else [])
        return sets(*found)

    def train(self, name: str, seed: int, run: str = "", start: str = "", more: list[str] | None = None) -> str:
        """Return the command of a training; `run`: its name if it differs; `start`: the run whose mean it takes."""
        begin = ["--from", self.file(start, seed)] if start else []
        words = ["ees-mpi", "train", *self.preset(name), *self.size(name), *begin, *(more or [])]
        return shlex.join([*words, "--seed", str(seed), "--out", self.file(run or name, seed)])

    def further(self, name: str, seed: int, ending: str = "further", more: list[str] | None = None) -> str:
        """Return the command of standard ES that starts from a trained mean."""
        rule = GENTLE if self.scale == "plan" else []
        return self.train("ant-adapt", seed, f"{name}-{ending}", name, more or rule)

    def split(self, name: str, seed: int) -> str:
        """Return the command of a mixture that starts from a trained mean."""
        return self.train(f"{name}-split", seed, "", name, GENTLE if self.scale == "plan" else None)

    def adapt(self, name: str, seed: int) -> Iterator[str]:
        """Return the two adaptations of a run."""
        few = ["--mutations", "4", "--evaluations", "2"] if self.scale == "tiny" and "maml" not in name else []
        for way in ("left", "right"):
            words = ["ees-mpi", "adapt", self.file(name, seed), "--direction", way, *few]
            yield shlex.join([*words, "--out", self.file(name, seed, f"-adapt-{way}")])

    def sample(self, name: str, seed: int, ending: str = "-sample", more: list[str] | None = None) -> str:
        """Return the command that evaluates offspring of a run."""
        words = ["ees-mpi", "sample", self.file(name, seed), "--count", "20" if self.scale == "tiny" else "1000"]
        return shlex.join([*words, *(more or []), "--out", self.file(name, seed, ending)])

    def quarter(self, name: str, seed: int) -> str:
        """Return the command that evaluates offspring with mutations of a quarter of the size."""
        return self.sample(name, seed, "-sample-quarter", ["--std", "0.005"])

    def runs(self) -> Iterator[str]:
        """Return all commands."""
        if self.scale == "plan":
            yield from self.plan()
            return
        everyone = range(self.seeds)
        named = ["interference-maxvar", "interference-maxent"]
        named += [f"{robot}-{method}" for robot in ("cheetah", "ant") for method in ("es", "maxvar", "maxent")]
        named += ["cheetah-maml"] if self.maml else []
        for name in (*named, "ant-adapt"):
            yield from (self.train(name, seed) for seed in everyone)
        for name in ("ant-maxvar", "ant-maxent"):
            yield from (self.train(f"{name}-mixture", seed) for seed in range(self.half))
            yield from (self.further(name, seed) for seed in everyone)
            yield from (self.split(name, seed) for seed in range(self.half))
        for name in ("cheetah-maxvar", "cheetah-maxent", *(["cheetah-maml"] if self.maml else [])):
            for seed in everyone:
                yield from (*self.adapt(name, seed), self.sample(name, seed), self.quarter(name, seed))

    def plan(self) -> Iterator[str]:
        """Return the plan of docs/reproduce.md: its blocks in order, and inside a block seed by seed."""
        few = range(min(3, self.seeds))
        for seed in range(self.seeds):
            yield from (self.train(f"ant-{method}", seed) for method in ("es", "maxvar", "maxent"))
        for seed in range(self.seeds):
            yield from (self.further(f"ant-{method}", seed) for method in ("maxvar", "maxent"))
            yield self.train("ant-adapt", seed, "ant-adapt-gentle", more=GENTLE)
            if seed in few:
                yield self.train("ant-adapt", seed)
                yield self.further("ant-maxent", seed, "further-fresh", FRESH)
                yield self.train("ant-es-backward", seed)
                yield self.further("ant-es-backward", seed)
        for seed in range(self.seeds):
            yield from (self.train(f"cheetah-{method}", seed) for method in ("es", "maxvar", "maxent"))
            for name in ("cheetah-maxvar", "cheetah-maxent"):
                yield from (*self.adapt(name, seed), self.sample(name, seed))
        for seed in range(self.seeds) if self.maml else ():
            name = "cheetah-maml"
            yield from (self.train(name, seed), *self.adapt(name, seed))
            yield from (self.sample(name, seed), self.quarter(name, seed))
        for seed in range(self.seeds):
            yield from (self.train("ant-maxent-mixture", seed), self.split("ant-maxent", seed))
        yield from (self.train(f"cheetah-{method}-authors", 0) for method in ("maxvar", "maxent"))

    def figures(self) -> Iterator[str]:
        """Return the commands of the paper's figures; those of single runs take seed 0."""

        def draw(name: str, files: list[str], figure: str = "") -> str:
            picture = self.folder / "figures" / f"{name}.png"
            return shlex.join(["ees-mpi", "figure", figure or name, *files, "-o", str(picture)])

        yield shlex.join(["mkdir", "-p", str(self.folder / "figures")])
        yield draw("interference", self.files("interference-maxvar", "interference-maxent"))
        for robot in ("cheetah", "ant"):
            three = [f"{robot}-{method}" for method in ("es", "maxvar", "maxent")]
            yield draw(robot, self.files(*three, seeds=1))
            yield draw(f"locomotion-{robot}", self.files(*three), "locomotion")
        trained = ["cheetah-maxvar", "cheetah-maxent", *(["cheetah-maml"] if self.maml else [])]
        samples = [self.file(name, 0, ending) for ending in ("-sample", "-sample-quarter") for name in trained]
        yield draw("maml", samples)
        yield draw("adaptation", self.files("ant-adapt", "ant-maxvar-further", "ant-maxent-further"))
        yield draw("adaptation-heatmaps", self.files("ant-maxent-further", "ant-maxvar-further", seeds=1))
        for name in ("ant-maxent", "ant-maxvar"):
            kinds = self.files(name, f"{name}-mixture", f"{name}-split", seeds=1)
            yield draw(f"mixture-{name[4:]}", kinds, "mixture")
        if self.maml:
            yield draw("maml-training", self.files("cheetah-maml"))

    def statistics(self) -> Iterator[str]:
        """Return the commands that test the claims of the paper, each after its sentence."""

        def claim(sentence: str, metric: str, ours: list[str], theirs: list[str], *more: str) -> str:
            test = shlex.join(["ees-mpi", "compare", "--metric", metric, *ours, "--against", *theirs, *more])
            return f"echo {shlex.quote('## ' + sentence)} && {test} && echo"

        for robot in ("cheetah", "ant"):
            both, es = self.files(f"{robot}-maxvar", f"{robot}-maxent"), self.files(f"{robot}-es")
            said = f"{robot}: standard ES moves further than either variant; MaxVar and MaxEnt do not differ"
            yield claim(said, "distance_mean", both, es)
            if robot == "cheetah":
                # In short runs no offspring may pass the radius, and balance has no value.
                radius = [] if self.scale == "paper" else ["--radius", "1e-9"]
                yield claim("cheetah: offspring go left and right", "balance", both, es, *radius)
            else:
                yield claim("ant: more offspring of standard ES end near the origin", "near_origin", both, es)
        both, random = self.files("ant-maxvar-further", "ant-maxent-further"), self.files("ant-adapt")
        for updates in dict.fromkeys(self.after(number) for number in (5, 10, 20)):
            said = f"seeding: standard ES gets further from a trained mean than from a random one in {updates} updates"
            yield claim(said, f"distance_after_{updates}", both, random)
        for name in ("ant-maxvar", "ant-maxent"):
            two = self.files(f"{name}-mixture", f"{name}-split", seeds=self.half)
            said = f"mixtures, {name}: two components cover as much space as one"
            yield claim(said, "coverage", two, self.files(name, seeds=self.half))
        if not self.maml:
            return
        ees = ("cheetah-maxvar", "cheetah-maxent")
        said = "adaptation: MaxEnt walks further than MAML and than MaxVar; MaxVar and MAML do not differ"
        yield claim(said, "adaptation", self.files(*ees), self.files("cheetah-maml"))
        for ending in ("-sample", "-sample-quarter"):
            theirs = self.files("cheetah-maml", ending=ending)
            for metric, verb in {"distance_mean": "end further away", "distance_variance": "spread wider"}.items():
                said = f"offspring of MaxVar and MaxEnt {verb} than those of MAML ({ending[1:]})"
                yield claim(said, metric, self.files(*ees, ending="-sample"), theirs)


def print_blocks(script: str, known: dict[str, list[str]], names: list[str]) -> int:
    """Print the commands of some blocks of a plan, or of all."""
    if unknown := set(names) - set(known):
        sys.exit(f"{script}: expected blocks {', '.join(known)}, got {', '.join(sorted(unknown))}")
    say("\n".join(line for name in names or known for line in known[name]))
    return 0


def main() -> int:
    """Print the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["runs", "figures", "statistics"])
    parser.add_argument(
        "--engine", choices=["bullet", "mujoco"], default="bullet", help="of the paper's robots [bullet]"
    )
    parser.add_argument(
        "--scale",
        help="paper; plan: 30 generations; tiny; or a number up to 1 that multiplies populations and generations "
        "[paper; mujoco: plan]",
    )
    parser.add_argument("--seeds", type=int, help="of each algorithm; mixtures: half [12; plan 6; tiny 2]")
    parser.add_argument("--folder", type=Path, default=Path(), help="of all files [this one]")
    parser.add_argument("--without-maml", action="store_true", help="leave MAML out; it needs torch")
    told = parser.parse_args()
    scale = told.scale or ("plan" if told.engine == "mujoco" else "paper")
    try:
        if scale not in ("paper", "plan", "tiny") and not 0 < float(scale) <= 1:
            raise ValueError
    except ValueError:
        parser.error(f"--scale {scale}: expected paper, plan, tiny, or a number above 0 and up to 1")
    seeds = SEEDS.get(scale, 12) if told.seeds is None else told.seeds
    if seeds < 1:
        parser.error(f"--seeds {seeds}: expected a number of runs")
    paper = Paper(told.engine, scale, seeds, told.folder, not told.without_maml)
    try:
        say("\n".join(getattr(paper, told.what)()))
    except EesError as error:
        print(f"plan.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
