#!/usr/bin/env python3
"""Print the commands of the experiment on heritability (docs/heritability.md), and the table of its measurements.

    python jobs/paper/heritability_plan.py cheetah            trainings of all arms, seeds 0 to 2, and measurements
    python jobs/paper/heritability_plan.py ant 3 6            the same of the ant, seeds 3 to 5
    python jobs/paper/heritability_plan.py means              measurements of all kept means of the paper's robots; it
                                                              writes those that blocks keep as RUN.npz
    python jobs/paper/heritability_plan.py table FILE.h5 ...  the table of measured files

Each line of a list writes one file: `python jobs/paper/heritability_plan.py cheetah >list`, then run_list.py.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ees_mpi import open_run
from ees_mpi.analysis.labels import label
from ees_mpi.analysis.numbers.heritability import facts

HERE = Path(__file__).parent
GENERATIONS, ROLLOUTS = 60, 10_000
ARMS = {  # objective, starts of an individual, whose starts they are
    "fixed": ("maxvar", 1, "fixed"),
    "fresh": ("maxvar", 1, "common"),
    "mean": ("maxvar", 2, "own"),
    "repeatable": ("repeatable", 2, "own"),
    "repeatable-common": ("repeatable", 2, "common"),
}
COLUMNS = {
    "mutation": "heritable variance",
    "share": "share",
    "kept": "side kept",
    "realised": "realised",
    "distance": "distance",
    "adapted": "best of 40",
}


def training(robot: str, arm: str, seed: int) -> str:
    """Return the command of one run: equal rollouts in all arms."""
    objective, rollouts, starts = ARMS[arm]
    whiten = "--set objective.normalization=whiten " if objective == "maxvar" else ""
    return (
        f"ees-mpi train {robot}-maxvar-authors --set task.engine=mujoco --set objective.name={objective} {whiten}"
        f"--set run.generations={GENERATIONS} --set population.size={ROLLOUTS // rollouts} "
        f"--set task.rollouts={rollouts} --set task.starts={starts} --seed {seed} --out {robot}-{arm}-seed{seed}.h5"
    )


def measuring(policy: str, name: str, more: str = "") -> str:
    """Return the command that measures a mean on 20 unseen starts."""
    words = "--std 0.02 --count 200 --starts 20"
    return f"ees-mpi measure {policy} {more}{words} --label {name} --out {name}-starts.h5"


def experiment(robot: str, seeds: Sequence[int]) -> list[str]:
    """Return all commands of a robot, seed by seed."""
    lines = []
    for seed in seeds:
        lines += [training(robot, arm, seed) for arm in ARMS]
        lines += [measuring(f"{robot}-{arm}-seed{seed}.h5", f"{robot}-{arm}-seed{seed}") for arm in ARMS]
    return lines


def means() -> list[str]:
    """Return the commands for the kept means: those of the shelf, and those of the blocks, which are written here."""
    from blocks import read_block

    lines = [measuring(str(path), path.stem) for path in sorted(HERE.glob("shelf/[ac]*.npz"))]
    for run in (run for path in sorted(HERE.glob("results/*.h5")) for run in read_block(path) if run.policy):
        task = f"--task {run.name.split('-')[0]}-es-authors --set task.engine=mujoco " if "maml" in run.name else ""
        np.savez_compressed(f"{run.name}.npz", **run.policy)
        lines.append(measuring(f"{run.name}.npz", run.name, task))
    return lines


def table(paths: Sequence[Path]) -> list[str]:
    """Return the measurements as rows of Markdown, and the rank correlation of heritable variance and adaptation."""
    lines = [f"| mean | {' | '.join(COLUMNS.values())} |", "|---" * (1 + len(COLUMNS)) + "|"]
    numbers = []
    for path in paths:
        with open_run(path) as run:
            row, name = facts(run)[0], label(run)
        cells = {key: f"{row.get(key, float('nan')):.3g}" for key in COLUMNS}
        cells["share"] += f" ({row['low']:.2f} to {row['high']:.2f})"
        lines.append(f"| {name} | {' | '.join(cells.values())} |")
        numbers.append((row["mutation"], row["adapted"]))
    if len(numbers) > 2:
        from scipy.stats import spearmanr

        found = spearmanr(*zip(*numbers, strict=True)).statistic
        lines.append(f"\nRank correlation of heritable variance and best of 40: {found:.2f} ({len(numbers)} means)")
    return lines


def main(words: Sequence[str]) -> int:
    """Print a list of commands, or a table."""
    match list(words):
        case [("cheetah" | "ant") as robot, *limits] if len(limits) in (0, 2):
            lines = experiment(robot, range(*map(int, limits or ("0", "3"))))
        case ["means"]:
            lines = means()
        case ["table", *files] if files:
            lines = table([Path(file) for file in files])
        case _:
            sys.exit(
                "heritability_plan.py: expected cheetah, ant (and two seeds: from, to), means, or table FILE.h5 ..."
            )
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
