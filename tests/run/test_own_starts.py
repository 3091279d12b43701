"""`task.starts` and `measure --starts` for the user's own environments, functions and classes."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import random_parts
from support.program import done, refusal, sets
from support.run_files import assert_same_bits

import ees_mpi
from ees_mpi.analysis.figures.positions import starts
from ees_mpi.analysis.figures.style import drawing
from ees_mpi.analysis.numbers.heritability import facts, heritability, places_of
from ees_mpi.run.parts import starts_of
from ees_mpi.tasks.base import View
from ees_mpi.tasks.own import CustomTask

OWN = """
task = {{ name = "{name}", {key} = "support.random_parts:{code}", {more} }}
population = {{ size = 8, std = 0.5 }}
objective = {{ name = "maxvar" }}
noise = {{ size = 5000 }}
run = {{ generations = 2, fsync = false }}
"""
SHAPE = "parameters = 2, behavior_dim = 1"


def config(folder: Path, code: str, name: str = "function", key: str = "function", more: str = SHAPE) -> Path:
    path = folder / f"{code}.toml"
    path.write_text(OWN.format(name=name, key=key, code=code, more=more))
    return path


def test_a_fixed_start_is_that_of_reset_seed(tmp_path: Path) -> None:
    with random_parts.train(tmp_path / "run.h5", random_parts.seeded, **{"task.reset_seed": 5}) as run:
        assert run["behavior"][1][2, 0] == random_parts.seeded(run.individual(1, 2), 5)
    task = {"name": "custom", "function": "support.random_parts:Throws", "reset_seed": 5}
    with ees_mpi.train(
        {"task": task, **random_parts.MAXENT}, tmp_path / "custom.h5", settings=random_parts.SMALL
    ) as run:
        z = run.individual(1, 2)
        assert run["behavior"][1][2, 0] == random_parts.seeded(z, 5)


def test_everything_that_a_class_opens_gets_the_reset_seed() -> None:
    task = CustomTask(function="support.random_parts:Opened", reset_seed=5)
    task.film(3, View())
    task.walker(3)
    task.open_batches(3, np.zeros(1, np.float32), 1, False, print)
    assert random_parts.Opened.seeds == [5, 5, 5]


@pytest.mark.parametrize("code", ["Throws", "QuickThrows"])
def test_classes_have_the_same_starts_as_functions(code: str, tmp_path: Path) -> None:
    keys = {"task.rollouts": 2, "task.starts": "own"}
    task = {"name": "custom", "function": f"support.random_parts:{code}"}
    words = {**random_parts.SMALL, **keys}
    with ees_mpi.train({"task": task, **random_parts.MAXENT}, tmp_path / "class.h5", settings=words) as run:
        found = run["behavior_by_start"][:]
    with random_parts.train(tmp_path / "function.h5", random_parts.seeded, **keys) as run:
        np.testing.assert_array_equal(run["behavior_by_start"][0], found[0])


@pytest.mark.standing_ranks
def test_an_environment_with_random_starts_has_the_same_bits_on_two_ranks(tmp_path: Path) -> None:
    own = config(tmp_path, "Walk-v0", "gymnasium", "env", "steps = 3, hidden = [2], behavior = 'final_observation[0]'")
    words = ("train", own, *sets("task.rollouts=2", "task.starts=own", "objective.name=repeatable"))
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    done(*words, "-o", one)
    done(*words, "-o", two, ranks=2)
    assert_same_bits(one, two)
    assert "the same bits" in done("verify", two, "--trust").stdout
    assert "the same states" in done("verify", two, "--trust", "--updates").stdout
    assert "the same bits as in the file" in done("replay", two, "--individual", 2, "--trust").stdout
    with ees_mpi.open_run(one) as run:
        task, z, statistics = run.config.task, run.individual(1, 2), run.observation_statistics(1)
        for place, seed in enumerate(starts_of(run.config).seeds(1, 8)[2].tolist()):
            alone = task.open(seed).evaluate(0, z, *statistics, False)
            np.testing.assert_array_equal(run["behavior_by_start"][1, 2, place], alone.behavior)


@pytest.mark.usefixtures("quick_figures")
def test_the_measured_share_is_that_of_the_numbers(tmp_path: Path) -> None:
    """B = z + noise(seed): mutations and starts just add, so that their variances are those of z and of the noise."""
    run, out = tmp_path / "run.h5", tmp_path / "measured.h5"
    done("train", config(tmp_path, "seeded"), *sets("task.rollouts=2", "task.starts=fixed"), "-o", run)
    words = ("measure", run, "--starts", 6, "--count", 40, "--std", "0.5,2", "--trust", "--json", "-o", out)
    rows = json.loads(done(*words).stdout)["stds"]
    with ees_mpi.open_run(out) as measured, ees_mpi.open_run(run) as trained:
        seeds, others = (starts_of(each.config).seeds(0, 1)[0].tolist() for each in (measured, trained))
        assert not {*seeds} & {*others}
        start = np.var([np.random.default_rng(seed).normal() for seed in seeds], ddof=1)
        for row, found in enumerate(rows):
            mutation = np.var([measured.individual(row, index)[0] for index in range(40)], ddof=1)
            assert found["heritable_share"] == pytest.approx(mutation / (mutation + start), rel=1e-5)
            assert found["start"] == pytest.approx(start) and found["interaction"] == pytest.approx(0, abs=1e-12)
            assert all(found[name] is not None for name in ("best_elsewhere", "distance_single"))
        assert len(facts(measured)) == 2


@pytest.mark.parametrize("rule", ["common", "own"])
def test_all_stds_of_a_measurement_have_the_same_starts(rule: str, tmp_path: Path) -> None:
    """Otherwise the difference of two stds would be that of their starts, too."""
    run, out = tmp_path / "run.h5", tmp_path / "measured.h5"
    random_parts.train(run, random_parts.seeded, **{"task.rollouts": 2, "task.starts": rule}).close()
    ees_mpi.measure(str(run), count=6, std=(0.5, 2.0), out=out, trust=True).close()
    with ees_mpi.open_run(out) as measured:
        z = np.array([[measured.individual(row, index)[0] for index in range(6)] for row in range(2)])
        shifts = measured["behavior_by_start"][..., 0] - z[..., None]
        np.testing.assert_allclose(shifts[0], shifts[1], atol=1e-6)
    assert "the same bits" in done("verify", out, "--trust").stdout
    assert "the same bits as in the file" in done("replay", out, "--mean", "--generation", 1, "--trust").stdout


def test_the_figure_shows_the_first_numbers_of_a_behaviour_that_is_no_place(tmp_path: Path) -> None:
    run, out = tmp_path / "run.h5", tmp_path / "measured.h5"
    done("train", config(tmp_path, "wide", more="parameters = 2, behavior_dim = 10"), "-o", run)
    ees_mpi.measure(str(run), starts=2, count=20, std=1.0, out=out, trust=True).close()
    with ees_mpi.open_run(out) as measured, drawing():
        found = facts(measured)[0]
        *panels, bar = [axes for axes in starts([measured]).axes if axes.get_title() or axes.get_ylabel()]
        alone = [heritability(places_of(measured, 0)[..., [number]])["heritable"] for number in range(10)]
    assert len(panels) == 8 and "behaviour[7]" in panels[7].get_title() and bar.get_ylabel() == "behaviour"
    assert found["heritable"] == pytest.approx(sum(alone)) and max(alone) > 2 * min(alone)


def test_starts_that_a_function_cannot_have_are_refused(tmp_path: Path) -> None:
    rows, plain = config(tmp_path, "seeded_rows"), config(tmp_path, "random")
    code, line = refusal("train", rows, *sets("task.batch=true", "task.starts=own"), "-o", tmp_path / "run.h5")
    assert code == 2 and 'task.starts = "own"' in line and '"common"' in line and not (tmp_path / "run.h5").exists()
    code, line = refusal("train", plain, *sets("task.starts=common"))
    assert code == 2 and "task.starts" in line and "f(z, seed)" in line
