"""The figures of jobs/paper/results/, drawn from its blocks alone."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from blocks import Floats, KeptRun, read_block
from endpoints import DIRECTIONS, PAPERS_ROBOTS, Row, column, directions, facts, read
from heritability import ARMS, Arms, arms
from page_tables import adaptation_kind, by_training
from rules import WHITENED

from ees_mpi.analysis.figures.style import PAGE, Figure, drawing, explain, grid, look

sys.path.append(str(Path(__file__).parents[1]))

from scaling_figure import draw as draw_scaling

ALGORITHMS = {"es": "standard ES", "maxvar": "MaxVar", "maxent": "MaxEnt"}
ROWS = tuple(ALGORITHMS.values())
COLORS = {"standard ES": "black", "MaxVar": "#e69f00", "MaxEnt": "#0072b2", "random": "#999999"}
COMPONENTS = ("#0072b2", "#e69f00")
WAYS = (("left", "#0072b2", -0.15), ("right", "#d55e00", 0.15))  # color and place of an adaptation
RULES = {"released": "released rules", "text": "the text's rules"}
FIRST_STEPS = {"full": "plain Adam", "gentle": "gentle rule"}
WINDOW = 5  # generations of a point in the figure of the signal
PAPERS = {
    ("cheetah", "MaxVar"): 0.921,
    ("cheetah", "MaxEnt"): 0.939,
    ("ant", "MaxVar"): 0.854,
    ("ant", "MaxEnt"): 0.832,
}
LATE = 10  # runs that are shorter than the longest by this many generations have no part in its mean
FIRST = 6  # the first seed of the second plan
Known = tuple[KeptRun, Row]


def draw(results: Path, out: Path) -> list[Path]:
    """Draw all figures; return their paths."""
    runs = [(run, facts(run)) for path in sorted(results.glob("*.h5")) for run in read_block(path)]
    scaling, signal = (json.loads((results / f"{name}.json").read_text()) for name in ("scaling", "signal"))
    measured = read(results / "heritability.csv")
    out.mkdir(parents=True, exist_ok=True)
    with drawing():
        figures = {
            "claims": draw_claims(runs),
            "cheetah": draw_cheetah(runs),
            "ant": draw_ant(runs),
            "ratio": draw_ratio(runs),
            "adaptation": draw_adaptation(runs),
            "seeding": draw_seeding(runs),
            "mixtures": draw_mixtures(runs),
            "scaling": draw_scaling(scaling),
            "signal": draw_signal(signal),
            "heritability": draw_ants(by_training(measured, "ant")),
            "two-starts": draw_two_starts(arms(measured)),
        }
        for name, figure in figures.items():
            how: dict[str, Any] = {"metadata": {"Software": None}, "bbox_inches": "tight", "pad_inches": 0.03}
            figure.savefig(out / f"{name}.png", dpi=150, **how)
    return [out / f"{name}.png" for name in figures]


def trained(
    runs: Sequence[Known], robot: str, algorithm: str, rules: str, every: bool = False, changed: str = ""
) -> list[Known]:
    """Return the longest training of each seed of the paper's robots, N = 10,000; fresh seeds if there are any."""
    wanted = {"robot": robot, "algorithm": algorithm, "rules": rules, "changed": changed, "kind": "training"}
    same = [each for each in runs if (wanted | PAPERS_ROBOTS).items() <= each[1].items()]
    ahead = [(run, row) for run, row in same if row["direction"] in ("", "0")]
    found = {int(row["seed"]): (run, row) for run, row in sorted(ahead, key=lambda each: each[0].generations)}
    fresh = {seed: each for seed, each in found.items() if seed >= FIRST}
    return [each for _, each in sorted((found if every else fresh or found).items())]


def by_seed(runs: Sequence[Known], **facts: str) -> list[Known]:
    """Return the runs with these facts, by seed."""
    found = [each for each in runs if facts.items() <= each[1].items()]
    return sorted(found, key=lambda each: int(each[1]["seed"]))


