"""Figures 2, 3, 4, 6, 7 and S3 to S5 of the paper, and that of `measure --starts`: behaviors of offspring, as
heat-maps and histograms.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ees_mpi.analysis.figures import style
from ees_mpi.analysis.figures.style import Axes, Figure
from ees_mpi.analysis.labels import group_names, label, run_names, stds
from ees_mpi.analysis.numbers.heritability import heritability, measured_stds, places_of
from ees_mpi.analysis.numbers.selection import check_generation, sample_of, valid_generations
from ees_mpi.analysis.offspring import axis_names, check_one_task, has_positions
from ees_mpi.arrays import Floats
from ees_mpi.commands.verify import spaced
from ees_mpi.errors import RunFileError, optional
from ees_mpi.run.file import Run

SHOWN = (0, 5, 10, 20)  # the generations of further evolution in the paper
VIRIDIS, GREYS = "viridis_r", "Greys"
COMPONENTS = (("Blues", "#08306b"), ("Oranges", "#b34700"), ("Greens", "#00441b"), ("Purples", "#3f007d"))  # outlines
INSIDE = 0.8  # share of a component's offspring inside its outline
SMOOTH = 1.5  # cells, of the outlines
ENOUGH = 5  # offspring for an outline
FIRST = 8  # numbers of a behaviour, at most, in the figure `starts`
UNLIKE = 5  # times as long: the axes of such a place have each a scale of its own


def line(runs: Sequence[Run]) -> Figure:
    """Draw figure 2: behaviors of one number, generation by generation, a panel for each run."""
    check_one_task(runs)
    behaviors = []
    for run in runs:
        ends = {g: sample_of(run, g).rollouts for g in valid_generations(run)}
        if run.generations < 2 or ends[max(ends)].shape[1] != 1:
            raise RunFileError(f"{run.path}: expected a run with a behaviour of one number and two or more generations")
        behaviors.append(ends)
    (edges,) = cells(runs[0], [rows for ends in behaviors for rows in ends.values()], 4, 100)
    images = [np.zeros((run.generations, len(edges) - 1)) for run in runs]  # empty: no valid rollout
    for image, ends in zip(images, behaviors, strict=True):
        for g, rows in ends.items():
            image[g] = shares(rows, [edges])
    norm = logarithmic(images)
    figure, panels = style.grid(len(runs), 3, 2.3, sharey=True)
    for panel, run, name, image in zip(panels, runs, style.titles(runs), images, strict=True):
        mesh = paint(panel, [np.arange(-0.5, run.generations, 1.0), edges], image, norm)
        if has_positions(run):
            panel.axhline(0, **style.start_mark())
        panel.set(title=wrapped(name, min(3, len(runs))), xlabel="generation", ylim=(edges[0], edges[-1]))
        style.whole_numbers(panel.xaxis)
    for panel in panels[::3]:
        panel.set_ylabel(axis_names(runs[0])[0])
    style.decades(figure.colorbar(mesh, ax=panels, label=f"share of {drawn(runs[0])}", pad=0.02))
    style.explain(figure, panels)
    return figure


def drawn(run: Run) -> str:
    """Return what is drawn: mutations; of several starts rollouts, because the mean of several places is none."""
    return "rollouts" if run.config.task.rollouts > 1 else "mutations"


def cells(run: Run, rows: Sequence[Floats], fine: float, most: int) -> list[Floats]:
    """Return the edges of cells along each axis, for behaviors `rows`, each [n, B]; more of them for a larger n."""
    bins = int(np.clip(fine * np.sqrt(max(map(len, rows))), 20, most))
    low, high = np.min([part.min(axis=0) for part in rows], 0), np.max([part.max(axis=0) for part in rows], 0)
    return [np.linspace(*ends, bins + 1) for ends in limits(run, low, high)]


def limits(run: Run, low: Floats, high: Floats) -> list[tuple[float, float]]:
    """Return round limits [B] of behaviors from `low` to `high`: of robots the start is in the middle of all axes.

    The two axes of a place have one scale, unless one number is so small beside the other that it is no length.
    """
    from matplotlib.ticker import MaxNLocator

    if has_positions(run):
        reach = max(np.abs(low).max(), np.abs(high).max()) or 1.0
        low, high = np.full(len(low), -reach), np.full(len(high), reach)
    wider = np.where(low == high, 0.5 * np.where(low == 0, 1.0, np.abs(low)), 0.0)
    ticks = [MaxNLocator(25, **style.ROUND).tick_values(*ends) for ends in zip(low - wider, high + wider, strict=True)]
    begin, span = np.array([row[0] for row in ticks]), np.array([row[-1] - row[0] for row in ticks])
    if len(span) == 2 and run.metric_settings.places and span.max() < UNLIKE * span.min():
        middle, span = begin + span / 2, np.full(2, span.max())
        begin = middle - span / 2
    return list(zip(begin.tolist(), (begin + span).tolist(), strict=True))


def maml(runs: Sequence[Run]) -> Figure:
    """Draw figures 3 and S5: a panel for each algorithm and std, with a histogram for each seed."""
    check_one_task(runs)
    groups: dict[tuple[str, float], list[tuple[int, Floats]]] = {}
    for run, name in zip(runs, group_names(runs, "population.std"), strict=True):  # a panel has one std anyway
        rows = np.concatenate(read_rows(run, None, 1))
        std = (stds(run) or [run.std(-1)])[-1]
        groups.setdefault((name, std), []).append((run.config.run.seed, rows))
    # MAML last, as in the paper; then the smaller stds.
    order = sorted(groups, key=lambda key: (-key[1], key[0].startswith("MAML"), key[0]))
    seeds = sorted({seed for members in groups.values() for seed, _ in members})
    (edges,) = cells(runs[0], [rows for members in groups.values() for _, rows in members], 2.5, 60)
    figure, panels = style.grid(len(order), 3, 2.1, sharex=True, sharey=True)
    for panel, (name, std) in zip(panels, order, strict=True):
        for seed, rows in groups[name, std]:
            color = style.look(seeds.index(seed))["color"]
            panel.stairs(shares(rows, [edges]), edges, color=color, linewidth=0.9, label=f"seed {seed}")
        if has_positions(runs[0]):
            panel.axvline(0, **style.start_mark())
        panel.set(title=f"{wrapped(name, 3)}\nstd {std:g}", xlabel=axis_names(runs[0])[0], xlim=(edges[0], edges[-1]))
    for panel in panels[::3]:
        panel.set_ylabel(f"share of {drawn(runs[0])}")
    style.explain(figure, panels)
    return figure


def plane(runs: Sequence[Run], generations: Sequence[int], by_component: bool = False) -> Figure:
    """Draw figure 4: behaviors of two numbers, a panel for each run and requested generation, or its last one.

    by_component: figures 7 and S4, where each cell has the color of its most frequent component
    """
    check_one_task(runs)
    chosen = [(run, check_generation(run, g)) for run in runs for g in generations or (None,)]
    names = style.titles([run for run, _ in chosen])
    for place, (run, g) in enumerate(chosen):
        if row := stds(run):
            names[place] += f"\nstd {row[g]:g}"
        elif generations:
            names[place] += f"\ngeneration {g}"
    columns = min(len(generations), 3) if len(generations) > 1 else 3  # a row for each run, if it has room
    return draw_maps(runs[0], [read_rows(run, g) for run, g in chosen], names, columns, by_component)[0]


def adaptation_heatmaps(runs: Sequence[Run], generations: Sequence[int]) -> Figure:
    """Draw figures 6 and S3: final positions after some generations of further evolution, a row for each run."""
    check_one_task(runs)
    rows = []
    for run in runs:
        last = check_generation(run, None)
        shown = list(SHOWN) if last >= SHOWN[-1] else spaced(last + 1, len(SHOWN))  # of a shorter run than the paper's
        rows.append([check_generation(run, g) for g in generations] or shown)
    if len({len(row) for row in rows}) > 1:
        raise RunFileError("the runs have different numbers of generations; choose some with --generation")
    offspring = [read_rows(run, g) for run, row in zip(runs, rows, strict=True) for g in row]
    names = [f"after {g} generations" for row in rows for g in row]
    figure, panels = draw_maps(runs[0], offspring, names, len(rows[0]))
    for panel, name in zip(panels[:: len(rows[0])], run_names(runs), strict=True):
        panel.set_ylabel(f"{wrapped(name, 4)}\n{axis_names(runs[0])[1]}")
    return figure


def read_rows(run: Run, generation: int | None, numbers: int = 2) -> list[Floats]:
    """Read where the rollouts of each component end; raise a RunFileError if a place has not so many numbers."""
    sample = sample_of(run, generation)
    if sample.settings.axes != numbers:
        words = "one number" if numbers == 1 else "two numbers, a position in the plane"
        raise RunFileError(f"{run.path}: expected mutations with a behaviour of {words}")
    members = [sample.by_start[sample.parent == component] for component in range(sample.settings.components)]
    return [places.reshape(-1, numbers) for places in members]


def draw_maps(
    run: Run, groups: Sequence[Sequence[Floats]], names: Sequence[str], columns: int, by_component: bool = False
) -> tuple[Figure, list[Axes]]:
    """Draw behaviors in the plane, a panel for each group, all with the same cells, limits and color scale.

    run: any of the runs, for the names of the axes; groups: of each the places by component
    by_component: each component has its own color and an outline. All colors go from light to dark, and outlines differ
        in line style, so that they also differ in grey print
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import MaxNLocator

    everybody = [np.concatenate(members) for members in groups]
    edges = cells(run, everybody, 2, 80)
    norm = logarithmic([shares(places, edges) for places in everybody])
    columns = min(columns, len(names))
    names = [wrapped(name, columns) for name in names]
    side = (style.PAGE - 1.0) / columns - 0.15 if columns > 1 else style.COLUMN - 1.1  # of a panel, about
    height = side + 0.35 + 0.15 * max(name.count("\n") + 1 for name in names)
    figure, panels = style.grid(len(names), columns, height, layout="compressed", sharex=True, sharey=True)
    for place, (panel, members) in enumerate(zip(panels, groups, strict=True)):
        if has_positions(run):
            panel.plot(0, 0, **style.start_mark() | {"linestyle": "none"}, marker="+", markersize=6)
        panel.set(box_aspect=1, xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]], title=names[place])
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(5 if columns < 4 else 4 if columns < 6 else 2, **style.ROUND))
        if place + columns >= len(names):
            panel.set_xlabel(axis_names(run)[0])
        if place % columns == 0:
            panel.set_ylabel(axis_names(run)[1])
        if by_component:
            _paint_components(panel, members, edges, norm)
        else:
            paint(panel, edges, shares(everybody[place], edges), norm)
    colors, more = (GREYS, " (darker: more)") if by_component else (VIRIDIS, "")
    scale = ScalarMappable(norm, color_map(colors))
    style.decades(figure.colorbar(scale, ax=panels, label=f"share of {drawn(run)}{more}", pad=0.02))
    style.explain(figure, panels)
    return figure, panels


