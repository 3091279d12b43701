#!/usr/bin/env python3
"""Make the pictures of the README and of docs heritability and replica, in `jobs/paper/pictures`.

    python jobs/paper/pictures.py            # all of them, about two minutes on one core
    python jobs/paper/pictures.py ring ant   # some of them

The films show sixteen new mutations of a trained mean. Each is rolled out alone in Bullet, the paper's physics. The
ring has the positions of the last generation that `jobs/paper/results` keeps of the run that trained the ant.

`heritable.png` has ten mutations of two ants, one trained from one start and one from four: of the twelve runs of the
one kind and the six of the other, the lower of the two in the middle by heritable variance. For each of ten directions
it takes the mutation that goes farthest that way on average over starts 1 to 10. Lines lead from the centre to where
this mutation ends from starts 11 to 20, and a triangle of their colour points in the direction. `replica.png` has a
cheetah and an ant without mutation in both engines.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from blocks import read_block, read_by_start

import ees_mpi
from ees_mpi import config as configs
from ees_mpi.analysis.together import FLOOR, LINES, MARKS, TEXT, color_of

matplotlib.use("agg")
from matplotlib import pyplot

HERE = Path(__file__).resolve().parent
PICTURES, RESULTS = HERE / "pictures", HERE / "results"
FILMS = {  # trained means of the shelf, and options of `replay`
    "ant": ("ant-maxent-whitened-seed7", "--speed", "2"),
    "cheetah": ("cheetah-maxent-released-seed7", "--seconds", "6", "--size", "860x260"),
}
RING = ("ant-ring", "ant-maxent-authors-whiten-mujoco-seed7")  # the block and the run of the ant of the film
HERITABLE = {  # of heritable.png: the title of a panel; the block, the measurement, where the radii stand
    "trained from one start:\nthe directions mix": ("ant-ring", "ant-maxent-authors-whiten-mujoco-seed8-starts", 150),
    "trained from four starts:\nmost keep their direction": (
        "ant-starts",
        "ant-maxent-authors-four-mujoco-seed9-starts",
        -25,
    ),
}
ENGINES = {  # of replica.png: their names and looks
    "bullet": ("Bullet", {"facecolor": "#9fc9e3", "edgecolor": "none"}),
    "mujoco": ("replica in MuJoCo", {"facecolor": "none", "edgecolor": "#c04a00", "linewidth": 1.0}),
}
SEEN = {  # of replica.png: the trained mean, the second axis, half of the width, and the point of view
    "cheetah": ("cheetah-maxent-released-seed7", 2, 1.1, "height"),
    "ant": ("ant-maxent-released-seed6", 1, 1.7, "y (from above)"),
}
MOMENTS = (0, 1, 2, 3)  # seconds
DIRECTIONS, RIM = 10, 41  # of heritable.png; where the triangles of the directions stand
ARROW = np.array([[2.4, -2.4, -2.4], [0, 1.2, -1.2]])  # such a triangle: along its direction, and across


def film(robot: str) -> None:
    """Film sixteen mutations of a trained mean."""
    mean, *options = FILMS[robot]
    words = [sys.executable, "-m", "ees_mpi", "replay", f"shelf:{mean}"]
    words += ["--set", "task.engine=bullet", "--mutations", "16", *options]
    subprocess.run([*words, "--video", str(PICTURES / f"{robot}.gif")], check=True)


def shade(color: tuple[int, int, int]) -> tuple[float, ...]:
    """Return a colour as matplotlib takes it."""
    return tuple(value / 255 for value in color)


def shade_of(direction: float) -> tuple[float, ...]:
    """Return the colour of a direction."""
    return shade(color_of(direction, 0.74, 0.145))


def draw_floor(axes: Any, reach: float, circles: Iterable[int], toward: float) -> None:
    """Draw circles around the start, without axes; their radii stand in the direction `toward`, in degrees."""
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke

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
    axes.scatter(*ends.T, s=5, linewidths=0, color=[shade_of(hue) for hue in np.arctan2(*ends.T[::-1]).tolist()])
    figure.savefig(PICTURES / "ring.png", dpi=100, facecolor=shade(FLOOR))


def heritable() -> None:
    """Draw where ten mutations of two ants end from starts that did not choose them."""
    from matplotlib.lines import Line2D

    figure, panels = pyplot.subplots(1, 2, figsize=(8.4, 4.9), facecolor=shade(FLOOR), sharex=True, sharey=True)
    for axes, (title, (block, name, toward)) in zip(panels, HERITABLE.items(), strict=True):
        places = np.asarray(read_by_start(RESULTS / f"{block}.h5")[name], np.float64)  # [mutation, start, 2]
        half = places.shape[1] // 2
        for number, hue in enumerate(np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS):
            way = np.array([np.cos(hue), np.sin(hue)])
            ends = places[np.nanargmax(places[:, :half].mean(axis=1) @ way), half:]
            lightness = 0.62 + 0.22 * (number % 2)  # neighbours differ in it, too
            color = shade(color_of(float(hue), lightness, 0.145))
            for end in ends:
                axes.plot(*np.stack([0 * end, end]).T, color=color, linewidth=1, alpha=0.6)
            axes.scatter(*ends.T, s=22, linewidths=0, color=[color])
            axes.fill(*(RIM * way[:, None] + np.stack([way, way[::-1] * (-1, 1)], axis=1) @ ARROW), color=color)
        draw_floor(axes, 1.08 * RIM, (10, 20, 30), toward)
        axes.set_title(title, color=shade(TEXT), size=13)
    marks = [
        Line2D(
            [], [], color=shade(TEXT), marker=">", linestyle="none", label="direction for which a mutation was chosen"
        ),
        Line2D([], [], color=shade(TEXT), marker="o", markersize=5, label="where it ends from ten other starts"),
    ]
    figure.legend(handles=marks, loc="lower center", ncols=2, frameon=False, labelcolor=shade(TEXT), fontsize=11)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.07, top=0.89, wspace=0.02)
    figure.savefig(PICTURES / "heritable.png", dpi=100, facecolor=shade(FLOOR))


def read_mean(mean: str) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the parameters and the observation statistics of a trained mean of the shelf."""
    with np.load(ees_mpi.shelf(mean)) as policy:
        parameters = np.concatenate([policy[f"layer{k}"].ravel() for k in range(len(policy["layers"]))])
        return parameters, (policy["observation_mean"], policy["observation_std"])


