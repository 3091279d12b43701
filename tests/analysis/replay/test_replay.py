"""Replays: the bits of the file, videos that play, and refusals."""

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from support.program import CHECKOUT, done, ees, train
from support.run_files import edited, note_machine

from ees_mpi import open_run
from ees_mpi.analysis import replay
from ees_mpi.analysis.offspring import extremes
from ees_mpi.commands.requests import ReplayRequest
from ees_mpi.errors import VerifyError
from ees_mpi.generation import Outcomes

SAME = "the same bits as in the file"


def played(path: Path) -> tuple[int, tuple[int, int], np.ndarray]:
    """Read a video back: how many frames, their size, the last one."""
    words = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run(words, capture_output=True, check=True)
    width, height = map(int, re.findall(rb"Video: (?:h264|gif).*, (\d+)x(\d+)", done.stderr)[0])
    frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)
    return len(frames), (width, height), frames[-1]


@pytest.mark.slow
def test_five_individuals_have_the_bits_of_the_file_and_make_a_video_that_plays(ant: Path, tmp_path: Path) -> None:
    out = tmp_path / "five.mp4"
    said = done("replay", ant, "--extremes", 5, "--video", out, "--size", "128x96").stdout
    assert said.count(SAME) == 5 and "OTHER" not in said
    frames, size, last = played(out)
    assert frames == 7 and size == (128, 96) and last.std() > 10  # steps 0, 2, ..., 12, in one scene
    assert list(tmp_path.iterdir()) == [out]


def test_individuals_are_chosen_by_number_and_by_their_ends_each_once(ant: Path) -> None:
    with open_run(ant) as run:
        x, y = run["behavior"][1].T
    right, left = int(x.argmax()), int(x.argmin())
    said = done("replay", ant, "--generation", 1, "--individual", left, "--extremes", 2).stdout
    assert re.findall(r"individual (\d+)", said) == [str(left), str(right)] and said.count(SAME) == 2
    farthest = f"individual {int(np.hypot(x, y).argmax())}, farthest:"
    assert farthest in done("replay", ant, "--generation", 1).stdout


def test_means_are_compared_where_they_were_evaluated_and_shown_where_not(cheetah: Path, species: Path) -> None:
    assert SAME in ees("replay", cheetah, "--mean", "--generation", 2).stdout
    for generation in ([], ["--generation", 1]):
        assert "no evaluation of it to compare with" in done("replay", cheetah, "--mean", *generation).stdout
    said = done("replay", species, "--mean", "--generation", 0).stdout
    assert "mean 0" in said and "mean 1" in said and said.count(SAME) == 1


@pytest.mark.usefixtures("quick_figures")
def test_an_individual_of_a_measurement_is_named_by_its_std(finished: Path, tmp_path: Path) -> None:
    done("measure", finished, "--std", "0.1,0.5", "--count", 4, "-o", tmp_path / "measured.h5")
    assert done("replay", tmp_path / "measured.h5", "--individual", 2).stdout.startswith("std 0.5, individual 2: ")
    assert done("replay", tmp_path / "measured.h5", "--mean").stdout.startswith("mean 0: ")


def test_an_environment_of_gymnasium_films_itself(tmp_path: Path) -> None:
    words = ("task.name=gymnasium", "task.env=support.own_place:PlacePoint-v0", "task.behavior=final_observation")
    small = ("task.steps=4", "task.rollouts=2", "task.starts=own", "population.size=4", "noise.size=100000")
    run, film = tmp_path / "env.h5", tmp_path / "env.mp4"
    train(run, "gymnasium-ant-maxent-laptop", *words, *small, "run.generations=1")
    said = done("replay", run, "--individual", 1, "--video", film, "--size", "270x90", "--speed", 0.3).stdout
    with open_run(run) as opened:
        rows = opened["behavior"][0, 1], opened["behavior_by_start"][0, 1, 0]
    mean, first = (", ".join(f"{value:.6g}" for value in row) for row in rows)
    assert f"behaviour {mean}, the mean of 2 starts (from the first: {first}); " in said
    assert "; 8 steps in all: the same bits" in said
    assert played(film)[:2] == (5, (270, 90 + 62))  # the shape of its pictures


