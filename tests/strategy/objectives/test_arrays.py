"""The weights as functions of arrays: those of the program, from numpy, torch and JAX, without an N x N array."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ees_mpi
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives import arrays
from ees_mpi.strategy.objectives.maxent import MaxEnt
from ees_mpi.strategy.objectives.maxvar import MaxVar

KINDS = {
    "maxent": (ees_mpi.maxent_weights, MaxEnt(), {}),
    "maxent-wide": (ees_mpi.maxent_weights, MaxEnt(bandwidth=1.0), {"bandwidth": 1.0}),
    "maxent-ranks": (ees_mpi.maxent_weights, MaxEnt(normalization="ranks"), {"normalization": "ranks"}),
    "maxvar": (ees_mpi.maxvar_weights, MaxVar(), {}),
    "maxvar-ranks": (ees_mpi.maxvar_weights, MaxVar(normalization="ranks"), {"normalization": "ranks"}),
}


def behaviors() -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return behaviours [100, 3] with equal ones, a constant component and one that is not finite; and valid rows."""
    random = np.random.default_rng(0)
    b = np.stack([random.normal(3.0, 2.0, 100), random.integers(0, 5, 100), np.full(100, 7.7)], axis=1)
    valid = random.random(100) > 0.1
    b[~valid] *= 100
    b[4, 0] = np.nan
    return b, valid


def of_the_program(kind: str) -> NDArray[Any]:
    b, valid = behaviors()
    outcomes = Outcomes(b, np.zeros(100), np.ones(100, np.int64), valid & np.isfinite(b).all(axis=1), np.zeros((0, 1)))
    return KINDS[kind][1].weights(outcomes, {}, Ranks())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["numpy", "torch", "jax", "array_api_strict"])
def test_weights_are_those_of_the_program_and_of_the_kind_of_their_argument(
    library: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    xp = pytest.importorskip("jax.numpy" if library == "jax" else library)
    if library == "torch":
        pytest.importorskip("array_api_compat")
    monkeypatch.setattr(arrays, "BLOCK", 1)
    b, valid = behaviors()
    weigh, _, settings = KINDS[kind]
    for dtype, digits in {"float32": 1e-3, **({} if library == "jax" else {"float64": 1e-5})}.items():
        given = xp.asarray(b, dtype=getattr(xp, dtype))
        weights = weigh(given, xp.asarray(valid), **settings)
        assert type(weights) is type(given) and weights.dtype == given.dtype
        close = {"rtol": digits, "atol": digits * np.abs(of_the_program(kind)).max()}
        np.testing.assert_allclose(np.asarray(weights), of_the_program(kind), **close)


@pytest.mark.parametrize("kind", KINDS)
def test_the_functions_can_be_jitted(kind: str) -> None:
    jax = pytest.importorskip("jax")
    b, valid = behaviors()
    weigh, _, settings = KINDS[kind]
    weights = jax.jit(lambda b, valid: weigh(b, valid, **settings))(b, valid)
    close = {"rtol": 1e-3, "atol": 1e-3 * np.abs(of_the_program(kind)).max()}
    np.testing.assert_allclose(np.asarray(weights), of_the_program(kind), **close)


@pytest.mark.parametrize("normalization", ["whiten", "ranks"])
def test_a_jitted_function_holds_one_block_at_a_time(normalization: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(arrays, "BLOCK", 1)
    jitted = jax.jit(lambda b: ees_mpi.maxent_weights(b, normalization=normalization))
    compiled = jitted.lower(np.ones((4000, 2), np.float32)).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 4000 * 4000 * 4 / 4


@pytest.mark.parametrize("weigh", [ees_mpi.maxent_weights, ees_mpi.maxvar_weights])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_behaviours_and_no_valid_ones_have_weight_0(weigh: Any, dtype: Any) -> None:
    assert not weigh(np.full((50, 2), 0.1, dtype)).any()
    assert not weigh(np.ones((50, 2), dtype), np.zeros(50, np.bool_)).any()
    with pytest.raises(ees_mpi.ConfigError, match=r"expected an array \[N, B\] of floats, got one of shape \(50,\)"):
        weigh(np.ones(50, dtype))
    with pytest.raises(ees_mpi.ConfigError, match=r"of floats, got one of shape .* int64"):
        weigh(np.ones((50, 2), np.int64))
    with pytest.raises(ees_mpi.ConfigError, match="normalization: expected 'whiten' or 'ranks', got 'rank'"):
        weigh(np.ones((50, 2), dtype), normalization="rank")


@pytest.mark.parametrize("normalization", ["whiten", "ranks"])
def test_there_is_no_array_of_n_times_n(normalization: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BLOCK", 1)
    b = np.random.default_rng(0).normal(size=(2000, 1))
    tracemalloc.start()
    ees_mpi.maxent_weights(b, normalization=normalization)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 64 * 2000 * 8 < peak < 2000 * 2000 * 8 / 4