def wrapped(name: str, columns: int) -> str:
    """Break the title of a panel, each of its lines into two at most, for so many panels in a row."""
    broken = textwrap.TextWrapper(100 // (columns + 1), max_lines=2, placeholder=" ...", break_on_hyphens=False)
    return "\n".join(map(broken.fill, name.split("\n")))


def shares(position: Floats, edges: Sequence[Floats]) -> Floats:
    """Return the share of mutations in each cell."""
    return np.asarray(np.histogramdd(position, edges)[0] / len(position))


def logarithmic(images: Sequence[Floats]) -> Any:
    """Return a logarithmic color scale for all panels."""
    from matplotlib.colors import LogNorm

    filled = np.concatenate([image[image > 0] for image in images])
    return LogNorm(filled.min(), max(filled.max(), 2 * filled.min()))


def color_map(name: str) -> Any:
    """Return the part of a color map from light to dark that is visible on white; it also works in grey print."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    visible = (0.12, 1.0) if name == VIRIDIS else (0.3, 0.8)  # darker ones would hide the outlines
    return ListedColormap(colormaps[name](np.linspace(*visible, 256)))


def paint(panel: Axes, edges: Sequence[Floats], values: Floats, norm: Any, colors: str = VIRIDIS) -> Any:
    """Color the occupied cells."""
    filled = np.where(values > 0, values, np.nan).T
    return panel.pcolormesh(*edges, filled, norm=norm, cmap=color_map(colors), rasterized=True)


def _paint_components(panel: Axes, members: Sequence[Floats], edges: Sequence[Floats], norm: Any) -> None:
    total = shares(np.concatenate(members), edges)
    if len(members) == 1:
        paint(panel, edges, total, norm, GREYS)
        return
    counts = np.stack([np.histogramdd(position, edges)[0] for position in members])
    most = counts.argmax(axis=0)
    for component, position in enumerate(members):
        colors, color = COMPONENTS[component % len(COMPONENTS)]
        paint(panel, edges, np.where(most == component, total, 0), norm, colors)
        if len(position) >= ENOUGH:
            line = style.LINES[component % len(style.LINES)]
            _outline(panel, counts[component], edges, color, line)
            inside = f"component {component}: {INSIDE:.0%} end inside the line"
            panel.plot([], [], color=color, linestyle=line, label=inside)
        fill = color_map(colors)(0.6)
        panel.scatter([], [], marker="s", color=fill, label=f"cells where component {component} is most frequent")


def _outline(panel: Axes, counts: Floats, edges: Sequence[Floats], color: str, line: str) -> None:
    """Draw a line around the densest cells, which hold most of a component's offspring."""
    from matplotlib.patheffects import withStroke

    ndimage = optional("scipy.ndimage", "figure mixture needs scipy: pip install 'ees_mpi[analysis]'")
    smooth = ndimage.gaussian_filter(counts, SMOOTH)
    falling = np.sort(smooth, axis=None)[::-1]
    level = falling[np.searchsorted(np.cumsum(falling), INSIDE * falling.sum())]
    x, y = ((edge[1:] + edge[:-1]) / 2 for edge in edges)
    drawn = panel.contour(x, y, smooth.T, [level], colors=color, linestyles=line)
    drawn.set(linewidth=1.2, path_effects=[withStroke(linewidth=3, foreground="white")])


def starts(runs: Sequence[Run]) -> Figure:
    """Draw a panel for each file, axis and std: rows are mutations, sorted by their mean, columns are starts.

    Of a behaviour that is no place, the first numbers are drawn.
    """
    shown = [
        (label(run), std, axis, places_of(run, row), number)
        for run in runs
        for number, axis in enumerate(axis_names(run)[:FIRST])
        for row, std in enumerate(measured_stds(run))
    ]
    names = {name for name, *_ in shown}
    columns = max(len(measured_stds(run)) for run in runs)
    if columns == 1:
        columns = max(len(axis_names(run)[:FIRST]) for run in runs)
    figure, panels = style.grid(len(shown), min(columns, 3), 2.6)
    farthest = max(float(np.abs(places).max()) for *_, places, _ in shown)
    for panel, (name, std, axis, places, number) in zip(panels, shown, strict=True):
        rows = places[np.argsort(places[..., number].mean(axis=1)), :, number]
        image = panel.imshow(rows, "RdBu", aspect="auto", interpolation="none", vmin=-farthest, vmax=farthest)
        found = heritability(places[..., number : number + 1])
        lines = [f"{axis}, std {std:g}", f"heritable {found['heritable']:.3g}, share {found['heritable_share']:.2f}"]
        if len(names) > 1:
            lines.insert(0, textwrap.shorten(name, 34, placeholder=" ..."))
        panel.set_title("\n".join(lines))
        panel.set(xlabel="start", xticks=[], yticks=[], ylabel="mutation, by its mean")
    if len(names) == 1:
        figure.suptitle(textwrap.shorten(names.pop(), 60, placeholder=" ..."), fontsize=8)
    axes = {axis for _, _, axis, _, _ in shown}
    name = axes.pop() if len(axes) == 1 else "final place" if all(map(has_positions, runs)) else "behaviour"
    figure.colorbar(image, ax=panels, label=name)
    return figure
