"""The figure of a sweep: one curve for each value of a key, the mean and std over the runs that have the value."""

from collections.abc import Sequence

import numpy as np

from ees_mpi.analysis import grouping
from ees_mpi.analysis.figures.style import COLUMN, LINES, Axes, Figure, grid, whole_numbers
from ees_mpi.analysis.offspring import check_committed, check_no_sample
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Floats
from ees_mpi.registry import unknown
from ees_mpi.store.reader import Run
from ees_mpi.terminal import say_on_stderr

METRICS = {
    "behavior_variance": "variance of the behavior",
    "entropy": "entropy of the behavior, nats",
    "distance_mean": "mean distance from the origin",
    "distance_max": "largest distance from the origin",
    "fitness_mean": "mean fitness",
    "fitness_max": "largest fitness",
    "gradient_norm": "norm of the gradient",
    "invalid_share": "share of invalid rollouts",
}


def sweep(runs: Sequence[Run], by: str | None = None, metric: str | None = None) -> Figure:
    """Draw a metric over generations; `by`: the key, by default the one in which the runs differ."""
    check_no_sample(runs)
    seen: dict[str, Run] = {}
    for run in runs:
        check_committed(run)
        if run.run_id in seen:
            raise ConfigError(f"{seen[run.run_id].path} and {run.path} are of the same run; give only one of them")
        seen[run.run_id] = run
    configs = {run.path: grouping.settings(run.config.sections()) for run in runs}
    key = by or _only_key(list(configs.values()))
    headlines = {run.config.method.headline for run in runs}
    name = (metric or (headlines.pop() if len(headlines) == 1 else "behavior_variance")).replace("-", "_")
    if name not in METRICS:
        raise ConfigError(f"--metric: {unknown(name, METRICS)}")
    groups = grouping.group(key, configs)
    figure, (panel,) = grid(1, 1, 0.75 * COLUMN)
    for place, (value, paths) in enumerate(groups.items()):
        rows = [_values(run, name) for run in runs if run.path in paths]
        _curve(panel, rows, value, 0.85 * place / (len(groups) - 1), LINES[place % len(LINES)])
    whole_numbers(panel)
    panel.set(xlabel="generation", ylabel=METRICS[name], xlim=(0, None))
    legend = panel.legend(title=f"{key} (band: std over runs)", loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    legend.get_title().set_fontsize("medium")
    return figure


def _only_key(configs: Sequence[grouping.Settings]) -> str:
    """Return the key in which configs differ; raise a ConfigError if there is not exactly one."""
    keys = grouping.differing(configs)
    if len(keys) != 1:
        raise ConfigError(f"figure sweep: the runs differ in {', '.join(keys) or 'no key'}; expected --by KEY")
    return keys[0]


def _values(run: Run, metric: str) -> Floats:
    """Return a metric over generations; the variances of several behavior numbers are added up."""
    values = np.asarray(run[metric][:], np.float64)
    return np.asarray(values.reshape(len(values), -1).sum(axis=1))


def _curve(panel: Axes, rows: Sequence[Floats], value: str, shade: float, line: str) -> None:
    """Draw the mean of curves, as far as the shortest goes, and a band of their std."""
    from matplotlib import colormaps

    length, longest = min(map(len, rows)), max(map(len, rows))
    if length < longest:
        say_on_stderr(f"ees-mpi: note: {value}: runs of {length} to {longest} generations; {length} are drawn\n")
    stacked, x = np.stack([row[:length] for row in rows]), np.arange(length)
    mean, std, color = stacked.mean(axis=0), stacked.std(axis=0), colormaps["viridis"](shade)
    marker = "." if length == 1 else None
    panel.plot(x, mean, color=color, linestyle=line, label=f"{value}, n = {len(rows)}", marker=marker)
    panel.fill_between(x, mean - std, mean + std, color=color, alpha=0.15, linewidth=0)
