#!/usr/bin/env python3
"""Draw pictures of the README and of docs heritability and replica, in `jobs/paper/pictures`.

    python jobs/paper/pictures.py            # all of them, in less than a minute
    python jobs/paper/pictures.py ring       # some of them

`ring.png` has the positions of the last generation that `jobs/paper/results` keeps of the run that trained the ant of
the README's film.

`heritable.png` has ten mutations of two ants, one trained from one start and one from four: of the twelve runs of the
one kind and the six of the other, the lower of the two in the middle by heritable variance. For each of ten directions
it takes the mutation that goes farthest that way on average over starts 1 to 10. Lines lead from the centre to where
this mutation ends from starts 11 to 20, and a triangle of their colour points in the direction.

`replica.png` has a cheetah and an ant without mutation in both engines. Types of CPU round differently, and walking is
chaotic: on another type the poses after the first second are others.
"""

import argparse
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from blocks import read_block, read_by_start
from replica import source_of, task_of

import ees_mpi
from ees_mpi.analysis.together import FLOOR, LINES, MARKS, TEXT, color_of

matplotlib.use("agg")
from matplotlib import pyplot
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch
from matplotlib.patheffects import withStroke

HERE = Path(__file__).resolve().parent
PICTURES, RESULTS = HERE / "pictures", HERE / "results"
RING = ("ant-ring", "ant-maxent-authors-whiten-mujoco-seed7")  # the block and the run of the ant of the film
ONE_START = ("ant-ring", "ant-maxent-authors-whiten-mujoco-seed8-starts")  # of heritable.png: block and measurement
FOUR_STARTS = ("ant-starts", "ant-maxent-authors-four-mujoco-seed9-starts")
DIRECTIONS, RIM = 10, 41  # of heritable.png; where the triangles of the directions stand
ARROW = np.array([[2.4, -2.4, -2.4], [0, 1.2, -1.2]])  # such a triangle: along its direction, and across
ENGINES = {  # of replica.png: their names and looks
    "bullet": {"label": "Bullet", "facecolor": "#9fc9e3", "edgecolor": "none"},
    "mujoco": {"label": "replica in MuJoCo", "facecolor": "none", "edgecolor": "#c04a00", "linewidth": 1.0},
}
MOMENTS = (0, 1, 2, 3)  # seconds


def shade(color: tuple[int, int, int]) -> tuple[float, ...]:
    """Return a colour as matplotlib takes it."""
    return tuple(value / 255 for value in color)


def draw_floor(axes: Any, reach: float, circles: Iterable[int], toward: float) -> None:
    """Draw circles around the start, without axes; their radii stand in the direction `toward`, in degrees."""
    x, y = np.cos(np.radians(toward)), np.sin(np.radians(toward))
    edge = [withStroke(linewidth=3, foreground=shade(FLOOR))]  # to be read on the dots, too
    how: dict[str, Any] = {"ha": "center", "va": "center", "size": 11, "path_effects": edge}
    for radius in circles:
        axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor=shade(LINES)))
        axes.text(radius * x, radius * y, str(radius), color=shade(TEXT), **how)
    axes.plot(0, 0, "+", color=shade(TEXT))
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.set_axis_off()


def ring() -> None:
    """Draw where the mutations of the ant end, in the colours of the film."""
    block, name = RING
    (ends,) = (run.last for run in read_block(RESULTS / f"{block}.h5") if run.name == name)
    ends = ends[np.isfinite(ends).all(axis=1)]
    reach = 1.05 * float(np.abs(ends).max())
    circles = [mark for mark in MARKS if mark < reach]
    figure = pyplot.figure(figsize=(4.2, 4.2), facecolor=shade(FLOOR))
    axes = figure.add_axes((0, 0, 1, 1))
    draw_floor(axes, reach, circles, 35)
    colors = [shade(color_of(hue, 0.74, 0.145)) for hue in np.arctan2(ends[:, 1], ends[:, 0]).tolist()]
    axes.scatter(*ends.T, s=5, linewidths=0, color=colors)
    figure.savefig(PICTURES / "ring.png", dpi=100, facecolor=shade(FLOOR))


def heritable() -> None:
    """Draw where ten mutations of two ants end from starts that did not choose them."""
    figure, (one, four) = pyplot.subplots(1, 2, figsize=(8.4, 4.9), facecolor=shade(FLOOR), sharex=True, sharey=True)
    draw_mutations(one, "trained from one start:\nthe directions mix", ONE_START, 150)
    draw_mutations(four, "trained from four starts:\nmost keep their direction", FOUR_STARTS, -25)
    words = "direction for which a mutation was chosen", "where it ends from ten other starts"
    chosen = Line2D([], [], color=shade(TEXT), marker=">", linestyle="none", label=words[0])
    ends = Line2D([], [], color=shade(TEXT), marker="o", markersize=5, label=words[1])
    look: dict[str, Any] = {"frameon": False, "labelcolor": shade(TEXT), "fontsize": 11}
    figure.legend(handles=[chosen, ends], loc="lower center", ncols=2, **look)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.07, top=0.89, wspace=0.02)
    figure.savefig(PICTURES / "heritable.png", dpi=100, facecolor=shade(FLOOR))