def draw_claims(runs: Sequence[Known]) -> Figure:
    """Draw where offspring of four groups end in the last generation, of the run with the median distance in each."""
    shown = {f"cheetah, {name}": trained(runs, "cheetah", name, "released") for name in ("standard ES", "MaxEnt")}
    shown["ant, MaxEnt with ranks"] = trained(runs, "ant", "MaxEnt", "released")
    shown["ant, MaxEnt with whitening"] = trained(runs, "ant", "MaxEnt", "other", changed=WHITENED)
    figure, panels = grid(len(shown), 2, 2.1)
    figure.set_figwidth(4.6)  # small, so that a phone can show its words
    for panel, (title, members) in zip(panels, shown.items(), strict=True):
        by_distance = sorted((run for run, _ in members), key=lambda run: run.metrics["distance_mean"][-1])
        last = by_distance[len(members) // 2].last
        color, reach = COLORS[title.partition(" with")[0].partition(", ")[2]], 42 if title.startswith("ant") else 60
        if title.startswith("ant"):
            panel.scatter(*last.T, s=2, color=color, alpha=0.4, linewidths=0, rasterized=True)
            panel.set(aspect="equal", ylim=(-reach, reach), ylabel="final y", yticks=range(-40, 41, 20))
        else:
            panel.hist(last[:, 0], np.linspace(-reach, reach, 61), color=color)
            panel.set(ylabel="mutations")
        panel.set(title=title, xlabel="final x", xlim=(-reach, reach), xticks=range(-40, 41, 20))
        panel.axvline(0, color="0.5", linewidth=0.5, linestyle=":")
    return figure


def draw_cheetah(runs: Sequence[Known]) -> Figure:
    """Draw where offspring of the cheetah end in the last generation: a line for each seed.

    The last row has whitening alone, and the other algorithms with the text's rules.
    """
    shown = {f"{name}, {RULES['released']}": trained(runs, "cheetah", name, "released") for name in ROWS}
    shown["MaxEnt, whitening instead of ranks"] = trained(runs, "cheetah", "MaxEnt", "other", changed=WHITENED)
    shown |= {f"{name}, {RULES['text']}": trained(runs, "cheetah", name, "text") for name in ROWS[1:]}
    widest = max(np.abs(run.last).max() for members in shown.values() for run, _ in members)
    figure, panels = grid(len(shown), 3, max(1.7, 0.22 * max(map(len, shown.values()))), sharex=True)
    edges = np.linspace(-widest, widest, 61)
    for panel, (title, members) in zip(panels, shown.items(), strict=True):
        for place, (run, _) in enumerate(reversed(members)):
            share = np.histogram(run.last[:, 0], edges)[0] / len(run.last)
            heights = place + 0.9 * share / max(share.max(), 0.15)
            color = COLORS[title.split(",")[0]]
            panel.fill_between(edges[:-1], place, heights, step="post", color=color, alpha=0.7, linewidth=0)
        panel.axvline(0, color="0.5", linewidth=0.5, linestyle=":")
        names = [f"{row['seed']}: {run.generations}" for run, row in reversed(members)]
        panel.set_yticks(np.arange(len(members)) + 0.3, names, fontsize=6)
        panel.tick_params(left=False)
        panel.set(title=title, ylim=(-0.1, max(len(members), 1)))
        panel.spines["left"].set_visible(False)
    for panel in panels[-3:]:
        panel.set_xlabel("final x of the offspring")
    for panel in panels[::3]:
        panel.set_ylabel("seed: generations")
    return figure


def draw_ant(runs: Sequence[Known]) -> Figure:
    """Draw where offspring of the ant end in the last generation: a row for rules and algorithm, a panel for a seed."""
    groups = {("MaxEnt", "whitening"): trained(runs, "ant", "MaxEnt", "other", changed=WHITENED)}
    for rules, name in product(RULES, reversed(ROWS)):
        groups[name, f"{rules} rules"] = trained(runs, "ant", name, rules)
    rows = {
        f"{name}, {rules}, {members[0][0].generations} generations": members
        for (name, rules), members in groups.items()
        if members
    }
    figure, panels = draw_plane(rows, lambda name, run: [(run.last, COLORS[name.split(",")[0]])])
    for panel, run, row in panels:
        panel.set_title(f"seed {row['seed']}: {directions(run.last)} of {DIRECTIONS}", fontsize=5)
    return figure


def draw_mixtures(runs: Sequence[Known]) -> Figure:
    """Draw where the offspring of each component of a mixture end: two random means above, splits below."""
    rows = {kind: by_seed(runs, robot="ant", kind=kind) for kind in ("mixture", "split")}

    def parts(name: str, run: KeptRun) -> list[tuple[Floats, str]]:
        return [(run.last[run.component == k], color) for k, color in enumerate(COMPONENTS)]

    figure, panels = draw_plane(rows, parts)
    for panel, run, row in panels:
        panel.set_title(f"seed {row['seed']}: {run.generations} generations", fontsize=5)
    figure.suptitle("the color is the component of an offspring; the text's rules", fontsize=7)
    return figure


def draw_plane(
    rows: dict[str, list[Known]], parts: Callable[[str, KeptRun], list[tuple[Floats, str]]]
) -> tuple[Figure, list[tuple[Any, KeptRun, Row]]]:
    """Draw final positions in the plane: a row with one scale for each group, a panel for each run."""
    count = max(map(len, rows.values()))
    figure, panels = grid(count * len(rows), count, PAGE / count * 1.02)
    drawn = []
    for place, (name, members) in enumerate(rows.items()):
        reach = 1.08 * float(max(np.abs(run.last).max() for run, _ in members))
        line = panels[place * count : (place + 1) * count]
        for panel, (run, row) in zip(line, members, strict=False):
            for position, color in parts(name, run):
                panel.scatter(*position.T, s=1.2, color=color, alpha=0.35, linewidths=0, rasterized=True)
            panel.plot(0, 0, marker="+", color="#d55e00", markersize=6, markeredgewidth=1)
            panel.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            panel.tick_params(labelsize=5, length=2, labelleft=panel is line[0])
            if place == len(rows) - 1:
                panel.set_xlabel("final x")
            drawn.append((panel, run, row))
        line[0].set_ylabel("\n".join([*name.split(", "), "final y"]), fontsize=6)
        for panel in line[len(members) :]:
            panel.set_axis_off()
    return figure, drawn


def draw_ratio(runs: Sequence[Known]) -> Figure:
    """Draw the mean distance over that of standard ES with the same seed, against generations: runs, and the median."""
    figure, panels = grid(2, 2, 2.3, sharey=True)
    for panel, robot in zip(panels, ("cheetah", "ant"), strict=True):
        for (rules, line), name in product((("released", "-"), ("text", ":")), ROWS[1:]):
            curves = _ratios(trained(runs, robot, name, rules), trained(runs, robot, "standard ES", rules, True))
            longest = max(map(len, curves))
            long = [curve for curve in curves if len(curve) > longest - LATE]
            for curve in long if rules == "released" and len(long) > 1 else ():
                panel.plot(curve, color=COLORS[name], linewidth=0.3, alpha=0.6)
            median = np.median([curve[: min(map(len, long))] for curve in long], axis=0)
            style = {"color": COLORS[name], "linestyle": line, "linewidth": 1.6 if len(long) > 1 else 0.8}
            panel.plot(median, **style, label=f"{name}, {RULES[rules]} (n = {len(long)})")
        for name in ROWS[1:]:
            mark = {"color": COLORS[name], "marker": "<", "linestyle": "none", "clip_on": False, "markersize": 5}
            panel.plot(1.02, PAPERS[robot, name], transform=panel.get_yaxis_transform(), **mark)
        panel.axhline(1.0, color="0.5", linewidth=0.5)
        panel.set(title=f"the paper's {robot}", xlabel="generation", xlim=(0, 100), ylim=(0, 1.75))
        panel.legend(fontsize=6, loc="upper right", frameon=False)
    panels[0].set_ylabel("distance over that of standard ES")
    return figure


def _ratios(first: Sequence[Known], second: Sequence[Known]) -> list[Floats]:
    """Return the ratio of the mean distances at each generation, for seeds that both groups have."""
    beside = {row["seed"]: run for run, row in second}
    pairs = [
        [run.metrics["distance_mean"], beside[row["seed"]].metrics["distance_mean"]]
        for run, row in first
        if row["seed"] in beside
    ]
    return [one[: len(other)] / other[: len(one)] for one, other in pairs]


def draw_adaptation(runs: Sequence[Known]) -> Figure:
    """Draw the ten evaluations of each adaptation: a place for each run, left and right in two colors."""
    kinds: dict[tuple[str, int, str], list[Known]] = {}
    for run, row in by_seed(runs, robot="cheetah", engine="mujoco"):
        if run.evaluations:
            rules, name, length = adaptation_kind(row)
            kinds.setdefault((rules, int(length), name), []).append((run, row))
    columns = 4 if len(kinds) in (4, 7, 8) else 3
    figure, panels = grid(len(kinds), columns, 2.1, sharey=True)
    for panel, ((rules, length, name), members) in zip(panels, sorted(kinds.items()), strict=True):
        for place, (run, _) in enumerate(members):
            for way, color, shift in WAYS:
                if way in run.evaluations:
                    values, x = run.evaluations[way], place + shift
                    panel.scatter(np.full(len(values), x), values, s=5, color=color, alpha=0.6, linewidths=0)
                    bar = {"color": color, "linewidth": 1.5, "label": f"to the {way}: ten starts, and their mean"}
                    panel.plot([x - 0.14, x + 0.14], [np.nanmean(values)] * 2, **bar)
        panel.axhline(0, color="0.5", linewidth=0.5, linestyle=":")
        panel.set_xticks(range(len(members)), [row["seed"] for _, row in members], fontsize=5 + 2 * (len(members) < 9))
        words = f"{name}, {RULES.get(rules, rules)}\n{length} generations"
        title = f"MAML, equal steps\n{length} iterations" if name == "MAML" else words
        panel.set(title=title, xlabel="seed", xlim=(-0.5, max(len(members), 3) - 0.5))
    for panel in panels[::columns]:
        panel.set_ylabel("distance in the wanted direction")
    explain(figure, panels)
    return figure


def draw_seeding(runs: Sequence[Known]) -> Figure:
    """Draw the mean x of standard ES towards +x on the ant, against updates: a panel for each rule."""
    panels_of: dict[str, dict[str, list[Floats]]] = {}
    lengths = {row["digest"]: row["generations"] for _, row in runs}
    wanted = {"robot": "ant", "kind": "seeding", "changed": "", **PAPERS_ROBOTS}
    for run, row in (each for each in runs if wanted.items() <= each[1].items()):
        start = row["start"]
        if start == "standard ES":
            start += f" in another direction, {lengths.get(row['start_digest'], '')} generations"
        starts = panels_of.setdefault(f"{RULES[row['rules']]}, {FIRST_STEPS[row['first_steps']]}", {})
        starts.setdefault(start, []).append(run.metrics["fitness_mean"])
    figure, panels = grid(len(panels_of), 3, 2.3, sharey=True)
    for panel, (name, starts) in zip(panels, sorted(panels_of.items()), strict=True):
        for start, curves in sorted(starts.items()):
            rows = np.array([curve[: min(map(len, curves))] for curve in curves])
            style = {"color": COLORS[start.partition(" in another")[0]], "linestyle": "--" if " 100 " in start else "-"}
            panel.plot(rows.T, linewidth=0.3, alpha=0.6, **style)
            label = f"from {start.replace('random', 'a random mean')}"
            panel.plot(rows.mean(axis=0), linewidth=1.6, label=label, **style)
        panel.axhline(0, color="0.5", linewidth=0.5, linestyle=":")
        panel.set(title=name, xlabel="updates", xlim=(0, None), xticks=range(0, 21, 5))
    panels[0].set_ylabel("mean x")
    explain(figure, panels)
    return figure


def draw_signal(measured: dict[str, dict[str, list[float]]]) -> Figure:
    """Draw the cosine of half gradients (`ees-mpi signal --every 1 --splits 4 --json`) and the steps, over generations.

    A point is the mean over five generations and all seeds; a bar is two standard errors either way. The third panel
    has the share of signal in one generation, with its interval.
    """
    lines: dict[str, list[Any]] = {}
    for name, found in ((name, found) for name, found in measured.items() if "seed" in name):
        algorithm = ALGORITHMS[name.split("-")[1]]
        other = name.endswith("-fitness")
        lines.setdefault(f"fitness, runs of {algorithm}" if other else f"{algorithm}, its own", []).append(found)
    figure, (left, right, shares) = grid(3, 3, 2.4)
    for place, (name, runs) in enumerate(lines.items()):
        windows = np.stack([np.reshape(run["cosine"], (-1, WINDOW)) for run in runs])  # [seed, window, generation]
        x = WINDOW * np.arange(windows.shape[1]) + WINDOW / 2 - 0.5 + 0.3 * (place - 2)
        error = 2 * windows.std(axis=(0, 2), ddof=1) / np.sqrt(windows.shape[0] * WINDOW)
        left.errorbar(x, 100 * windows.mean(axis=(0, 2)), 100 * error, **look(place), marker=".", label=name)
        if "fitness" not in name:
            steps = np.mean([run["step_nats"] for run in runs], axis=0)
            right.semilogy(np.arange(len(steps)), steps, **look(place))
            _draw_shares(shares, measured, name.removesuffix(", its own"), place)
    left.axhline(0.0, color="0.5", linewidth=0.5, linestyle=":")
    left.set(xlabel="generation", ylabel="cosine of half gradients, %")
    right.set(xlabel="generation", ylabel="length of the step, nats")
    shares.set(
        xlabel="mean, and N",
        ylabel="share of signal, %",
        xticks=range(4),
        xticklabels=["random\n600", "trained\n600", "random\n10,000", "trained\n10,000"],
    )
    shares.tick_params(axis="x", labelsize="small")
    explain(figure, [left])
    return figure


def _draw_shares(panel: Any, measured: dict[str, dict[str, list[float]]], algorithm: str, place: int) -> None:
    """Draw the shares of an algorithm: N = 600 and 10,000 (seed 1), around a random and a trained mean."""
    name = next(key for key, words in ALGORITHMS.items() if words == algorithm)
    few, many = measured[f"ant-{name}-n600"], measured[f"ant-{name}-mujoco-seed1"]
    share, low, high = (
        100 * np.array([*few[key], many[key][0], many[key][-1]]) for key in ("share", "share_low", "share_high")
    )
    x = np.arange(4) + 0.1 * (place - 2)
    panel.errorbar(x, share, [share - low, high - share], color=look(place)["color"], marker=".", linestyle="none")


def draw_ants(groups: Mapping[str, Sequence[Row]]) -> Figure:
    """Draw what the mutations of ants keep from unseen starts: a line for each way of training, a dot for each run."""
    numbers = {"heritable": "heritable variance", "share": "heritable share", "reliable_sectors": "reliable directions"}
    figure, panels = grid(len(numbers), len(numbers), 0.7 + 0.22 * len(groups), sharey=True)
    for panel, (name, title) in zip(panels, numbers.items(), strict=True):
        for place, (training, rows) in enumerate(groups.items()):
            values = column(rows, name)
            color = COLORS["MaxEnt" if "own" in training else "MaxVar"]
            apart = place + 0.12 * (np.arange(len(values)) - (len(values) - 1) / 2)  # equal numbers are seen, too
            panel.plot(values, apart, color=color, marker="o", markersize=3.5, linestyle="none")
        panel.set(title=title, xlim=(0, None))
        panel.grid(axis="x", linewidth=0.3)
    panels[1].set(xlim=(0, 1), xticks=(0, 0.5, 1))
    panels[2].set(xlim=(-0.4, 8.4), xticks=range(0, 9, 2))
    panels[0].set_yticks(range(len(groups)), groups)
    panels[0].invert_yaxis()
    return figure


def draw_two_starts(found: Arms) -> Figure:
    """Draw heritable variance and share of the cheetahs of that experiment: a mark for each seed and engine."""
    figure, panels = grid(2, 2, 2.4)
    for panel, (name, title) in zip(panels, (("heritable", "variance"), ("share", "share")), strict=True):
        for (robot, bullet, arm), seeds in found.items():
            if robot == "cheetah":
                places = [list(ARMS).index(arm) + 0.1 * (seed - np.mean([*seeds])) for seed in sorted(seeds)]
                values = [float(seeds[seed][name]) for seed in sorted(seeds)]
                color = COLORS["MaxEnt" if ARMS[arm] == 2 else "MaxVar"]
                label = f"{'two starts' if ARMS[arm] == 2 else 'one start'}, {'Bullet' if bullet else 'replica'}"
                how = {"color": color, "markersize": 4, "linestyle": "none", "label": label}
                panel.plot(places, values, marker="x" if bullet else "o", **how)
        panel.set_xticks(range(len(ARMS)), [arm.replace("-", "-\n") for arm in ARMS], fontsize=7)
        panel.set(
            title=f"cheetah: heritable {title}",
            xlim=(-0.5, len(ARMS) - 0.5),
            ylim=(0, 1.02 if name == "share" else None),
        )
    explain(figure, panels)
    return figure
