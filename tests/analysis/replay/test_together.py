"""Robots that are drawn together: each rolled out alone, all in one scene."""

import math
from pathlib import Path

import numpy as np
import pytest
from support.program import done
from support.small_runs import walk as trained

from ees_mpi.analysis.together import FLOOR, SHADES, Scene, color_of

SAME = "the same bits as in the file"
AGAIN = "each was evaluated twice, with the same bits\n"
SIZE = (160, 120)


def walk(direction: float, reach: float = 6.0, frames: int = 10) -> np.ndarray:
    """A robot with one limb, which goes straight ahead: [frames, 1, 7]."""
    way = np.linspace(0, reach, frames)[:, None] * [math.cos(direction), math.sin(direction)]
    limb = np.array([-0.5, 0.0, 0.3, 0.5, 0.0, 0.3, 0.4])
    limbs = np.tile(limb, (frames, 1))
    limbs[:, 0:2] += way
    limbs[:, 3:5] += way
    return limbs[:, None]


def middle_of(color: tuple[int, int, int], picture: np.ndarray) -> np.ndarray:
    """Return the mean place (column, row) of the pixels of a colour; it must be there."""
    rows, columns = np.nonzero((picture == color).all(axis=-1))
    assert len(rows), color
    return np.array([columns.mean(), rows.mean()])


def test_robots_end_in_their_direction_inside_of_the_picture_each_in_its_colour() -> None:
    directions = [0.0, math.pi / 2, math.pi, -math.pi / 2]
    last = list(Scene([walk(angle) for angle in directions], 2, SIZE, 0.1, "").frames())[-1]
    assert last.shape == (120, 160, 3)
    right, up, left, down = (middle_of(color_of(angle, *SHADES[1]), last) for angle in directions)
    assert left[0] < up[0] < right[0] and up[1] < right[1] < down[1]
    edges = np.concatenate([last[:3].reshape(-1, 3), last[-3:].reshape(-1, 3), last[:, :3].reshape(-1, 3)])
    paints = {color_of(angle, *SHADES[1]) for angle in directions}
    assert not paints & set(map(tuple, edges.tolist())) and tuple(FLOOR) in set(map(tuple, edges.tolist()))


def test_new_mutations_of_a_run_are_drawn_together_with_the_bits_of_a_sample(ant: Path, tmp_path: Path) -> None:
    out = tmp_path / "ant.gif"
    options = ["--video", out, "--size", "160x120", "--speed", 0.5]
    printed = done("replay", ant, "--mutations", 5, *options).stdout
    assert printed.endswith(AGAIN) and "160 x 120" in printed
    assert out.read_bytes()[:6] == b"GIF89a" and b"NETSCAPE2.0" in out.read_bytes()  # it begins again at its end
    done("sample", ant, "--count", 5, "--out", tmp_path / "sample.h5")
    of_sample = done("replay", tmp_path / "sample.h5", "--individual", 3).stdout.splitlines()[0]
    of_sample = of_sample.replace("std 0.02, individual 3", "mutation 3").removesuffix(f": {SAME}")
    assert of_sample in printed.splitlines()
    other = done("replay", ant, "--mutations", 5, "--set", "task.engine=mujoco", *options).stdout
    assert other.count("\nmutation ") == 5 and other.endswith(AGAIN)


def test_individuals_of_a_file_are_drawn_together_for_so_many_seconds(cheetah: Path, tmp_path: Path) -> None:
    options = ["--together", "--video", tmp_path / "x.mp4", "--size", "160x120", "--seconds", 0.1]
    printed = done("replay", cheetah, *options).stdout
    assert printed.count(SAME) == 6 and "x.mp4: 4 frames" in printed  # steps 0, 2, 4, 6 of 0.0165 s


@pytest.mark.parametrize(("kind", "together"), [("Capsule", ""), ("Capsule", "--together"), ("Drawn", "--together")])
def test_limbs_and_places_of_a_task_of_the_user_are_drawn_in_one_scene(
    kind: str, together: str, tmp_path: Path
) -> None:
    words = ("task.name=custom", f"task.function=support.own_tasks:{kind}")
    run, film = trained(tmp_path / "run.h5", "interference-maxent", *words), tmp_path / "film.gif"
    options = ["--individual", 1, *filter(None, [together]), "--video", film, "--size", "160x120", "--speed", 0.5]
    said = done("replay", run, *options).stdout
    assert "film.gif: 4 frames of 160 x 120" in said and said.count(SAME) == 1
    assert film.read_bytes().startswith(b"GIF89a")
