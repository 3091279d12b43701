#!/usr/bin/env python3
"""Compare the relatives of Evolvability ES on the walker, with equal rollouts; needs version 0.2.0 of ees_mpi.

    python relatives.py [EARLIER.json] > relatives.json

Each has 60 generations of 200 rollouts and three seeds, and the best of four learning rates on three other seeds (those
in EARLIER.json are taken from there). Then mutations of the learned network are rolled out. NSR-ES and NSRA-ES have
four means among their 200: measured are the fittest one and ("all means") equally many mutations of each. ES-MAML has
20 individuals of 1 + 9 rollouts; they climb here side by side, because the walker is fast for many networks at once.
"""

import json
import sys
from pathlib import Path

import numpy as np
import walker

import ees_mpi

SIZE, GENERATIONS, MUTATIONS, SEEDS, CHOICE = 200, 60, 2_000, (0, 1, 2), (97, 98, 99)
RATES = (0.01, 0.03, 0.1, 0.3)
QUERIES, FEW, REPEATS = 9, 40, 25  # of ES-MAML in training; rollouts of an adaptation, and how often it is measured
CHOSEN = {"name": "chosen", "components": 4}
METHODS = {
    "standard ES": ("fitness", None),
    "MaxVar": ("maxvar", None),
    "MaxEnt": ("maxent", None),
    "blend": ({"name": "blend", "parts": [{"name": name, "share": 0.5} for name in ("fitness", "maxvar")]}, None),
    "Quality-Evolvability ES": ("quality", None),
    "NSR-ES": ({"name": "nsr", "share": 0.5}, CHOSEN),
    "NSRA-ES": ({"name": "nsr", "share": 1.0, "change": 0.05, "patience": 10}, CHOSEN),
    "ES-MAML": ("fitness", None),
}


def climbed(z: np.ndarray, sign: np.ndarray, queries: int, generator: np.random.Generator) -> np.ndarray:
    """Return the final places [n, 2] after hill climbing of each network z [n, D] along sign * x."""
    best = np.asarray(walker.walk(z))
    for _ in range(queries):
        tried = z + np.float32(walker.STD) * generator.standard_normal(z.shape, dtype=np.float32)
        places = np.asarray(walker.walk(tried))
        better = sign * places[:, 0] > sign * best[:, 0]
        z, best = np.where(better[:, None], tried, z), np.where(better[:, None], places, best)
    return best


def trained(name: str, seed: int, rate: float) -> np.ndarray:
    """Return the learned means [K, D], the fittest first."""
    objective, population = METHODS[name]
    mean = walker.start(seed) if population is None else [walker.start(seed + 1000 * k) for k in range(4)]
    size = SIZE // (1 + QUERIES) if name == "ES-MAML" else SIZE
    shape = {"size": size, "std": walker.STD, "seed": seed, "optimizer": {"name": "adam", "lr": rate}}
    generator = np.random.default_rng(seed)
    with ees_mpi.Strategy(mean, objective, population=population, config={"noise": {"size": 2**22}}, **shape) as es:
        for _ in range(GENERATIONS):
            if name == "ES-MAML":
                sign = np.repeat(generator.permutation(np.resize([1, -1], size // 2)), 2)
                places = climbed(es.ask(), sign, QUERIES, generator)
                es.tell(places, sign * places[:, 0])
            else:
                parts = [walker.walk(z) for z in es.ask(chunk=64)]
                es.tell(parts, [part[:, 0] for part in parts])
        means = es.mean.reshape(-1, walker.PARAMETERS).copy()
    return means[np.argsort(-walker.walk(means)[:, 0])]


def measured(means: np.ndarray, seed: int) -> dict[str, float]:
    """Return the measures of mutations, equally many of each mean."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((MUTATIONS, walker.PARAMETERS), dtype=np.float32)
    found = np.asarray(walker.walk(np.repeat(means, MUTATIONS // len(means), axis=0) + np.float32(walker.STD) * noise))
    known = walker.measures(found)
    start = np.repeat(means[:1], REPEATS, axis=0)
    climbs = [sign * climbed(start, sign, FEW - 1, generator)[:, 0].mean() for sign in (np.array(1), np.array(-1))]
    return {
        "mean x": float(found[:, 0].mean()),
        "coverage": known["coverage"],
        "entropy": known["entropy"],
        "worst of three directions, best of 40": min(known["best_of_40"]),
        "40 rollouts of climbing, 0 degrees": float(climbs[0]),
        "40 rollouts of climbing, 180 degrees": float(climbs[1]),
    }


def goal(name: str, known: dict[str, float]) -> float:
    """Return how well a method does its own task: fitness, evolvability, or the sum of both, each near 1 if good."""
    far, wide = known["mean x"] / 30, known["entropy"] / 4
    both = known["40 rollouts of climbing, 0 degrees"] + known["40 rollouts of climbing, 180 degrees"]
    own = {"MaxVar": wide, "MaxEnt": wide, "blend": far + wide, "Quality-Evolvability ES": far + wide, "ES-MAML": both}
    return own.get(name, far)


def main() -> None:
    """Measure all methods; print a line for each to stderr, and JSON to stdout."""
    earlier = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else {}
    result = {}
    for name in METHODS:
        rate = earlier.get(name, {}).get("rate")
        if rate is None:
            scores = [sum(goal(name, measured(trained(name, s, rate)[:1], s)) for s in CHOICE) for rate in RATES]
            rate = RATES[int(np.argmax(scores))]
        learned = [trained(name, seed, rate) for seed in SEEDS]
        parts = {name: [means[:1] for means in learned]}
        if len(learned[0]) > 1:
            parts[f"{name}, all means"] = learned
        for part, sets in parts.items():
            rows = [measured(means, seed) for means, seed in zip(sets, SEEDS, strict=True)]
            result[part] = {"rate": rate, **{key: [round(row[key], 2) for row in rows] for key in rows[0]}}
            print(part, result[part], file=sys.stderr, flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
