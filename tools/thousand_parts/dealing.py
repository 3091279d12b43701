"""The model's seconds of the rollouts, against simulations of dealing: a free rank of a node takes the next one."""

import heapq
import random
import statistics

from ees_mpi.generation.scaling import Work, predict

from ees_mpi.generation.costs import Costs

SHAPES = ((4, 1), (64, 1), (256, 1), (1000, 16), (5000, 80), (10_000, 160))  # ranks, nodes
REPEATS = 4
COSTS = Costs(1.0, 0.0, 0.0, 0.0, 0, lambda rows: 0, 0, "")


def simulated(times: list[float], ranks: int, nodes: int) -> float:
    """Return when the last rank ends."""
    last = 0.0
    for node in range(nodes):
        free = [0.0] * (ranks // nodes)
        for taken in times[len(times) * node // nodes : len(times) * (node + 1) // nodes]:
            heapq.heapreplace(free, free[0] + taken)
        last = max(last, *free)
    return last


def main(words: list[str]) -> None:
    """Print all cases: the logarithm of the times has the standard deviation sigma."""
    drawn, errors = random.Random(1), []
    print("sigma  individuals  ranks  slowest  simulated    model  error")
    for sigma, size in ((sigma, size) for sigma in (0.3, 0.6, 1.0) for size in (10_000, 2000)):
        for ranks, nodes in (shape for shape in SHAPES if shape[0] <= size):
            runs = [[drawn.lognormvariate(-sigma * sigma / 2, sigma) for _ in range(size)] for _ in range(REPEATS)]
            means = [statistics.fmean(times) for times in runs]
            taken = statistics.fmean(
                simulated(times, ranks, nodes) / mean for times, mean in zip(runs, means, strict=True)
            )
            slowest = statistics.fmean(max(times) / mean for times, mean in zip(runs, means, strict=True))
            found = predict(ranks, nodes, Work(COSTS, size, 0, slowest)).evaluate
            errors.append(abs(found / taken - 1))
            print(f"{sigma:5}{size:13}{ranks:7}{slowest:9.1f}{taken:11.2f}{found:9.2f}{found / taken - 1:7.0%}")
    print(f"{len(errors)} cases: median error {statistics.median(errors):.0%}, largest {max(errors):.0%}")
