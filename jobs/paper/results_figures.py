"""The figures of jobs/paper/results/, drawn from its blocks alone."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from blocks import KeptRun, read_block
from endpoints import DIRECTIONS, directions
from groups import RULES, Groups, Row, by_words, column, read_groups

from ees_mpi.analysis.figures.style import Figure, drawing, explain, grid
from ees_mpi.arrays import Floats

ROWS = ("standard ES", "MaxVar", "MaxEnt")
COLORS = {"standard ES": "black", "MaxVar": "#e69f00", "MaxEnt": "#0072b2", "random": "#777777", "MAML": "#cc79a7"}
COMPONENTS = ("#0072b2", "#e69f00")
MAIN = ("ant.ranks", "ant.whiten", "ant.first", "ant.own", "ant.four", "ant.long")  # arms that a figure shows
STARTS = {"text": ("MaxEnt", "MaxVar", "random"), "released": ("random", "standard ES", "MaxEnt")}  # of standard ES
SMALL = 4.6  # inches: a figure whose words a phone can show
Kept = Mapping[str, Sequence[KeptRun]]  # groups, with all that blocks keep of their runs


def draw(results: Path, out: Path) -> list[Path]:
    """Draw all figures; return their paths."""
    runs = {run.name: run for path in sorted(results.glob("*.h5")) for run in read_block(path)}
    groups = read_groups(results)
    kept = {name: [runs[row["run"]] for row in rows if "run" in row] for name, rows in groups.items()}
    out.mkdir(parents=True, exist_ok=True)
    with drawing():
        figures = {
            "cheetah": draw_cheetah(kept),
            "ant": draw_ant(kept),
            "distance": draw_distance(kept),
            "adaptation": draw_adaptation(groups),
            "seeding": draw_seeding(kept),
            "mixtures": draw_mixtures(kept),
            "kernels": draw_kernels(kept),
            "interference": draw_interference(kept),
            "heritability": draw_ants(by_words(groups, MAIN)),
        }
        for name, figure in figures.items():
            how: dict[str, Any] = {"metadata": {"Software": None}, "bbox_inches": "tight", "pad_inches": 0.03}
            figure.savefig(out / f"{name}.png", dpi=150, **how)
    return [out / f"{name}.png" for name in figures]


def median_run(members: Sequence[KeptRun]) -> KeptRun:
    """Return the run in the middle by the last mean distance; of an even number, the upper of the two."""
    return sorted(members, key=lambda run: run.metrics["distance_mean"][-1])[len(members) // 2]


def draw_cheetah(kept: Kept) -> Figure:
    """Draw where mutations of the cheetah end in the last generation: a line for the median run of each group."""
    groups = {(words, name): kept[f"{rules}.cheetah.{name}"] for rules, words in RULES.items() for name in ROWS}
    figure, (panel,) = grid(1, 1, 3.0)
    figure.set_figwidth(SMALL)
    edges = np.linspace(-58, 58, 59)
    for place, ((_, name), members) in enumerate(groups.items()):
        last = median_run(members).last[:, 0]
        share = np.histogram(last, edges)[0] / len(last)
        heights = -place + 0.8 * share / share.max()
        panel.fill_between(edges[:-1], -place, heights, step="post", color=COLORS[name], linewidth=0)
        panel.axhline(-place, color="0.8", linewidth=0.5, zorder=0)
    panel.axvline(0, color="0.5", linewidth=0.7, linestyle=":")
    panel.set_yticks(-np.arange(len(groups)) + 0.3, [f"{name}\n{words}" for words, name in groups])
    panel.tick_params(left=False)
    panel.spines["left"].set_visible(False)
    panel.set(xlabel="final x of the mutations", xlim=(-58, 58), ylim=(0.05 - len(groups) + 0.9, 0.95))
    return figure


def draw_ant(kept: Kept) -> Figure:
    """Draw where mutations of the ant end in the last generation: a panel for the median run of each group."""
    figure, panels = grid(6, 3, 2.0, sharex=True, sharey=True)
    figure.set_figwidth(6.0)
    groups = [(words, name, kept[f"{rules}.ant.{name}"]) for rules, words in RULES.items() for name in ROWS]
    for panel, (words, name, members) in zip(panels, groups, strict=True):
        run = median_run(members)
        draw_places(panel, [(run.last, COLORS[name])], 46)
        panel.set_title(f"{name}, {words}\n{directions(run.last)} of {DIRECTIONS} directions")
    label_plane(panels, 3)
    return figure


def draw_distance(kept: Kept) -> Figure:
    """Draw the mean distance of mutations over generations: a line for each run, a panel for each robot and rules."""
    figure, panels = grid(4, 2, 2.0, sharex=True)
    figure.set_figwidth(6.0)
    for panel, (robot, rules) in zip(panels, itertools.product(("cheetah", "ant"), RULES), strict=True):
        for name in ROWS:
            members = [run.metrics["distance_mean"] for run in kept[f"{rules}.{robot}.{name}"]]
            panel.plot(np.transpose(members), color=COLORS[name], linewidth=0.4, alpha=0.5)
            panel.plot(np.mean(members, axis=0), color=COLORS[name], linewidth=1.8, label=name)
        panel.set(title=f"{robot}, {RULES[rules]}", ylim=(0, 55 if robot == "cheetah" else 50), xlim=(0, 99))
    for panel in panels[2:]:
        panel.set_xlabel("generation")
    for panel in panels[::2]:
        panel.set_ylabel("mean distance")
    explain(figure, [panels[0]])
    return figure


def draw_interference(kept: Kept) -> Figure:
    """Draw x over generations on the interference task, a line for each run."""
    figure, (panel,) = grid(1, 1, 2.0)
    figure.set_figwidth(SMALL)
    for name in ("MaxVar", "MaxEnt"):
        for run in kept[f"text.interference.{name}"]:
            panel.plot(run.metrics["mean_x"], color=COLORS[name], linewidth=0.7, label=name)
    panel.axhline(5 * np.pi / 2, color="0.5", linewidth=0.7, linestyle=":")
    panel.set(xlabel="generation", ylabel="x", xlim=(0, 3000))
    explain(figure, [panel])
    return figure


def draw_mixtures(kept: Kept) -> Figure:
    """Draw where mutations of each of two networks end: the runs with least, median and most specialization."""
    figure, panels = grid(6, 3, 2.0, sharex=True, sharey=True)
    figure.set_figwidth(6.0)
    kinds = {"mixture": "two random networks", "split": "one network, split"}
    for line, (kind, words) in zip((panels[:3], panels[3:]), kinds.items(), strict=True):
        chosen = sorted(kept[kind], key=lambda run: run.metrics["specialization"][-1])
        for panel, run in zip(line, (chosen[0], chosen[len(chosen) // 2], chosen[-1]), strict=True):
            draw_places(panel, [(run.last[run.component == k], color) for k, color in enumerate(COMPONENTS)], 46)
            panel.set_title(f"{words}\nspecialization {run.metrics['specialization'][-1]:.2f}")
    label_plane(panels, 3)
    return figure


def draw_kernels(kept: Kept) -> Figure:
    """Draw where mutations of the ant end with whitening and three widths of the kernel: the median run of each."""
    groups = {
        "0.2154": kept["ant-maxent-authors-scott"],
        "0.7071": [*kept["ant.whiten"], *kept["ant.first"]],
        "1.0": kept["ant-maxent-authors-unit"],
    }
    figure, panels = grid(3, 3, 2.0, sharex=True, sharey=True)
    figure.set_figwidth(6.0)
    for panel, (width, members) in zip(panels, groups.items(), strict=True):
        draw_places(panel, [(median_run(members).last, COLORS["MaxEnt"])], 46)
        panel.set_title(f"kernel {width}")
    label_plane(panels, 3)
    return figure


def draw_places(panel: Any, parts: Sequence[tuple[Floats, str]], reach: float) -> None:
    """Draw final places in the plane, each part in its color, and the start."""
    for places, color in parts:
        panel.scatter(*places.T, s=3, color=color, alpha=0.4, linewidths=0, rasterized=True)
    panel.plot(0, 0, marker="+", color="white", markersize=9, markeredgewidth=3)
    panel.plot(0, 0, marker="+", color="black", markersize=7, markeredgewidth=1.3)
    panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")


def label_plane(panels: Sequence[Any], columns: int) -> None:
    """Name the axes of panels in a grid, once for each row and column."""
    for panel in panels[-columns:]:
        panel.set_xlabel("final x")
    for panel in panels[::columns]:
        panel.set_ylabel("final y")


def draw_adaptation(groups: Groups) -> Figure:
    """Draw how far adapted cheetahs get from other starts and from their own, and how often on the wrong side."""
    names = {"MAML": "MAML"}
    names |= {f"{rules}.cheetah.{name}": f"{name}\n{words}" for rules, words in RULES.items() for name in ROWS}
    shown = [(words, groups[name]) for name, words in names.items() if column(groups[name], "adapt")]
    figure, (far, wrong) = grid(2, 2, 0.7 + 0.36 * len(shown), sharey=True)
    figure.set_figwidth(5.6)
    for place, (words, runs) in enumerate(shown):
        color, values = COLORS[words.partition("\n")[0]], column(runs, "adapt")
        far.plot(values, [place] * len(values), "o", color=color, markersize=4, alpha=0.5)
        far.plot([np.mean(values)] * 2, [place - 0.35, place + 0.35], color=color, linewidth=2)
        own = column(runs, "adapt_best")
        far.plot(own, [place + 0.25] * len(own), "o", color=color, markersize=4, alpha=0.5, fillstyle="none")
        missed, every = sum(column(runs, "adapt_wrong")), 20 * len(runs)
        wrong.barh(place, 100 * missed / every, color=color, height=0.6)
        wrong.text(100 * missed / every + 1.5, place, f"{missed:.0f} of {every}", va="center")
    far.set_yticks(range(len(shown)), [words for words, _ in shown])
    far.axvline(0, color="0.5", linewidth=0.5, linestyle=":")
    far.set(title="distance in the wanted direction", xticks=range(-10, 51, 10))
    wrong.set(title="on the wrong side, %", xlim=(0, 80))
    wrong.tick_params(left=False)
    far.grid(axis="x", linewidth=0.3)
    far.invert_yaxis()
    return figure


def draw_seeding(kept: Kept) -> Figure:
    """Draw the mean x of standard ES towards +x on the ant against updates: a line for each run, by its start."""
    figure, panels = grid(2, 2, 2.6, sharex=True, sharey=True)
    figure.set_figwidth(6.0)
    for panel, (rules, words) in zip(panels, RULES.items(), strict=True):
        for start in STARTS[rules]:
            curves = np.array([run.metrics["fitness_mean"][:21] for run in kept[f"seeding.{rules}.{start}"]])
            label = {"random": "a random network", "standard ES": "standard ES, trained sideways"}.get(start, start)
            panel.plot(curves.T, color=COLORS[start], linewidth=0.5, alpha=0.5)
            panel.plot(curves.mean(axis=0), color=COLORS[start], linewidth=2, label=f"from {label}")
        panel.axhline(0, color="0.5", linewidth=0.5, linestyle=":")
        panel.set(title=words, xlabel="updates of standard ES", xlim=(0, 20), xticks=range(0, 21, 5))
    panels[0].set_ylabel("mean x of the mutations")
    explain(figure, panels)
    return figure


def draw_ants(groups: Mapping[str, Sequence[Row]]) -> Figure:
    """Draw what the mutations of ants keep from unseen starts: a line for each way of training, a dot for each run."""
    numbers = {
        "heritable": "heritable variance,\nunits squared",
        "heritable_share": "heritable share\nof the variance",
        "reliable_sectors": "reliable directions,\nof eight",
    }
    figure, panels = grid(len(numbers), len(numbers), 0.7 + 0.4 * len(groups), sharey=True)
    figure.set_figwidth(5.6)
    for panel, (name, title) in zip(panels, numbers.items(), strict=True):
        for place, (training, rows) in enumerate(groups.items()):
            values = column(rows, name)
            own = "own" in training
            how = {"color": COLORS["MaxEnt" if own else "MaxVar"], "marker": "o" if own else "D", "linestyle": "none"}
            how |= {"markersize": 4, "label": "starts of their own" if own else "one start for all"}
            half = min(0.36, 0.06 * (len(values) - 1))
            apart = place + np.linspace(-half, half, len(values))  # equal numbers are seen, too
            panel.plot(values, apart, clip_on=False, zorder=3, **how)
        panel.set(title=title, xlim=(0, None))
        panel.grid(axis="x", linewidth=0.3)
    panels[1].set(xlim=(0, 1), xticks=(0, 0.5, 1))
    panels[2].set(xlim=(-0.4, 8.4), xticks=range(0, 9, 2))
    panels[0].set_yticks(
        range(len(groups)), [",\n".join(name.rsplit(", ", 1)) if len(name) > 28 else name for name in groups]
    )
    panels[0].invert_yaxis()
    explain(figure, panels)
    return figure
