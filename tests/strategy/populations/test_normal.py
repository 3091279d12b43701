from pathlib import Path

import numpy as np
import pytest
from support.outcomes import in_parts
from support.program import done, refusal, train
from support.run_files import edited

import ees_mpi
from ees_mpi.generation import Draw
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.populations.normal import Normal
from ees_mpi.strategy.populations.weighted import WIDE, weighted_noise

D = WIDE + 100


def setting(antithetic: bool = True, size: int = 300) -> tuple[Normal, NoiseTable, Draw, dict[str, np.ndarray]]:
    population = Normal(size=size, std=0.02, antithetic=antithetic)
    noise = NoiseTable(1, 4 * D, Ranks())
    drawn = population.draw(stream(1, "draw"), noise, D)
    mean = np.random.default_rng(0).normal(size=(1, D)).astype(np.float32)
    return population, noise, drawn, {"mean": mean}


@pytest.mark.parametrize(("antithetic", "size"), [(True, 300), (False, 300), (True, 3000)])
def test_the_gradient_is_the_weighted_sum_of_scores_within_a_millionth(antithetic: bool, size: int) -> None:
    population, noise, drawn, learned = setting(antithetic, size)
    weights, exact = np.random.default_rng(2).normal(size=size), np.zeros(D)
    for weight, sign, offset in zip(weights, drawn.sign, drawn.offset, strict=True):
        exact += weight * sign / population.std * noise.row(offset, D).astype(np.float64)
    gradient = population.gradient(weights, drawn, learned, noise, Ranks())["mean"]
    assert gradient.shape == (1, D)
    assert np.linalg.norm(gradient[0] - exact) < 1e-6 * np.linalg.norm(exact)


def test_offsets_reach_both_ends_of_the_table_and_not_beyond() -> None:
    population = Normal(size=2000, std=1.0)
    noise = NoiseTable(0, 10, Ranks())
    drawn = population.draw(stream(0, "draw"), noise, 3)
    assert drawn.offset.min() == 0 and drawn.offset.max() == 7


@pytest.mark.parametrize("size", [1, 7, 63, 64, 65, 1500, 40_000])
def test_the_weighted_sum_has_the_same_bits_however_it_is_cut(size: int) -> None:
    noise = NoiseTable(3, 200_000, Ranks())
    generator = np.random.default_rng(size)
    offset, coefficient = generator.integers(0, noise.size - size, 150), generator.normal(size=150)
    whole = weighted_noise(coefficient, offset, size, noise, Ranks())
    assert whole.shape == (size,)
    for count in (2, 3, 30):
        parts = in_parts(lambda part: weighted_noise(coefficient, offset, size, noise, part), count)
        np.testing.assert_array_equal(parts, whole)


def test_the_std_of_a_generation_is_that_of_the_one_before_times_the_decay_down_to_the_floor() -> None:
    population = Normal(size=4, std=0.5, std_decay=0.5, std_min=0.1)
    assert [population.std_at(generation) for generation in (0, 1, 2, 3, 10**9)] == [0.5, 0.25, 0.125, 0.1, 0.1]
    assert Normal(size=4, std=0.5, std_min=0.1).std_at(7) == 0.5
    with pytest.raises(ees_mpi.ConfigError, match=r"std_min: expected at most population\.std = 0\.5"):
        ees_mpi.load_config("interference-maxvar", {"population.std_decay": 0.9, "population.std_min": 0.6})
    with pytest.raises(ees_mpi.ConfigError, match="learns its std"):
        ees_mpi.load_config("interference-maxvar", {"population.name": "diagonal", "population.std_decay": 0.9})


def test_mutations_of_a_run_have_the_std_of_its_generation_and_a_changed_one_is_found(tmp_path: Path) -> None:
    decay = ("population.std_decay=0.5", "population.std_min=0.1")
    sample = tmp_path / "sample.h5"
    run = train(tmp_path / "run.h5", "interference-maxvar", *decay)
    with ees_mpi.open_run(run) as opened:
        assert opened["mutation_std"][:].tolist() == [0.5, 0.25, 0.125, 0.1, 0.1, 0.1]
        step = [opened.individual(g, 0) - opened.individual(g, 1) for g in (0, 1)]
        noise = [opened._noise.row(opened["offset"][g, 0], 1) for g in (0, 1)]
        np.testing.assert_allclose(step, [1.0 * noise[0], 0.5 * noise[1]], rtol=1e-5)
    assert "the same bits" in done("verify", run).stdout
    assert "the same states" in done("verify", run, "--updates").stdout
    for options, std in ((("--generation", 1), 0.25), ((), 0.1), (("--std", 0.3), 0.3)):
        done("sample", run, "--count", 4, *options, "--out", sample, "--overwrite")
        with ees_mpi.open_run(sample) as drawn:
            assert drawn.config.population == Normal(4, std, antithetic=False, std_min=0.1)
    with ees_mpi.measure(f"{run}@2", count=2, out=tmp_path / "measured.h5") as measured:
        assert measured["std"][:].ravel().tolist() == [0.0625, 0.125, 0.25]
    with edited(run) as file:
        file["generations/mutation_std"][1] = 0.3
    for words in (("verify", run, "--generation", 1), ("verify", run, "--updates")):
        assert "generation 1" in refusal(*words)[1]
