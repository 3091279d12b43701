"""Figures 1, 5, S1 and S2 of the paper, and those of MAML, `sweep`, `measure` and `signal`: curves."""

import math
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ees_mpi import metrics
from ees_mpi.analysis import labels, offspring
from ees_mpi.analysis.figures import style
from ees_mpi.analysis.figures.positions import drawn, limits
from ees_mpi.analysis.figures.style import Figure
from ees_mpi.analysis.numbers.selection import check_generation, sample_of, scales, series, titles
from ees_mpi.analysis.numbers.summaries import at_stds
from ees_mpi.analysis.numbers.tables import number
from ees_mpi.arrays import Floats
from ees_mpi.commands.arguments import check_committed
from ees_mpi.commands.signal import choose, measure_signal
from ees_mpi.commands.verify import spaced
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.metrics import Sample
from ees_mpi.ranks import Ranks
from ees_mpi.registry import unknown
from ees_mpi.run.file import Run
from ees_mpi.spread import Scale
from ees_mpi.tasks.interference import OPTIMUM, Interference, pattern
from ees_mpi.tasks.locomotion import direction_name

MAX_GENERATIONS = 12  # generations of a run, for the signal
ASIDE = 1.02  # between the bars of two curves
PARTS = 10  # of the mutations, for a standard error
MANY = 3000  # points of a panel, which are then smaller


def interference(runs: Sequence[Run]) -> Figure:
    """Draw figure 1: the pattern, and the genome over generations for MaxVar and MaxEnt, of a mixture all."""
    genomes: dict[str, dict[str, Any]] = {}
    runs = sorted(runs, key=lambda run: run.config.run.seed)
    for run, name in zip(runs, labels.run_names(runs), strict=True):
        if not isinstance(run.config.task, Interference):
            raise RunFileError(f"{run.path} is not a run of the interference task")
        check_generation(run, None)
        group = labels.algorithm(run.config.method.algorithm)
        genomes.setdefault(group, {})[name.removeprefix(f"{group}, ")] = run["mean"][:, :, 0]
    figure, (left, *panels) = style.grid(1 + len(genomes), 3, 2.1)
    x = np.linspace(0, 5 * np.pi, 4000)
    left.plot(x, [pattern(v) for v in x], color="0.35", linewidth=0.5)
    left.axvline(OPTIMUM, **style.start_mark("optimum"))
    left.set(title="(a) interference pattern", xlabel="genome x", ylabel="behaviour f(x)", xlim=(0, 5 * np.pi))
    order = list(dict.fromkeys(name for lines in genomes.values() for name in lines))
    for place, (panel, name) in enumerate(zip(panels, sorted(genomes, reverse=True), strict=True)):
        for line, genome in genomes[name].items():
            panel.plot(genome, **style.look(order.index(line)), label=line)
        panel.axhline(OPTIMUM, **style.start_mark("optimum"))
        panel.set(title=f"({'bcdefg'[place % 6]}) {name}", xlabel="generation", ylabel="genome x", xlim=(0, None))
        style.whole_numbers(panel.xaxis)
    style.explain(figure, [left, *panels])
    return figure


def adaptation(runs: Sequence[Run]) -> Figure:
    """Draw figure 5: distance in the wanted direction over generations, from trained and from random means."""
    offspring.check_one_task(runs)
    groups: dict[float, dict[str, list[Any]]] = {}
    for run, name in zip(runs, labels.group_names(runs, "task.direction"), strict=True):
        if run.config.task.heading is None:
            raise RunFileError(f"{run.path}: expected a run of a task with a direction")
        if run.config.method.algorithm in ("maxvar", "maxent", "novelty"):
            raise RunFileError(f"{run.path} is a run of {name}, which has no direction; expected standard ES")
        check_generation(run, None)
        lines = groups.setdefault(run.config.task.heading % 360, {})
        lines.setdefault(name, []).append(run["fitness_mean"][:])
    # Those that began from a trained mean first.
    names = sorted({name for lines in groups.values() for name in lines}, key=lambda name: (" from " not in name, name))
    figure, panels = style.grid(len(groups), 3, 2.4, sharey=True)
    for panel, (direction, lines) in zip(panels, sorted(groups.items()), strict=True):
        axis = f"mean distance towards {direction_name(direction)}"
        style.draw_curves(panel, lines, names, xlabel="generation", ylabel=axis)
    style.explain(figure, panels)
    return figure


