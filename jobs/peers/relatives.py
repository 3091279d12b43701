#!/usr/bin/env python3
"""Compare the relatives of Evolvability ES on the walker, with equal rollouts.

    python relatives.py [EARLIER.json] > relatives.json

Each has 60 generations of 200 rollouts and three seeds, and the best of four learning rates on three other seeds (those
in EARLIER.json are taken from there). Then mutations of the learned network are rolled out. NSR-ES and NSRA-ES have
four means, and roll out one of them in each generation: measured are the fittest one and ("all means") equally many
mutations of each. ES-MAML has 20 individuals of 1 + 9 rollouts. The relatives are those of jobs/examples/relatives.
relatives.json has the numbers of an earlier form of the programs, in which NSR-ES and NSRA-ES chose the next mean
before they rolled out the last one.
"""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples" / "relatives"))

import es_maml
import nsr
import quality
import walker
from robots import NOISE, Walker

import ees_mpi

SIZE, GENERATIONS, MUTATIONS, SEEDS, CHOICE = 200, 60, 2_000, (0, 1, 2), (97, 98, 99)
RATES = (0.01, 0.03, 0.1, 0.3)
QUERIES, FEW, REPEATS = 9, 40, 25  # of ES-MAML in training; rollouts of an adaptation, and how often it is measured
MEANS = 4  # of NSR-ES and NSRA-ES
OBJECTIVES = {
    "standard ES": "fitness",
    "MaxVar": "maxvar",
    "MaxEnt": {"name": "maxent", "bandwidth": 1.0},
    "blend": {"name": "blend", "parts": [{"name": name, "share": 0.5} for name in ("fitness", "maxvar")]},
}
RULES = {"NSR-ES": {"share": 0.5}, "NSRA-ES": {"share": 1.0, "change": 0.05, "patience": 10}}
METHODS = (*OBJECTIVES, "Quality-Evolvability ES", *RULES, "ES-MAML")
WALK = Walker()


def trained(name: str, seed: int, rate: float) -> np.ndarray:
    """Return the learned means [K, D], the fittest first."""
    size = SIZE // (1 + QUERIES) if name == "ES-MAML" else SIZE - 2 * (name in RULES)  # one rollout is of a mean
    seeds = [seed + 1000 * k for k in range(MEANS if name in RULES else 1)]
    settings = {"size": size, "std": walker.STD, "optimizer": {"name": "adam", "lr": rate}}
    settings["config"] = NOISE if name in RULES else {"noise": {"size": NOISE["noise"]["size"]}}
    objective = OBJECTIVES.get(name, "fitness")
    with ExitStack() as stack:
        strategies = [ees_mpi.Strategy(walker.start(each), objective, seed=each, **settings) for each in seeds]
        for es in strategies:
            stack.enter_context(es)
        search = nsr.Search(WALK, strategies, seed=seed, **RULES[name]) if name in RULES else None
        for _ in range(GENERATIONS):
            if search:
                search.step()
            elif name == "Quality-Evolvability ES":
                quality.step(es, WALK)
            elif name == "ES-MAML":
                es_maml.step(es, WALK, QUERIES, walker.STD, seed)
            else:
                es.tell(*WALK(es.ask()))
        means = np.stack([es.mean for es in strategies])
    return means[np.argsort(-walker.walk(means)[:, 0])]


def measured(means: np.ndarray, seed: int) -> dict[str, float]:
    """Return the measures of mutations, equally many of each mean."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((MUTATIONS, walker.PARAMETERS), dtype=np.float32)
    found = np.asarray(walker.walk(np.repeat(means, MUTATIONS // len(means), axis=0) + np.float32(walker.STD) * noise))
    known = walker.measures(found)
    start = np.repeat(means[:1], REPEATS, axis=0)
    generators = generator.spawn(REPEATS)
    signs = np.full((2, REPEATS), [[1], [-1]])
    climbs = [es_maml.climb(WALK, start, sign, FEW - 1, walker.STD, generators)[2].mean() for sign in signs]
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