def test_bits_that_differ_are_explained_by_the_machine_or_are_an_error(cheetah: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copy(cheetah, tmp_path / "changed.h5"))
    with edited(changed) as file:
        file["generations/behavior"][2, 1, 0] += 1e-12
    ended = ees("replay", changed, "--individual", 1, "--individual", 0)
    assert ended.returncode == 1 and "1 of 2 replayed gave other bits" in ended.stderr and SAME in ended.stdout
    with edited(changed) as file:
        note_machine(file, blas="another")
    ended = ees("replay", changed, "--individual", 1)
    assert ended.returncode == 0 and "OTHER BITS" in ended.stdout and "blas is" in ended.stdout and not ended.stderr


def other_behavior(logged: Outcomes) -> Outcomes:
    return dataclasses.replace(logged, behavior=np.full_like(logged.behavior, 3.0))


def test_other_bits_of_a_new_mutation_are_an_error(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged = replay.logged_outcomes
    monkeypatch.setattr(replay, "logged_outcomes", lambda *words: other_behavior(logged(*words)))
    lines: list[str] = []
    with pytest.raises(VerifyError, match=r"^1 of 1 gave other bits when they were evaluated a second time"):
        replay.replay(finished, ReplayRequest(individuals=[1], mutations=2), lines.append)
    assert lines[0].startswith("mutation 1: ")
    assert "OTHER BITS than in its first evaluation, which has behaviour 3;" in lines[0]


def test_a_custom_task_may_draw_itself(tmp_path: Path) -> None:
    config = CHECKOUT / "jobs" / "examples" / "own_task.toml"
    run = train(tmp_path / "own.h5", str(config), "task.function=support.own_tasks:Drawn", "task.settings={}")
    assert SAME in done("replay", run, "--individual", 0, "--video", tmp_path / "own.mp4", "--size", "64x64").stdout
    assert played(tmp_path / "own.mp4")[1] == (64, 64 + 62)


def test_a_replay_of_a_gpu_rollout_gives_the_distance_to_the_log(tmp_path: Path) -> None:
    small = ("population.size=6", "task.steps=10", "task.hidden=[8,8]", "noise.size=100000", "run.generations=2")
    run = train(tmp_path / "run.h5", "gymnasium-cheetah-maxent", *small)
    with edited(run) as file:
        note_machine(file, device="cuda")
        file["generations/behavior"][1, 2, 0] += 0.25
    printed = ees("replay", run, "--individual", 2).stdout
    assert "the distance is 0.25" in printed and "evaluated on a GPU" in printed
    assert "the same bits" in ees("replay", run, "--individual", 3).stdout


NAN, CLUSTER = np.nan, np.random.default_rng(0).normal(0, 0.01, (3, 3)).tolist()
AROUND = [[0.1, 0.0], [2.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, -2.0], [NAN, 9.0]]


@pytest.mark.parametrize(
    ("behavior", "count", "found"),
    [
        ([[3.0], [-1.0], [NAN], [0.0], [5.0], [-4.0]], 4, [5, 1, 0, 4]),  # on a line: from both ends, in order
        ([[3.0], [-1.0], [NAN], [0.0], [5.0], [-4.0]], 3, [5, 1, 4]),
        (AROUND, 4, [1, 2, 3, 4]),  # in a plane: the farthest in each direction
        ([[1.0, 0.0], [2.0, 0.1], [3.0, 0.0]], 3, [0, 1, 2]),  # none comes twice
        ([*CLUSTER, [9.0, 0, 0], [0, 8.0, 0], [0, 0, 7.0]], 3, [3, 4, 5]),  # far from each other
        ([[NAN], [1.0], [NAN]], 8, [1]),  # never more than valid individuals
        ([[NAN, NAN]] * 3, 8, []),
    ],
)
def test_extremes_are_far_from_each_other(behavior: list[list[float]], count: int, found: list[int]) -> None:
    chosen = extremes(np.array(behavior), count)
    assert (chosen if len(behavior[0]) == 1 else sorted(chosen)) == found
