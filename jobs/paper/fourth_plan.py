#!/usr/bin/env python3
"""Print the commands of the fourth plan (docs/reproduce.md), block by block; its verdicts are functions here.

    python jobs/paper/fourth_plan.py four own      the blocks `four` and `own`
    python jobs/paper/fourth_plan.py               all blocks, in the order in which they are run

Each line writes one file. The block `ranks` measures the means of block d of the second plan, which must lie beside its
list as ant-maxent-authors-mujoco-seed6.npz to -seed11.npz: 4a26add:jobs/paper/results/released-d.h5 keeps them. The
block `continued` starts from means of the third plan.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from plan import FRESH, Paper, print_blocks, sets
from scipy.stats import mannwhitneyu

PAPER = Paper("mujoco", "paper", seeds=18, folder=Path(), maml=True)
ANTS, CHEETAHS, THREE = range(9, 15), range(6, 12), range(6, 9)  # seeds
ANT, CHEETAH = "ant-maxent-authors", "cheetah-maxent-authors"
FIFTY = sets("run.generations=50")
WHITEN = sets("objective.normalization=whiten")
RING = "ant-maxent-authors-whiten-mujoco-seed{}.npz"  # a mean with an even ring from its one start
RUNS, ENOUGH, TOO_FEW = 6, 5, 2  # of the reliable ring
SECTORS = 8
LEAST = 0.67  # of the ratio of the cheetahs' heritable variances
LEVEL = 0.05
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


def starts(count: int) -> list[str]:
    """Return the settings of an individual that is the mean over its own starts: 10,000 rollouts a generation."""
    return sets(f"population.size={10_000 // count}", f"task.rollouts={count}", "task.starts=own")


def train(preset: str, arm: str, seeds: Iterable[int], *more: str) -> list[str]:
    """Return the trainings of one arm, then the measurement of each mean: 200 mutations from 20 unseen starts."""
    name, seeds = f"{preset}-{arm}", list(seeds)
    lines = [PAPER.train(preset, seed, name, more=[word.format(seed) for word in more]) for seed in seeds]
    return lines + [measure(PAPER.file(name, seed)) for seed in seeds]


def measure(policy: str, ending: str = "") -> str:
    """Return the command that measures a trained mean from unseen starts."""
    name = f"{Path(policy.partition('@')[0]).stem}{ending}"
    return f"ees-mpi measure {policy} --std 0.02 --count 200 --starts 20 --label {name} --out {name}-starts.h5"


def adapt(name: str, seed: int, generation: str = "", ending: str = "") -> list[str]:
    """Return the two adaptations of a cheetah, chosen from one start as in the paper."""
    one = "--set task.rollouts=1"
    return [
        f"ees-mpi adapt {PAPER.file(name, seed)}{generation} --direction {way} {one} "
        f"--out {PAPER.file(name, seed, f'{ending}-adapt-{way}')}"
        for way in ("left", "right")
    ]


def cheetahs() -> list[str]:
    """Return the cheetahs with four starts, measured and adapted after 100 generations and after 30."""
    name = f"{CHEETAH}-four"
    lines = train(CHEETAH, "four", CHEETAHS, *starts(4))
    for seed in CHEETAHS:
        lines.append(measure(f"{PAPER.file(name, seed)}@30", "-after30"))
        lines += [*adapt(name, seed), *adapt(name, seed, "@30", "-after30")]
    return lines


def controls() -> list[str]:
    """Return one-start cheetahs of 30 generations, with as many steps as MAML, measured and adapted."""
    lines = train(CHEETAH, "short", THREE, *sets("run.generations=30"))
    return lines + [line for seed in THREE for line in adapt(f"{CHEETAH}-short", seed)]


def seeding(seed: int) -> list[str]:
    """Return standard ES sideways for 100 generations, then towards +x: the control of seeding with equal training."""
    name = "ant-es-authors-sideways100"
    further = [*FRESH, "--from", PAPER.file(name, seed)]
    return [
        PAPER.train("ant-es-authors", seed, name, more=sets("task.direction=90.0")),
        PAPER.train("ant-adapt-authors", seed, f"{name}-further", more=further),
    ]


def blocks() -> dict[str, list[str]]:
    """Return the commands of each block, in the order of the plan."""
    return {
        "four": train(ANT, "four", ANTS, *WHITEN, *starts(4)),
        "small": train(ANT, "small", THREE, *WHITEN, *sets("population.size=2500")),
        "own": train(ANT, "own", ANTS, *WHITEN, *starts(1)),
        "ranks": [measure(PAPER.file(ANT, seed).replace(".h5", ".npz")) for seed in range(6, 12)],
        "cheetah": cheetahs(),
        "controls": controls(),
        "ranks-four": train(ANT, "ranks-four", THREE, *starts(4)),
        "seeding": [line for seed in CHEETAHS for line in seeding(seed)],
        "bandwidth": train(ANT, "narrow", THREE, *sets("objective.bandwidth=0.1")),
        "continued": train(
            ANT, "continued", (7, 8, 10), *WHITEN, *starts(4), *sets("run.generations=50"), "--from", RING
        ),
        "two": train(ANT, "two", range(9, 11), *WHITEN, *starts(2)),
        "sixteen": train(ANT, "sixteen", range(9, 11), *WHITEN, *starts(16)),
    }


def exceeds(first: Sequence[float], second: Sequence[float]) -> tuple[float, bool]:
    """Return the two-sided p of Mann-Whitney, and whether the first group lies above the second."""
    test = mannwhitneyu(first, second, method="exact")
    return float(test.pvalue), bool(test.pvalue < LEVEL and test.statistic > len(first) * len(second) / 2)


def heritable_verdict(four: Sequence[float], *others: Sequence[float]) -> str:
    """Return whether four own starts exceed each of the other arms in heritable variance, or in share."""
    found = [exceeds(four, other) for other in others]
    below = [exceeds(other, four)[1] for other in others]
    return HOLDS if all(above for _, above in found) else FAILS if any(below) else UNDECIDED


def share_verdict(share: Sequence[Sequence[float]], least: float) -> str:
    """Return whether the cheetah's share rises; `least`: the lower end of the ratio of heritable variances."""
    below = exceeds(share[1], share[0])[1]
    return HOLDS if exceeds(*share)[1] and least > LEAST else FAILS if below else UNDECIDED


def ring_verdict(sectors: Sequence[int]) -> str:
    """Return whether runs have the reliable ring: reliable mutations in all eight sectors, in five of six runs."""
    if len(sectors) != RUNS:
        return f"no verdict ({len(sectors)} of {RUNS} runs)"
    whole = sum(count == SECTORS for count in sectors)
    return HOLDS if whole >= ENOUGH else FAILS if whole <= TOO_FEW else UNDECIDED


if __name__ == "__main__":
    sys.exit(print_blocks("fourth_plan.py", blocks(), sys.argv[1:]))