def locomotion(runs: Sequence[Run]) -> Figure:
    """Draw figures S1 and S2: the distance from the origin over generations; mean and std over the seeds.

    Behaviours that are no places have a variance.
    """
    offspring.check_one_task(runs)
    lines: dict[str, list[Any]] = {}
    name = "distance_mean" if all(run.metric_settings.places for run in runs) else "variance"
    for run, group in zip(runs, labels.group_names(runs), strict=True):
        check_generation(run, None)
        lines.setdefault(group, []).append(run[name][:])
    figure, (panel,) = style.grid(1, 1, 0.65 * style.COLUMN)
    order = sorted(lines, key=lambda name: (name != "standard ES", name))
    style.draw_curves(panel, lines, order, xlabel="generation", ylabel=metrics.title(name), ylim=(0, None))
    style.explain(figure, [panel])
    return figure


def maml_training(runs: Sequence[Run]) -> Figure:
    """Draw the training of MAML: distance in the wanted direction, before and after one gradient step.

    The tasks "left" and "right" have separate curves before the step. If the policy walks to one side without
    adaptation, these two curves mirror each other.
    """
    lines: dict[str, list[Any]] = {"after one gradient step": [], "before, to the right": [], "before, to the left": []}
    for run in runs:
        if "fitness_before" not in run:
            raise RunFileError(f"{run.path} is not a run of MAML; expected one of a -maml preset")
        check_committed(run)
        sign, before = run["sign"][:], run["fitness_before"][:]
        after = np.where(run["valid"][:], run["fitness"][:], np.nan)
        shown = (after, np.where(sign > 0, before, np.nan), np.where(sign < 0, before, np.nan))
        for curves, values in zip(lines.values(), shown, strict=True):
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # no task to this side: a gap
                curves.append(np.nanmean(values, axis=1))
    figure, (panel,) = style.grid(1, 1, 0.65 * style.COLUMN)
    panel.axhline(0.0, color="0.8", linewidth=0.5)
    style.draw_curves(panel, lines, list(lines), xlabel="outer iteration", ylabel="distance in the wanted direction")
    style.explain(figure, [panel])
    return figure


def sweep(runs: Sequence[Run], by: str | None = None, metric: str | None = None, cell: float | None = None) -> Figure:
    """Draw a metric over generations; `by`: the key, by default the one in which the runs differ.

    Runs that differ only in their seeds are one curve.
    """
    for run in runs:
        check_committed(run)
    labels.check_distinct((run.run_id, run.path) for run in runs)
    configs = {run.path: labels.settings(run.config.sections()) for run in runs}
    keys = [by] if by else labels.differing(list(configs.values()))
    if len(keys) > 1:
        raise ConfigError(f"figure sweep: the runs differ in {', '.join(keys)}; expected --by KEY")
    headlines = {run.metric_settings.headline for run in runs}
    scale = scales(runs, cell)
    known, usual = titles(runs, scale[0]), headlines.pop() if len(headlines) == 1 else "variance"
    name = (metric or usual).replace("-", "_")
    if name not in known:
        raise ConfigError(f"--metric: {unknown(name, known)}")
    if len({metrics.title(name, lengths) for lengths in scale}) > 1:
        alone = f"{name} uses lengths that fit each task, and those of these runs differ; draw each task by itself"
        hint = ", or give --cell X" if metrics.METRICS[name].length == "cell" else ""
        raise RunFileError(f"figure sweep: {alone}{hint}")
    groups = labels.grouped(keys[0], configs) if keys else {labels.label(runs[0]): list(configs)}
    figure, (panel,) = style.grid(1, 1, 0.65 * style.COLUMN)
    pairs = list(zip(runs, scale, strict=True))
    lines = {
        value: [series(run, name, lengths) for run, lengths in pairs if run.path in paths]
        for value, paths in groups.items()
    }
    title = "\n".join(textwrap.wrap(known[name], 36))
    style.draw_curves(panel, lines, list(lines), style.shades(len(lines)), xlabel="generation", ylabel=title)
    style.explain(figure, [panel], keys[0] if keys else None)
    return figure


