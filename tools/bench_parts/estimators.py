"""A known gradient, estimated from perturbed parameters and from perturbed actions: means and variances."""

from typing import Any

from bench_parts.on_ranks import table
from bench_parts.pushed_point import Pushed, compare

BATCHES = 400
SIZE = 1000
NOISE = ((0.3, 0.3), (0.05, 0.3), (0.3, 0.05))  # sd of the perturbations, sd of the actions


def estimators() -> list[dict[str, Any]]:
    """Estimate with different amounts of noise in the parameters and in the actions."""
    rows = []
    for std, action_std in NOISE:
        problem = Pushed(std=std, action_std=action_std)
        known = {"std": std, "action_std": action_std, "gradient": problem.gradient()}
        rows += [{**known, **each._asdict()} for each in compare(problem, BATCHES, SIZE)]
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the result for reading."""
    lines = [("std", "of actions", "score", "gradient", "estimated", "variance")]
    for row in rows:
        estimated = f"{row['mean']:.3f} +- {row['error']:.3f}"
        lines.append(
            (
                f"{row['std']}",
                f"{row['action_std']}",
                row["name"],
                f"{row['gradient']:.3f}",
                estimated,
                f"{row['variance']:.2g}",
            )
        )
    table(lines)
