#!/usr/bin/env python3
"""Print the commands of the second plan (docs/reproduce.md), block by block: one `ees-mpi` command per line.

    python jobs/paper/released_plan.py a b        the blocks a and b
    python jobs/paper/released_plan.py            all blocks, in their order

Each line writes one file. A line that starts from another run names its file.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from plan import FRESH, Paper, sets

from ees_mpi.terminal import say

PAPER = Paper("paper", "mujoco", "paper", seeds=18, folder=Path(), maml=True)


def cheetah(seeds: Iterable[int], *presets: str, more: Iterable[str] = ()) -> list[str]:
    """Return trainings of the cheetah with their adaptations and offspring, seed by seed."""
    lines = []
    for seed, preset in ((seed, preset) for seed in seeds for preset in presets):
        lines += [PAPER.train(preset, seed, more=list(more)), *PAPER.adapt(preset, seed), PAPER.sample(preset, seed)]
    return lines


def seeding(seed: int) -> list[str]:
    """Return standard ES towards +x: from MaxEnt, from a random mean, from a control that walks towards +y."""

    def further(start: str) -> str:
        return PAPER.train(
            "ant-adapt-authors", seed, f"{start}-further", more=[*FRESH, "--from", PAPER.file(start, seed)]
        )

    lines = [further("ant-maxent-authors"), PAPER.train("ant-adapt-authors", seed)]
    if seed <= 8:
        sideways = sets("task.direction=90.0", "run.generations=30")
        lines.append(PAPER.train("ant-es-authors", seed, "ant-es-authors-sideways", more=sideways))
        lines.append(further("ant-es-authors-sideways"))
    return lines


def blocks() -> dict[str, list[str]]:
    """Return the commands of each block; MAML has as many steps as 30 generations, and offspring of both sizes."""
    whiten, equal = sets("objective.normalization=whiten"), sets("run.generations=375")
    maml = [[*cheetah([seed], "cheetah-maml", more=equal), PAPER.quarter("cheetah-maml", seed)] for seed in range(6)]
    names = {seed: ("maxent", "es") if seed <= 8 else ("maxent",) for seed in range(6, 12)}
    return {
        "a": cheetah(range(6, 12), "cheetah-es-authors", "cheetah-maxent-authors"),
        "b": cheetah(range(12, 18), "cheetah-es-authors", "cheetah-maxent-authors"),
        "c": [
            PAPER.train("cheetah-maxent-authors", seed, "cheetah-maxent-authors-whiten", more=whiten)
            for seed in range(6, 12)
        ],
        "d": [PAPER.train(f"ant-{name}-authors", seed) for seed, both in names.items() for name in both],
        "e": [PAPER.train("ant-es-authors", seed) for seed in range(9, 12)]
        + [line for seed in range(6, 12) for line in seeding(seed)],
        "g": cheetah(range(6, 12), "cheetah-maxvar-authors")
        + [PAPER.train("ant-maxvar-authors", seed) for seed in range(6, 9)],
        "f": [line for lines in maml for line in lines],
    }


def main(names: list[str]) -> int:
    """Print the blocks."""
    known = blocks()
    if unknown := set(names) - set(known):
        sys.exit(f"released_plan.py: expected blocks {', '.join(known)}, got {', '.join(sorted(unknown))}")
    for name in names or known:
        say("\n".join(known[name]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
