"""Runs that start from another run, samples and adaptations: the same bits for any number of ranks."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import done, ees, info, sets
from support.run_files import assert_same_bits

from ees_mpi import open_run

pytestmark = pytest.mark.standing_ranks

SMALL = ["population.size=8", "task.steps=15", "noise.size=200000", "run.generations=4", "task.observation_share=0.5"]


def walk(out: Path, preset: str, *words: object, generations: int = 4, ranks: int | None = None) -> Path:
    settings = sets(*SMALL, f"run.generations={generations}")
    done("train", preset, *settings, *words, "--out", out, ranks=ranks)
    return out


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return walk(tmp_path_factory.mktemp("trained") / "trained.h5", "ant-maxent")


@pytest.mark.slow
def test_a_split_draws_its_means_from_the_trained_population(trained: Path, tmp_path: Path) -> None:
    split = walk(tmp_path / "split.h5", "ant-maxent-split", "--from", trained)
    parts = walk(tmp_path / "parts.h5", "ant-maxent-split", "--from", trained, generations=2, ranks=3)
    done("resume", parts, "--generations", 4)
    assert_same_bits(parts, split)
    with open_run(trained) as source, open_run(split) as run:
        state = source.state_arrays()
        differences = run["mean"][0] - state["mean"]
        np.testing.assert_allclose(differences.std(axis=1), 0.02, rtol=0.02)
        assert abs(np.corrcoef(differences)[0, 1]) < 0.02
        assert run["observation_count"][0] == state["observations"][0] > 0
        note = json.loads(run.attributes["started_from"])
        assert note["run_id"] == source.run_id and note["generation"] == 4
        assert note["state_sha256"] == info(trained)["state_sha256"]


@pytest.mark.slow
def test_a_run_starts_from_the_final_or_an_earlier_mean_with_fresh_moments(trained: Path, tmp_path: Path) -> None:
    with open_run(trained) as source:
        final, second = source.state_arrays()["mean"], source["mean"][2]
        statistics = source["observation_mean"][2]
    with open_run(walk(tmp_path / "final.h5", "ant-adapt", "--from", trained)) as run:
        np.testing.assert_array_equal(run["mean"][0], final)
        assert int(run.state_arrays()["moments/steps"]) == 4
    with open_run(walk(tmp_path / "second.h5", "ant-adapt", "--from", f"{trained}@2")) as run:
        np.testing.assert_array_equal(run["mean"][0], second)
        np.testing.assert_allclose(run["observation_mean"][0], statistics)


@pytest.mark.slow
def test_samples_have_the_same_bits_for_any_number_of_ranks(trained: Path, tmp_path: Path) -> None:
    options = ["--count", 9, "--std", 0.005]
    one, three = tmp_path / "one.h5", tmp_path / "three.h5"
    done("sample", trained, *options, "--out", one)
    done("sample", trained, *options, "--out", three, ranks=3)
    assert_same_bits(one, three)
    assert info(one)["kind"] == "study"
    with open_run(one) as run, open_run(trained) as source:
        assert run["behavior"].shape == (1, 9, 2) and run.config.population.std == 0.005
        np.testing.assert_array_equal(run["mean"][0], source.state_arrays()["mean"])
        offspring = run.individual(0, 8) - run["mean"][0, 0]
        np.testing.assert_allclose(offspring.std(), 0.005, rtol=0.02)
    done("verify", one)
    assert ees("resume", one).returncode == 3
    failed = ees("sample", trained, *options, "--out", one)
    assert failed.returncode == 3 and "--overwrite" in failed.stderr


def test_a_sample_of_a_mixture_and_of_an_earlier_generation(tmp_path: Path) -> None:
    mixture = walk(tmp_path / "mixture.h5", "ant-maxent-mixture")
    out = tmp_path / "sample.h5"
    done("sample", mixture, "--count", 5, "--generation", 1, "--out", out)
    with open_run(out) as run, open_run(mixture) as source:
        assert set(run["parent"][0]) == {0, 1}
        np.testing.assert_array_equal(run["mean"][0], source["mean"][1])
        np.testing.assert_allclose(run["observation_std"][0], source["observation_std"][1], rtol=1e-12)


def test_adapt_keeps_the_best_mutation_and_scores_it_on_other_seeds(trained: Path, tmp_path: Path) -> None:
    words = ["adapt", trained, "--mutations", 6, "--evaluations", 3]
    for ranks in (None, 3):
        finished = done(*words, "--direction", "left", "--out", tmp_path / f"{ranks or 0}.h5", ranks=ranks)
        assert "best of 6 mutations" in finished.stdout
    with h5py.File(tmp_path / "0.h5") as one, h5py.File(tmp_path / "3.h5") as other:
        for name in ("mutations/fitness", "mutations/behavior", "evaluations/fitness", "evaluations/reset_seed"):
            np.testing.assert_array_equal(one[name][()], other[name][()])
        assert one.attrs["best"] == one["mutations/fitness"][()].argmax()
        np.testing.assert_array_equal(one["mutations/fitness"][()], -one["mutations/behavior"][:, 0])
        assert one["evaluations/reset_seed"][()].tolist() == [1, 2, 3] and one.attrs["direction"] == 180.0
        assert one.attrs["adaptation_steps"] == 6 * 15 and one.attrs["training_steps"] == 4 * 8 * 15
    done(*words, "--direction", "45deg", "--out", tmp_path / "oblique.h5")
