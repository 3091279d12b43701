"""The feasibility theorem in numbers and as a figure: how often mutants flip, beside the proved bounds.

python jobs/paper/feasibility.py                     prints the numbers
python jobs/paper/feasibility.py feasibility.png     draws mutants of one network
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, norm, uniform
from theorem import EPSILON, EXAMPLES, RATIO, bounds, count_flips, flipping, grid

from ees_mpi.analysis.figures import style

CONFIDENCE = 0.99
MUTANTS = 30  # in the figure


class Row(NamedTuple):
    """How often mutants came within epsilon of one of the two functions."""

    perturbations: str
    to: str
    measured: float
    limit: float  # binomial lower limit of the measured probability
    proved: float
    switch_alone: float  # the paper's bound, which ignores the other weights


def compare(count: int = 2000, seed: int = 0) -> list[Row]:
    """Measure flips under perturbations supported in (-d2, d2) and under Gaussian ones of several sizes."""
    network = flipping(*EXAMPLES, EPSILON, RATIO)
    d1, d2 = network.d1, network.d2
    generator = np.random.default_rng(seed)
    kinds = {"uniform in (-d2, d2)": uniform(-d2, 2 * d2)}
    kinds |= {f"Gaussian, sd d2 / {share}": norm(0, d2 / share) for share in (4, 3, 2)}
    rows = []
    for kind, distribution in kinds.items():
        draw, cdf = partial(distribution.rvs, random_state=generator), distribution.cdf
        flips = count_flips(network, *EXAMPLES, EPSILON, draw, count)
        for to, seen, proved in zip("gh", flips, bounds(network, cdf), strict=True):
            # The bound of the switch alone is the same for g and h: these distributions are symmetric.
            rows.append(Row(kind, to, seen / count, lower_limit(seen, count), proved, cdf(d2) - cdf(d1)))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the comparison as text."""
    lines = [f"{'perturbations':22} to  measured  lower limit    proved  of w_k alone"]
    for kind, to, measured, limit, proved, alone in rows:
        lines.append(f"{kind:22} {to:2} {measured:9.3f} {limit:12.3f} {proved:9.2g} {alone:13.3f}")
    return "\n".join(lines)


def lower_limit(successes: int, count: int, confidence: float = CONFIDENCE) -> float:
    """Return the exact (Clopper-Pearson) lower limit of a binomial probability."""
    test = binomtest(successes, count, alternative="greater")
    return float(test.proportion_ci(confidence).low)


def draw(out: str) -> None:
    """Draw two functions, and mutants of one network that flips between them."""
    network, x = flipping(*EXAMPLES, EPSILON, RATIO), grid(1)
    with style.drawing():
        figure, (panel,) = style.grid(1, 1, 2.4)
        figure.set_size_inches(5.0, 2.4)
        for xi in np.random.default_rng(0).normal(0, network.d2 / 4, (MUTANTS, len(network.parameters))):
            color = "tab:orange" if xi[network.switch] > 0 else "tab:blue"
            panel.plot(x[:, 0], network.mutant(xi)(x), color=color, linewidth=0.5, alpha=0.6)
        for name, color, line, function in zip("gh", ("orange", "blue"), ("--", ":"), EXAMPLES, strict=True):
            panel.plot([], [], color=f"tab:{color}", linewidth=0.5, label=f"mutants that follow ${name}$")
            panel.plot(x[:, 0], function(x), color="black", linestyle=line, label=f"${name}$")
        panel.set(title=f"{MUTANTS} mutants of one network", xlabel="$x$", ylabel="output", xlim=(0, 1))
        panel.legend(loc="lower left")
        figure.savefig(out)


if __name__ == "__main__":
    print(table(compare())) if len(sys.argv) == 1 else draw(sys.argv[1])
