"""The figure of a sweep: one curve for each value of a key, the mean and std over the runs that have the value."""

from collections.abc import Sequence

from ees_mpi.analysis import grouping
from ees_mpi.analysis.figures.style import COLUMN, Figure, draw_curves, explain, grid, shades
from ees_mpi.analysis.offspring import check_committed
from ees_mpi.analysis.series import series, titles
from ees_mpi.analysis.subject import check_training
from ees_mpi.errors import ConfigError
from ees_mpi.registry import unknown
from ees_mpi.store.reader import Run


def sweep(runs: Sequence[Run], by: str | None = None, metric: str | None = None) -> Figure:
    """Draw a metric over generations; `by`: the key, by default the one in which the runs differ."""
    for run in runs:
        check_training(run)
        check_committed(run)
    grouping.check_distinct((run.run_id, run.path) for run in runs)
    configs = {run.path: grouping.settings(run.config.sections()) for run in runs}
    key = by or _only_key(list(configs.values()))
    headlines = {run.config.method.headline for run in runs}
    known, usual = titles(runs), headlines.pop() if len(headlines) == 1 else "behavior_variance"
    name = (metric or (usual if usual in known else "behavior_variance")).replace("-", "_")
    if name not in known:
        raise ConfigError(f"--metric: {unknown(name, known)}")
    groups = grouping.group(key, configs)
    figure, (panel,) = grid(1, 1, 0.65 * COLUMN)
    lines = {value: [series(run, name) for run in runs if run.path in paths] for value, paths in groups.items()}
    looks = shades(len(lines))
    draw_curves(panel, lines, list(lines), looks, xlabel="generation", ylabel=known[name])
    explain(figure, [panel], key)
    return figure


def _only_key(configs: Sequence[grouping.Settings]) -> str:
    """Return the key in which configs differ; raise a ConfigError if there is not exactly one."""
    keys = grouping.differing(configs)
    if len(keys) != 1:
        raise ConfigError(f"figure sweep: the runs differ in {', '.join(keys) or 'no key'}; expected --by KEY")
    return keys[0]