def measure(runs: Sequence[Run], cell: float | None = None) -> Figure:
    """Draw a panel for each measure, with a curve for each label: the mean over its files, and their range.

    A single file has two standard errors either way. The last panels, one for each label, show where the rollouts of
    its first file end. cell: the side of a grid cell
    """
    offspring.check_one_task(runs)
    scale = scales(runs, cell)[0]
    files: dict[str, list[Run]] = {}
    for run in runs:
        files.setdefault(labels.label(run), []).append(run)
    rows = {title: [(run, at_stds(run, scale)) for run in members] for title, members in files.items()}
    everywhere = sorted({row["std"] for members in rows.values() for _, found in members for row in found})
    axes = {name: metrics.title(name, scale) for name in metrics.in_table("measure", runs[0].metric_settings)}
    in_words = len(everywhere) == len(files) == 1  # a curve would be a single point
    if in_words:
        figure, maps = style.grid(1, 1, 3.6)
    else:
        several = len(files) > 1  # one label needs no legend
        figure, every = style.grid(len(axes) + several + len(files), 3, 2.2)
        panels, spare, maps = every[: len(axes)], every[len(axes)], every[len(axes) + several :]
        for panel, (name, axis) in zip(panels, axes.items(), strict=True):
            for place, (title, members) in enumerate(rows.items()):
                stds = sorted({row["std"] for _, found in members for row in found})
                middle, low, high = np.transpose([_with_range(members, std, name, scale) for std in stds])
                count = f" (n\u00a0=\u00a0{len(members)})" if len(members) > 1 else ""
                shown = textwrap.fill(f"{title}{count}", 26)
                x = np.array(stds) * ASIDE**place
                panel.plot(x, middle, **style.look(place), marker=".", label=shown)
                panel.vlines(x, low, high, color=style.look(place)["color"], linewidth=0.8)
            panel.set(xlabel="std of the mutations", ylabel=textwrap.fill(axis, 30), xscale="log")
            panel.set_xticks(everywhere, [f"{std:g}" for std in everywhere])
            panel.minorticks_off()
            if len(everywhere) == 1:  # the points beside each other belong to this std
                panel.set_xlim(everywhere[0] / 1.2, everywhere[0] * 1.2)
            _set_limits(panel, name)
        if several:
            spare.set_axis_off()
            spare.legend(*panels[0].get_legend_handles_labels(), loc="center")
    first = [[sample_of(run, row).rollouts for row in range(run.generations)] for run, *_ in files.values()]
    frame = np.concatenate([places for rows in first for places in rows])
    for panel, places, title, (run, *others) in zip(maps, first, files, files.values(), strict=True):
        _scatter(panel, run, places, frame, everywhere)
        which = f" (1 of {len(others) + 1} files)" if others else ""
        panel.set_title(textwrap.fill(f"where {drawn(run)} end{which}: {title}", 34, max_lines=2, placeholder=" ..."))
        if in_words:
            lines = []
            for name, axis in axes.items():
                middle, low, high = _with_range(rows[title], everywhere[0], name, scale)
                lines.append(f"{axis}: {number(middle)} ({number(low)} to {number(high)})")
            panel.set_xlabel("\n".join([panel.get_xlabel(), "", *lines]))
    starts = sorted({run.config.task.rollouts for run in runs})
    of_means = f"measures: of the means over {' or '.join(map(str, starts))} starts; " if starts[-1] > 1 else ""
    spread = "two standard errors either way" if len(files) == len(runs) else "range of files, or two standard errors"
    style.explain(figure, maps, f"{of_means}{'in brackets' if in_words else 'bars'}: {spread}")
    return figure


def _with_range(
    members: Sequence[tuple[Run, list[dict[str, Any]]]], std: float, name: str, scale: Scale
) -> tuple[float, float, float]:
    """Return the mean of a measure over files at a std, and its range; of a single row two standard errors."""
    found = [(run, place, row[name]) for run, rows in members for place, row in enumerate(rows) if row["std"] == std]
    values = [value for _, _, value in found]
    if len(found) > 1:
        unlike = {(run.config.population.size, run.config.task.rollouts): run for run, _, _ in found}
        if len(unlike) > 1:
            one, other, *_ = unlike.values()
            raise RunFileError(
                f"{one.path} and {other.path} have the same label, {labels.label(one)}, but different numbers of "
                "mutations or starts, so they have no mean; measure one of them again with another --label"
            )
        return float(np.mean(values)), min(values), max(values)
    run, place, _ = found[0]
    either_side = 2 * standard_error(sample_of(run, place, scale), name)
    return values[0], values[0] - either_side, values[0] + either_side