def draw_mutations(axes: Any, title: str, measurement: tuple[str, str], toward: float) -> None:
    """Draw ten mutations of one ant; `toward`: the direction in which the radii stand, in degrees."""
    block, name = measurement
    places = np.asarray(read_by_start(RESULTS / f"{block}.h5")[name], np.float64)  # [mutation, start, 2]
    half = places.shape[1] // 2
    for number, hue in enumerate(np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS):
        way, across = np.array([np.cos(hue), np.sin(hue)]), np.array([-np.sin(hue), np.cos(hue)])
        ends = places[np.nanargmax(places[:, :half].mean(axis=1) @ way), half:]
        lightness = 0.62 + 0.22 * (number % 2)  # neighbours differ in it, too
        color = shade(color_of(float(hue), lightness, 0.145))
        for x, y in ends:
            axes.plot([0, x], [0, y], color=color, linewidth=1, alpha=0.6)
        axes.scatter(*ends.T, s=22, linewidths=0, color=[color])
        axes.fill(*(RIM * way[:, None] + np.stack([way, across], axis=1) @ ARROW), color=color)
    draw_floor(axes, 1.08 * RIM, (10, 20, 30), toward)
    axes.set_title(title, color=shade(TEXT), size=13)


@pyplot.rc_context({"font.size": 12, "axes.titlesize": 12})
def replica() -> None:
    """Draw the same cheetah and the same ant in both engines, one over the other, at some moments of a walk."""
    figure, (above, below) = pyplot.subplots(
        2, len(MOMENTS), figsize=(9, 5.0), layout="constrained", height_ratios=(0.6, 1)
    )
    for panel, moment in zip(above, MOMENTS, strict=True):
        panel.set_title(f"after {moment} s" if moment else "start")
    for panel, (x, _) in zip(above, draw_walk(above, "cheetah-maxent-released-seed7", 2), strict=True):
        panel.set(xlim=(x - 1.1, x + 1.1), ylim=(-0.1, 1.2))
    for panel, (x, y) in zip(below, draw_walk(below, "ant-maxent-released-seed6", 1), strict=True):
        panel.set(xlim=(x - 1.7, x + 1.7), ylim=(y - 1.7, y + 1.7))
    above[0].set_ylabel("height")
    below[0].set_ylabel("y (from above)")
    marks = [Patch(**look) for look in ENGINES.values()]
    figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(PICTURES / "replica.png", dpi=100, bbox_inches="tight", pad_inches=0.05)


def draw_walk(panels: Iterable[Any], mean: str, side: int) -> list[np.ndarray]:
    """Draw a trained mean in both engines, x and the axis `side`, a panel for each moment; return its middles [2]."""
    middles = []
    walks = {engine: walk(mean, engine) for engine in ENGINES}
    for panel, moment in zip(panels, MOMENTS, strict=True):
        now = {engine: limbs[round(moment / seconds)] for engine, (limbs, seconds) in walks.items()}
        for engine, limbs in now.items():
            for limb in limbs:
                panel.fill(*capsule(limb[[0, side]], limb[[3, 3 + side]], limb[6]), **ENGINES[engine])
        panel.set(xlabel="x", xticks=range(-9, 3), yticks=range(-7, 3), aspect="equal")
        middles.append(np.mean([*now.values()], axis=(0, 1))[[0, side]])
    return middles


def walk(mean: str, engine: str) -> tuple[np.ndarray, float]:
    """Return the limbs, [step, limb, 7], of a trained mean in an engine, and the seconds of a step."""
    source = source_of(ees_mpi.shelf(mean))
    frames: list[np.ndarray] = []
    with closing(task_of(source.robot, engine, 200).open(0)) as task:
        task.on_step = lambda step: frames.append(task.limbs())
        task.evaluate(0, source.mean, *source.statistics, False)
        return np.array(frames), task.step_seconds


def capsule(one: np.ndarray, other: np.ndarray, radius: float) -> np.ndarray:
    """Return the outline, [2, n], of the points that lie within `radius` of a line."""
    hue = np.arctan2(*(other - one)[::-1])
    half = hue + np.linspace(np.pi / 2, 3 * np.pi / 2, 20)
    circle = radius * np.stack([np.cos(half), np.sin(half)], axis=1)
    return np.concatenate([one + circle, other - circle]).T


PARTS = {"ring": ring, "heritable": heritable, "replica": replica}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(PARTS)}  [default: all]")
    for name in parser.parse_args().names or PARTS:
        PARTS[name]()
