#!/usr/bin/env python3
"""Make the pictures at the top of the README: ant.gif, cheetah.gif and ring.png in `jobs/paper/pictures`.

    python jobs/paper/pictures.py                                  # about three minutes on one core
    python jobs/paper/pictures.py --ant OTHER --cheetah OTHER      # other trained means of the shelf

The films show sixteen new mutations of a trained mean. Each is rolled out alone in Bullet, the paper's physics. The
ring has the positions of the last generation that `jobs/paper/results` keeps of the run that trained the ant.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
from blocks import read_block

import ees_mpi
from ees_mpi.analysis.together import FLOOR, LINES, MARKS, TEXT, color_of

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
OPTIONS = {"ant": ("--speed", "2"), "cheetah": ("--seconds", "6", "--size", "860x260")}


def film(robot: str, mean: str) -> None:
    """Film sixteen mutations of a trained mean."""
    words = [sys.executable, "-m", "ees_mpi", "replay", f"shelf:{mean}"]
    words += ["--set", "task.engine=bullet", "--mutations", "16", "--together", *OPTIONS[robot]]
    subprocess.run([*words, "--video", str(PICTURES / f"{robot}.gif")], check=True)


def positions(mean: str) -> np.ndarray:
    """Return the kept positions of the last generation of the run that trained a mean; its card names the run."""
    card = ees_mpi.shelf(mean).with_suffix(".md").read_text(encoding="utf-8")
    run, file = re.findall(r"^\| run \| `(.*?)` of `(.*?)`", card, re.MULTILINE)[0]
    (kept,) = (each for each in read_block(HERE / "results" / file) if each.name == run)
    return kept.last


def ring(mean: str) -> None:
    """Draw where the mutations of the ant end, in the colours of the film."""
    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.patches import Circle

    def shade(color: tuple[int, int, int]) -> tuple[float, ...]:
        return tuple(value / 255 for value in color)

    ends = positions(mean)
    ends = ends[np.isfinite(ends).all(axis=1)]
    reach = 1.05 * float(np.abs(ends).max())
    figure = pyplot.figure(figsize=(4.2, 4.2), facecolor=shade(FLOOR))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axes.set_axis_off()
    for radius in (mark for mark in MARKS if mark < reach):
        axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor=shade(LINES)))
        axes.text(radius * 0.707, -radius * 0.707, str(radius), color=shade(TEXT), ha="center", va="center", size=9)
    hues = np.arctan2(ends[:, 1], ends[:, 0]).tolist()
    axes.scatter(*ends.T, s=5, linewidths=0, color=[shade(color_of(hue, 0.74, 0.145)) for hue in hues])
    axes.plot(0, 0, "+", color=shade(TEXT))
    figure.savefig(PICTURES / "ring.png", dpi=100, facecolor=shade(FLOOR))


def main() -> None:
    """Make all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ant", default="ant-maxent-released-seed6", help="a trained mean of the ant")
    parser.add_argument("--cheetah", default="cheetah-maxent-released-seed7", help="one of the cheetah")
    chosen = parser.parse_args()
    ring(chosen.ant)
    film("ant", chosen.ant)
    film("cheetah", chosen.cheetah)


if __name__ == "__main__":
    main()