def walk(robot: str, engine: str) -> tuple[np.ndarray, float]:
    """Return the limbs, [step, limb, 7], of a trained mean in an engine, and the seconds of a step."""
    parameters, statistics = read_mean(SEEN[robot][0])
    settings = [f"task.engine={engine}", *(["task.device=cpu"] if engine == "mujoco" else []), "task.steps=200"]
    frames: list[np.ndarray] = []
    with closing(configs.load(f"{robot}-maxent-authors", settings).task.open(0)) as task:
        task.on_step = lambda step: frames.append(task.limbs())
        task.evaluate(0, parameters, *statistics, False)
        return np.array(frames), task.step_seconds


@pyplot.rc_context({"font.size": 12, "axes.titlesize": 12})
def replica() -> None:
    """Draw the same cheetah and the same ant in both engines, one over the other, at some moments of a walk."""
    from matplotlib.patches import Patch

    figure, panels = pyplot.subplots(2, len(MOMENTS), figsize=(9, 5.0), layout="constrained", height_ratios=(0.6, 1))
    for row, robot, (_, side, reach, words) in zip(panels, SEEN, SEEN.values(), strict=True):
        walks = {engine: walk(robot, engine) for engine in ENGINES}
        for panel, moment in zip(row, MOMENTS, strict=True):
            for engine, (_, look) in ENGINES.items():
                limbs, seconds = walks[engine]
                for limb in limbs[round(moment / seconds)]:
                    panel.fill(*capsule(limb[[0, side]], limb[[3, 3 + side]], limb[6]), **look)
            now = [limbs[round(moment / seconds)] for limbs, seconds in walks.values()]
            x, y = np.mean(now, axis=(0, 1))[[0, side]]
            low, high = (-0.1, 1.2) if robot == "cheetah" else (y - reach, y + reach)
            panel.set(xticks=range(-9, 3), yticks=range(-7, 3), aspect="equal")
            panel.set(xlim=(x - reach, x + reach), ylim=(low, high))
            if robot == "cheetah":
                panel.set_title(f"after {moment} s" if moment else "start")
        row[0].set_ylabel(words)
        for panel in row:
            panel.set_xlabel("x")
    marks = [Patch(**look, label=label) for label, look in ENGINES.values()]
    figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(PICTURES / "replica.png", dpi=100, bbox_inches="tight", pad_inches=0.05)


def capsule(one: np.ndarray, other: np.ndarray, radius: float) -> np.ndarray:
    """Return the outline, [2, n], of the points that lie within `radius` of a line."""
    hue = np.arctan2(*(other - one)[::-1])
    half = hue + np.linspace(np.pi / 2, 3 * np.pi / 2, 20)
    circle = radius * np.stack([np.cos(half), np.sin(half)], axis=1)
    return np.concatenate([one + circle, other - circle]).T


PARTS: dict[str, Callable[[], None]] = {
    "replica": replica,
    "heritable": heritable,
    "ring": ring,
    "ant": lambda: film("ant"),
    "cheetah": lambda: film("cheetah"),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(PARTS)}  [default: all]")
    for name in parser.parse_args().names or PARTS:
        PARTS[name]() if name in PARTS else parser.error(f"{name} is none of {', '.join(PARTS)}")
