#!/usr/bin/env python3
"""Print the commands of the second plan (docs/reproduce.md), block by block: one `ees-mpi` command per line.

    python jobs/paper/released_plan.py a b        the blocks a and b
    python jobs/paper/released_plan.py            all blocks, in their order

Each line writes one file. A line that starts from another run names its file.
"""

import sys
from collections.abc import Iterable

from ees_mpi.terminal import say

GPU = "--set task.engine=mujoco"


def train(preset: str, seed: int, name: str = "", more: str = "") -> str:
    """Return the command of a training."""
    return f"ees-mpi train {preset} {GPU} {more}--seed {seed} --out {name or preset}-mujoco-seed{seed}.h5"


def offspring(preset: str, seed: int) -> list[str]:
    """Return the commands of the adaptations and of the sample of a run."""
    run = f"{preset}-mujoco-seed{seed}"
    adapted = [f"ees-mpi adapt {run}.h5 --direction {side} --out {run}-adapt-{side}.h5" for side in ("left", "right")]
    return [*adapted, f"ees-mpi sample {run}.h5 --count 1000 --out {run}-sample.h5"]


def cheetah(seeds: Iterable[int], *presets: str) -> list[str]:
    """Return trainings of the cheetah with their offspring, seed by seed."""
    return [line for seed in seeds for preset in presets for line in (train(preset, seed), *offspring(preset, seed))]


def seeding(seed: int) -> list[str]:
    """Return standard ES towards +x: from MaxEnt, from a random mean, from a control that walks towards +y."""
    start, side = f"ant-maxent-authors-mujoco-seed{seed}.h5", f"ant-es-authors-sideways-mujoco-seed{seed}.h5"
    plain = "--set optimizer.correct_first=true "
    lines = [
        train("ant-adapt-authors", seed, "ant-maxent-authors-further", f"{plain}--from {start} "),
        train("ant-adapt-authors", seed),
    ]
    if seed <= 8:
        sideways = "--set task.direction=90.0 --set run.generations=30 "
        lines += [
            train("ant-es-authors", seed, "ant-es-authors-sideways", sideways),
            train("ant-adapt-authors", seed, "ant-es-authors-sideways-further", f"{plain}--from {side} "),
        ]
    return lines


def maml(seed: int) -> list[str]:
    """Return MAML with as many steps as 30 generations, its adaptations and its offspring."""
    run = f"cheetah-maml-mujoco-seed{seed}"
    quarter = f"ees-mpi sample {run}.h5 --count 1000 --std 0.005 --out {run}-sample-quarter.h5"
    trained = train("cheetah-maml", seed, more="--set run.generations=375 ")
    return [trained, *offspring("cheetah-maml", seed), quarter]


def blocks() -> dict[str, list[str]]:
    """Return the commands of each block."""
    whiten = "--set objective.normalization=whiten "
    ant = [train(f"ant-{name}-authors", seed) for seed in range(6, 12) for name in ("maxent", "es")[: 1 + (seed <= 8)]]
    return {
        "a": cheetah(range(6, 12), "cheetah-es-authors", "cheetah-maxent-authors"),
        "b": cheetah(range(12, 18), "cheetah-es-authors", "cheetah-maxent-authors"),
        "c": [train("cheetah-maxent-authors", seed, "cheetah-maxent-authors-whiten", whiten) for seed in range(6, 12)],
        "d": ant,
        "e": [train("ant-es-authors", seed) for seed in range(9, 12)] + [x for s in range(6, 12) for x in seeding(s)],
        "g": cheetah(range(6, 12), "cheetah-maxvar-authors") + [train("ant-maxvar-authors", s) for s in range(6, 9)],
        "f": [line for seed in range(6) for line in maml(seed)],
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