def standard_error(mutations: Sample, name: str) -> float:
    """Return the standard error of a measure, by a jackknife that leaves out a tenth of the mutations at a time."""
    order, compute = np.random.default_rng(0).permutation(len(mutations.place)), metrics.METRICS[name].compute
    parts = np.array_split(order, min(PARTS, len(order)))
    if len(parts) < 2 or compute is None:
        return math.nan
    values = [compute(mutations.at(np.setdiff1d(order, part))) for part in parts]
    return math.sqrt((len(values) - 1) * float(np.var(values)))


def _set_limits(panel: style.Axes, name: str) -> None:
    """Let an axis begin at 0; an entropy has no 0, so its axis is at least a nat long."""
    low, high = panel.get_ylim()
    if name == "entropy_fixed":
        more = max(0.0, 1.0 - (high - low)) / 2
        panel.set_ylim(low - more, high + more)
    else:
        panel.set_ylim(0, 1.04 * high if high > 0 else 1)
    if name == "coverage":
        style.whole_numbers(panel.yaxis)


def _scatter(panel: style.Axes, run: Run, rows: Sequence[Any], frame: Floats, everywhere: Sequence[float]) -> None:
    """Draw rollouts at each std as points: two numbers of their behaviour, or one, over the std.

    rows: their places; frame: those of all panels, which have the same limits; everywhere: the stds of all panels,
        which have the same colors
    """
    names, stds = offspring.axis_names(run), labels.stds(run)
    looks: dict[str, Any] = {"s": 3.0 if max(map(len, rows)) < MANY else 1.0, "linewidths": 0, "rasterized": True}
    shades = dict(zip(everywhere, style.shades(len(everywhere)), strict=True))
    for row in sorted(range(len(stds)), key=lambda row: -stds[row]):  # the widest cloud first, under the others
        if len(names) > 1:
            xy = rows[row][:, 0], rows[row][:, 1]
            looks["label"] = f"std {stds[row]:g}"
        else:
            spread = np.linspace(-0.3, 0.3, len(rows[row]))  # so that points do not cover each other
            xy = sorted(stds).index(stds[row]) + np.random.default_rng(0).permutation(spread), rows[row][:, 0]
        panel.scatter(*xy, color=shades[stds[row]]["color"], **looks)
    mean = run["behavior_of_mean"][0][-len(names) :]
    alone = run.config.task.rollouts == 1  # the mean of several starts is no place
    if len(names) > 1:
        own = {**style.start_mark("the policy itself"), "linestyle": "none", "marker": "x", "markersize": 5}
        if alone:
            panel.plot(*mean[:2, None], **own)
        across, up = limits(run, frame.min(axis=0), frame.max(axis=0))[:2]
        panel.set(xlabel=names[0], ylabel=names[1], xlim=across, ylim=up, box_aspect=1)
    else:
        if alone:
            panel.axhline(mean[0], **style.start_mark("the policy itself"))
        panel.set_xticks(range(len(stds)), [f"{std:g}" for std in sorted(stds)])
        panel.set(xlabel="std of the mutations", ylabel=names[0])


def signal(runs: Sequence[Run]) -> Figure:
    """Draw the shares with their intervals of 95 percent, and the steps, of some generations of each run."""
    figure, (shares, steps) = style.grid(2, 2, 2.4)
    for place, run in enumerate(runs):
        shown = spaced(len(choose(run, None, 1)), MAX_GENERATIONS)
        signals = [point for point in measure_signal(Ranks(), run, shown) if np.isfinite(point.share)]
        x = np.array([point.generation for point in signals]) + 0.15 * place  # so that bars do not cover each other
        share = 100 * np.array([point.share for point in signals])
        limits = 100 * np.array([point.share_interval for point in signals]).reshape(-1, 2)
        color, name = style.look(place)["color"], f"{labels.label(run)}, N = {run.config.population.size:,}"
        shares.errorbar(x, share, np.abs(limits.T - share), color=color, marker=".", linestyle="", elinewidth=0.6)
        steps.plot(x, [point.step_mutations for point in signals], **style.look(place), marker=".", label=name)
    shares.set(xlabel="generation", ylabel="signal in the gradient, %", ylim=(0, None))
    steps.set(xlabel="generation", ylabel="length of the step, mutations", ylim=(0, None))
    for panel in (shares, steps):
        style.whole_numbers(panel.xaxis)
    steps.legend()
    return figure
