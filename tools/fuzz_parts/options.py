"""Malformed options and settings, for tools/fuzz.py."""

import random

NUMBERS = ("1e12", "1e300", "1e308", "-1", "0", "nan", "inf", "9" * 5000, "1_000", "", " ", "0x10", "²", "1e-320")
TEXTS = (
    "",
    "..x:y",
    "os:system",
    "../../x",
    "\x1b[2J",
    "x" * 10_000,
    "[" * 2000,
    "{" * 2000,
    "'",
    "a=b=c",
    "\n",
    "\udcff",
)
KEYS = (
    *("population.size", "population.std", "population.components", "run.generations", "run.seed", "run.stall_minutes"),
    *("run.fold_minutes", "noise.size", "objective.name", "objective.bandwidth", "optimizer.lr", "task.name"),
    *(
        "task.function",
        "task.start",
        "task.steps",
        "task.hidden",
        "task.env_settings",
        "optimizer.l2",
        "no.such.key",
        "",
        ".",
        "method",
    ),
)


def malformed(chance: random.Random) -> list[str]:
    """Return a command line with one malformed option."""
    value = chance.choice((*NUMBERS, *TEXTS))
    few = ["--set", "run.generations=1", "--set", "population.size=4", "--set", "noise.size=5000", "--out", "out.h5"]
    lines = [
        ["train", "interference-maxvar", *few, "--set", f"{chance.choice(KEYS)}={value}"],
        ["train", "interference-maxvar", *few, "--from", value],
        ["train", "interference-maxvar", *few, "--seed", value],
        ["train", value, *few],
        ["sample", "run.h5", "--count", value, "--out", "out.h5"],
        ["sample", "run.h5", "--count", "2", "--std", value, "--out", "out.h5"],
        ["sample", "run.h5", "--count", "2", "--generation", value, "--out", "out.h5"],
        ["adapt", "run.h5", "--direction", value],
        ["report", value],
        ["info", value],
        ["verify", "run.h5", "--generation", value],
        ["verify", "run.h5", "--individuals", value],
        ["export", "run.h5", "--policy", "--generation", value],
        ["figure", value, "run.h5"],
        ["metrics", "run.h5", "--generation", value],
        ["compare", "--metric", value, "run.h5", "--against", "run.h5"],
        ["plan", "interference-maxvar", "--ranks", value],
        ["plan", "interference-maxvar", "--ranks", "1", "--set", f"{chance.choice(KEYS)}={value}"],
        ["measure", "run.h5", "--std", value, "--count", "4", "-o", "out.h5"],
        ["measure", "run.h5", "--std", "0.1", "--count", value, "-o", "out.h5"],
        ["measure", value, "--task", "interference-maxvar", "--std", "0.1", "--count", "4", "-o", "out.h5"],
        ["measure", "run.h5", "--std", "0.1", "--count", "4", "--normaliser", value, "-o", "out.h5"],
        ["metrics", "run.h5", "--bandwidth", value],
        ["config", "run.h5", "--set", f"{chance.choice(KEYS)}={value}"],
    ]
    return [word.replace("\0", "") for word in chance.choice(lines)]
