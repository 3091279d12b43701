"""The first hour with an environment of one's own: its places, its starts, its figures and its films."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import done, ees, refusal, sets

import ees_mpi
from ees_mpi import config
from ees_mpi.analysis.figures.catalog import suiting
from ees_mpi.analysis.numbers.heritability import describe, heritability, sentence
from ees_mpi.analysis.numbers.tables import number
from ees_mpi.analysis.offspring import axis_names
from ees_mpi.errors import ConfigError
from ees_mpi.tasks import TASKS

CONFIG = """
[task]
name = "gymnasium"
env = "support.own_place:PlacePoint-v0"
behavior = "support.own_place:final_place"
hidden = [4]
steps = 6
observation_share = 1.0

[population]
size = 40
std = 0.5

[objective]
name = "maxent"

[noise]
size = 5000

[run]
generations = 2
fsync = false
"""
HEIGHT = sets("task.behavior=final_info[height]")  # one number


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "own.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def run(own: Path) -> Path:
    """A run from one start."""
    done("train", own, "-o", own.with_name("run.h5"))
    return own.with_name("run.h5")


@pytest.fixture(scope="module")
def several(own: Path) -> Path:
    """A run from the mean of three starts."""
    done("train", own, *sets("task.rollouts=3", "task.starts=own"), "-o", own.with_name("several.h5"))
    return own.with_name("several.h5")


@pytest.fixture(scope="module")
def measured(run: Path) -> Path:
    """A measurement with three starts."""
    out = run.with_name("measured.h5")
    ees_mpi.measure(str(run), std=[0.2, 0.5], starts=3, count=40, out=out).close()
    return out


def built(**settings: Any) -> Any:
    return TASKS.build({"name": "gymnasium", "env": "support.own_place:PlacePoint-v0", **settings})


def test_one_or_two_numbers_are_a_place_unless_a_key_says_otherwise() -> None:
    assert [built().axes, built(behavior="final_observation[0]").axes, built(axes=1).axes, built(axes=0).axes] == [
        2,
        1,
        1,
        0,
    ]
    assert built(behavior_steps=[2, 4], steps=4).axes == 2  # of each record
    wide = {"env": "Pendulum-v1"}
    assert built(**wide).axes == 0 and built(**wide, axes=3).axes == 3
    function = {"name": "function", "function": "support.random_parts:seeded", "parameters": 2}
    assert [TASKS.build({**function, "behavior_dim": dim}).axes for dim in (1, 2, 3)] == [1, 2, 0]
    custom = {"name": "custom", "function": "support.own_tasks:Base"}
    assert [TASKS.build(custom).axes, TASKS.build({**custom, "axes": 0}).axes] == [1, 0]
    for section in ({"axes": 3}, {**function, "behavior_dim": 1, "axes": 2}, {**custom, "axes": 2}):
        task = TASKS.build(section) if "name" in section else built(**section)
        with pytest.raises(ConfigError, match=r"task.axes: the behaviour has [12] numbers; expected 0 to [12], got"):
            task.check()


@pytest.mark.usefixtures("quick_figures")
def test_places_of_an_own_environment_fill_all_columns_of_starts(run: Path, measured: Path, tmp_path: Path) -> None:
    words = ("measure", run, "--starts", 3, "--count", 12, "--set", "task.axes=0", "--std", "0.5", "--json")
    (row,) = json.loads(done(*words, "-o", tmp_path / "none.h5").stdout)["stds"]
    assert row["heritable_share"] and {row[name] for name in ("kept", "best_elsewhere", "distance_single")} == {None}
    placed, without = (describe(ees_mpi.open_run(path, trust=True)) for path in (measured, tmp_path / "none.h5"))
    heads = ["std", "heritable", "heritable_share", "95", "%", "interval"]
    assert placed[1].split() == [*heads, "best_elsewhere", "distance_single"]
    assert without[1].split() == heads and "distance" not in " ".join(without)
    for lines in (placed, without):
        assert any(line.startswith("std 0.5: ") and "belongs to the mutation" in line for line in lines)
    assert [any("task.starts=common or own" in line for line in without)] == [row["heritable_share"] < 0.5]


def test_starts_that_change_nothing_are_told() -> None:
    places = np.repeat(np.random.default_rng(0).normal(size=(20, 1, 2)), 3, axis=1)
    assert "does the environment use its seed?" in sentence({"std": 0.1, **heritability(places)})
    places[:, 1] += 0.1
    assert "seed" not in sentence({"std": 0.1, **heritability(places)})


@pytest.mark.usefixtures("quick_figures")
def test_a_figure_without_a_name_suits_the_behaviour(run: Path, measured: Path, finished: Path, inside: Path) -> None:
    done("sample", run, "--count", 4, "-o", "sample.h5")
    done("adapt", run, "--direction", "up", "--mutations", 2, "--evaluations", 1, "-o", "up.h5")
    expected = {run: "plane", Path("sample.h5"): "plane", measured: "measure", finished: "interference"}
    for path, name in expected.items():
        assert suiting([path]) == name
    assert done("figure", "sample.h5").stdout == "sample.png\n" and Path("sample.png").exists()
    assert done("figure", run, "sample.h5").stdout == done("figure", "plane", "sample.h5").stdout == "plane.png\n"
    said = done("figure", "up.h5", run, "-o", "both.png")
    assert said.stdout == "both.png\n"
    for words in (["up.h5"], [], ["plane", "up.h5"]):
        failed = ees("figure", *words, "-o", "none.png")
        assert failed.returncode == 2 and "got no run file" in failed.stderr and not Path("none.png").exists()
        assert ("(up.h5 is a file of ees-mpi adapt)" in failed.stderr) is (words == ["up.h5"])


def test_a_figure_makes_no_mean_of_measurements_with_other_numbers_of_starts(
    run: Path, measured: Path, tmp_path: Path
) -> None:
    once = tmp_path / "once.h5"
    ees_mpi.measure(str(run), std=0.2, count=40, out=once).close()
    code, line = refusal("figure", "measure", measured, once, "-o", tmp_path / "none.png")
    assert code == 3 and "starts" in line and "--label" in line and not (tmp_path / "none.png").exists()


@pytest.mark.usefixtures("quick_figures")
def test_the_table_of_measure_says_where_the_policy_ends_and_not_where_it_was_before(own: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "steps.h5", tmp_path / "measured.h5"
    done("train", own, *sets("task.behavior_steps=[2, 6]"), "-o", path)
    said = done("measure", path, "--std", "0.2", "--count", 12, "-o", out).stdout
    with ees_mpi.open_run(out, trust=True) as measured:
        x, y = measured["behavior_of_mean"][0][2:]
    assert f"the policy itself ends at ({number(x)}, {number(y)});" in said


def test_numbers_of_several_steps_are_not_named_as_those_of_the_last_one(own: Path, tmp_path: Path) -> None:
    path = tmp_path / "way.h5"
    chosen = "task.behavior=final_observation[1]", "task.behavior_steps=[2, 6]"
    for axes, names in ((1, ["final observation[1]"]), (0, ["behaviour[0]", "behaviour[1]"])):
        done("train", own, *sets(*chosen, f"task.axes={axes}"), "-o", path, "--overwrite")
        with ees_mpi.open_run(path) as way:
            assert axis_names(way) == names


@pytest.mark.parametrize(("fitness", "notes"), [("reward", 1), ("behavior", 0)])
def test_a_direction_that_is_not_used_is_told(fitness: str, notes: int, own: Path) -> None:
    settings = ["task.direction=180", f"task.fitness={fitness}"]
    assert len(config.load(str(own), settings, trust=True).notes) == notes


def test_up_and_down_are_directions_of_two_numbers(own: Path, run: Path, tmp_path: Path) -> None:
    best = {}
    for direction, angle in (("up", 90), ("down", -90), ("90deg", 90)):
        words: dict[str, Any] = {"mutations": 20, "evaluations": 1, "out": tmp_path / f"{direction}.h5"}
        found = ees_mpi.adapt(str(run), direction, **words)
        assert found.attributes["direction"] == angle
        best[direction] = int(found.attributes["best"])
        heights = found.arrays["mutations/behavior"][:, 1]
        assert best[direction] == (heights.argmin() if direction == "down" else heights.argmax())
    assert best["up"] == best["90deg"] != best["down"]
    done("adapt", run, "--direction", "down", "--mutations", 2)
    assert run.with_name("run-adapt-down.h5").exists()
    done("train", own, *HEIGHT, "-o", tmp_path / "line.h5")
    for direction in ("up", "down"):
        code, line = refusal("adapt", tmp_path / "line.h5", "--direction", direction)
        assert code == 2 and "the place has one number; expected left or right" in line


def test_a_direction_is_that_of_the_place_and_not_of_numbers_in_front_of_it(own: Path, tmp_path: Path) -> None:
    path = tmp_path / "both.h5"
    done("train", own, *sets("task.behavior=support.own_place:opposite_and_place", "task.axes=2"), "-o", path)
    found = ees_mpi.adapt(str(path), "up", tmp_path / "up.h5", mutations=20, evaluations=1)
    ends = found.arrays["mutations/behavior"]
    assert (
        found.attributes["best"] == ends[:, 3].argmax() and found.fitness == found.arrays["evaluations/behavior"][0, 3]
    )
    done(
        "train",
        own,
        *sets("task.behavior=support.own_place:opposite_and_place", "task.axes=1"),
        "-o",
        tmp_path / "1.h5",
    )
    assert refusal("adapt", tmp_path / "1.h5", "--direction", "up")[0] == 2


def test_adapt_chooses_by_the_starts_of_the_run_or_from_one_start(several: Path, tmp_path: Path) -> None:
    words = ("adapt", several, "--direction", "left", "--mutations", 5, "--evaluations", 2)
    said = done(*words, "-o", tmp_path / "mean.h5").stdout
    assert "best of 5 mutations, chosen by the mean of 3 own starts, ended at" in said
    said = done(*words, "--set", "task.rollouts=1", "-o", tmp_path / "one.h5").stdout
    assert "best of 5 mutations, chosen from one start, ended at" in said
    # All mutations have one start, that of the run's seed: what they do from it is what they are chosen by.
    one = ees_mpi.adapt(str(several), "left", tmp_path / "py.h5", mutations=5, settings={"task.rollouts": 1})
    assert (one.attributes["rollouts"], one.attributes["adaptation_steps"]) == (1, 5 * 6)
    assert one.attributes["best"] == one.arrays["mutations/behavior"][:, 0].argmin()
    code, line = refusal(*words, "--set", "task.rollouts=2", "-o", tmp_path / "no.h5")
    assert code == 2 and "task.rollouts=2: expected task.rollouts=1" in line and not (tmp_path / "no.h5").exists()
    code, line = refusal("sample", several, "--set", "task.rollouts=1")
    assert code == 2 and "all other keys are the run's" in line


def test_a_place_below_0_is_not_said_to_go_away_from_a_start_that_is_not_0(own: Path, tmp_path: Path) -> None:
    path = tmp_path / "below.h5"
    done("train", own, *sets("task.behavior=support.own_place:below"), "-o", path)
    said = done("adapt", path, "--direction", "right", "--mutations", 3, "--evaluations", 2).stdout
    assert "ended at -" in said and "towards right" in said and "does not go" not in said


def test_places_on_a_line_are_drawn_together_as_trails(own: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "line.h5", tmp_path / "together.gif"
    done("train", own, *HEIGHT, "-o", path)
    said = done("replay", path, "--mutations", 4, "--together", "--video", out, "--size", "160x120").stdout
    assert said.count("\nmutation ") == 4 and out.stat().st_size > 1000
