#!/usr/bin/env python3
"""Train the interference task with a std that is too small to see across the waves: fixed, and learned.

    jobs/paper/learned_spread.py [--folder runs] [--seeds 5] [--generations 3000]

Prints, for each seed, the distance of the last mean from the optimum, and the last std. The table in
`ees_mpi/docs/measure.md` comes from this command. Finished runs in the folder are used again.
"""

import argparse
import subprocess
from pathlib import Path

from ees_mpi import open_run
from ees_mpi.tasks.interference import OPTIMUM

STD = 0.05
CLOSE = 0.3  # from the optimum


def train(folder: Path, population: str, seed: int, generations: int) -> Path:
    """Train one run with a fixed ("normal") or a learned ("diagonal") spread; return its file."""
    out = folder / f"interference-{population}-seed{seed}.h5"
    settings = (f"population.name={population}", f"population.std={STD}", f"run.generations={generations}")
    words = [word for setting in settings for word in ("--set", setting)]
    command = ["ees-mpi", "train", "interference-maxvar", "--seed", str(seed), *words, "--out", str(out), "--resume"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


def result(path: Path) -> tuple[float, float]:
    """Return the last mean and the last std of a run."""
    with open_run(path) as run:
        state = run.state_arrays()
        std = state["std"][0, 0] if "std" in state else run.config.population.std
        return float(state["mean"][0, 0]), float(std)


def main() -> None:
    """Train all runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--generations", type=int, default=3000)
    wanted = parser.parse_args()
    wanted.folder.mkdir(exist_ok=True)
    print("spread   seed   mean      off by    std")
    for population, name in (("diagonal", "learned"), ("normal", "fixed")):
        close = 0
        for seed in range(wanted.seeds):
            mean, std = result(train(wanted.folder, population, seed, wanted.generations))
            close += abs(mean - OPTIMUM) < CLOSE
            print(f"{name:8} {seed:4}   {mean:7.3f}   {abs(mean - OPTIMUM):7.3f}   {std:.3f}", flush=True)
        print(f"{name}: {close} of {wanted.seeds} within {CLOSE} of the optimum, {OPTIMUM:.3f}", flush=True)


if __name__ == "__main__":
    main()
