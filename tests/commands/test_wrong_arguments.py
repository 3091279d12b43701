"""A public function that gets a wrong argument raises an error of the package, which names the argument."""

import inspect
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ees_mpi
from ees_mpi.commands.arguments import DIRECTION
from ees_mpi.errors import ArgumentError

BEHAVIOR = np.eye(4)
# A call of every public function that takes arguments: those that work.
CALLS: dict[str, dict[str, Any]] = {
    "train": {"config": "interference-maxvar", "out": "new.h5"},
    "sample": {"run": "run.h5"},
    "adapt": {"run": "run.h5", "direction": "left"},
    "measure": {"policy": "run.h5"},
    "signal": {"run": "run.h5"},
    "load_config": {"source": "interference-maxvar"},
    "open_run": {"path": "run.h5"},
    "shelf": {"name": "gymnasium-ant-maxent"},
    "maxent_weights": {"behavior": BEHAVIOR},
    "maxvar_weights": {"behavior": BEHAVIOR},
    "Strategy": {"mean": np.ones(3), "config": {"noise": {"size": 5000}}},
    "Strategy.resume": {"path": "run.h5"},
}


def function(name: str) -> Callable[..., Any]:
    """Return a public function by its name."""
    first, _, method = name.partition(".")
    found: Callable[..., Any] = getattr(ees_mpi, first)
    return getattr(found, method) if method else found


def test_the_list_has_all_public_functions() -> None:
    functions = {name for name in ees_mpi.__all__ if callable(function(name))}
    errors = {name for name in functions if isinstance(function(name), type)} - {"Strategy"}
    assert {*CALLS} - {"Strategy.resume"} == functions - errors - {"presets"}


@pytest.mark.parametrize("name", CALLS)
def test_a_value_of_a_wrong_kind_is_an_error_of_the_package(name: str, inside: Path) -> None:
    for parameter in inspect.signature(function(name)).parameters:
        for wrong in (object(), [object()], 1j):
            with pytest.raises(ees_mpi.EesError):
                function(name)(**{**CALLS[name], parameter: wrong})
    first = next(iter(CALLS[name]))
    with pytest.raises(ArgumentError, match=rf"{name}: unknown name 'recrod'"):
        function(name)(**CALLS[name], recrod=5)
    with pytest.raises(TypeError, match=rf"{name}: too many positional .*; expected {name}\({first}"):
        function(name)(*range(40))
    assert list(inside.iterdir()) == []


def test_the_methods_of_a_strategy_and_of_a_run_refuse_values_of_a_wrong_kind(finished: Path) -> None:
    with ees_mpi.Strategy(**CALLS["Strategy"], size=4, std=0.1) as es, ees_mpi.open_run(finished) as run:
        es.ask()
        wrong: Any
        for wrong in (object(), [object()], 1j, "x", {1: 2}):
            for call in (es.ask, es.draw, es.gather, es.tell, es.close, lambda value: setattr(es, "state", value)):
                with pytest.raises(ees_mpi.EesError):
                    call(wrong)
            for each in ("fitness", "valid", "observations"):
                with pytest.raises(ees_mpi.EesError):
                    es.tell(BEHAVIOR, **{each: wrong})
            for read in (run.individual, run.draw, run.learned, run.machine, run.device, run.observation_sums):
                with pytest.raises(ees_mpi.EesError):
                    read(wrong)
            with pytest.raises(KeyError):
                run[wrong]
        es.tell(BEHAVIOR)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ees_mpi.Strategy(np.ones(3), record=5), "record: expected the name of a file or None, got 5"),
        (lambda: ees_mpi.Strategy.resume(3), "path: expected the name of a file, got 3"),
        (lambda: ees_mpi.Strategy(np.ones(3), "maxent", size="9"), "size: expected a whole number or None, got '9'"),
        (lambda: ees_mpi.open_run("a\0b"), "path: expected the name of a file, got 'a"),
        (lambda: ees_mpi.train("ant-es", "x.h5", max_hours=True), "max_hours: expected a positive number, got True"),
        (lambda: ees_mpi.sample(), "sample: missing a required argument: 'run'"),
        (lambda: ees_mpi.maxent_weights(BEHAVIOR, bandwidth=-1), 'number or "scott", got -1'),
        (lambda: ees_mpi.maxent_weights(BEHAVIOR, bandwidth="wide"), "or \"scott\", got 'wide'"),
        (lambda: ees_mpi.maxvar_weights(BEHAVIOR, normalization="rank"), "expected 'whiten' or 'ranks', got 'rank'"),
    ],
)
def test_the_error_says_what_was_expected_and_what_came(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ees_mpi.ConfigError, match=message):
        call()


def test_a_direction_keeps_its_digits() -> None:
    assert [DIRECTION.check("direction", angle) for angle in (45.0, 123.456789, "left")] == ["45", "123.456789", "left"]


class Foreign:
    """An array of another library, as JAX's: 32 bits, converted when asked, and `__index__` whatever it holds.

    traced: its numbers are not known yet, as under `jax.jit`
    """

    def __init__(self, values: Any, traced: bool = False):
        self.values, self.traced = np.asarray(values), traced
        self.shape, self.ndim, self.dtype = self.values.shape, self.values.ndim, self.values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self.traced:
            raise TypeError("the array is traced")
        return self.values.astype(dtype or self.dtype)

    def __index__(self) -> int:
        return operator.index(np.asarray(self))

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> "Foreign":
        return Foreign(self.values[index], self.traced)

    def tolist(self) -> Any:
        return np.asarray(self).tolist()

    def __le__(self, other: object) -> bool:
        raise OverflowError("the other number has more than 32 bits")

    __lt__ = __ge__ = __gt__ = __le__


def looped(array: Callable[[Any], Any]) -> bytes:
    """Return the digest after all kinds of `tell`, with arrays that a library has made."""
    mean = array(np.ones(3, np.float32))
    numbers = {"size": array(np.int32(8)), "std": array(np.float32(0.5)), "observation_dim": array(np.int32(2))}
    with ees_mpi.Strategy(mean, seed=array(np.int32(1)), config={"noise": {"size": 5000}}, **numbers) as es:
        seen = array(np.arange(64, dtype=np.float32).reshape(8, 4, 2))  # all are sampled
        es.tell([array(np.sin(z)) for z in es.ask(chunk=array(np.int32(3)))], observations=seen)
        z = es.ask()
        es.tell(array(np.sin(z)), array(z.sum(1)), valid=array(z[:, 0] < 2), observations=[seen[k] for k in range(8)])
        es.mean = array(es.mean)
        es.tell(weights=array(es.gather(array(es.ask()[:, 0]))), observations=seen)
        return es.state.digest()


def test_arrays_of_another_library_are_taken_where_those_of_numpy_are(inside: Path) -> None:
    assert looped(Foreign) == looped(np.asarray)
    size = Foreign(np.int32(4))
    small = {"population.size": size, "noise.size": 5000, "population.std": Foreign(np.float32(0.5))}
    ees_mpi.train("interference-maxvar", "run.h5", settings=small, generations=Foreign(np.int32(2)), seed=size).close()
    with ees_mpi.sample("run.h5", count=size, generation=Foreign(np.int32(1))) as run:
        assert run["behavior"].shape[1] == 4


def test_an_array_that_is_no_whole_number_is_refused_in_its_place() -> None:
    wrong = [make(value) for make in (np.asarray, Foreign) for value in (4.5, [4], True, 1j)]
    with ees_mpi.Strategy(**CALLS["Strategy"]) as es:
        for value in (*wrong, Foreign(4, traced=True)):
            with pytest.raises(ees_mpi.ConfigError, match=r"chunk: expected a whole number or None, got "):
                es.ask(chunk=value)
            with pytest.raises(ees_mpi.ConfigError, match=r"count: expected a whole number of at least 2, got "):
                ees_mpi.sample("run.h5", count=value)
            with pytest.raises(ees_mpi.ConfigError, match=r"size: expected a whole number or None, got "):
                ees_mpi.Strategy(np.ones(3), size=value)


def test_a_bandwidth_of_any_library_must_be_positive() -> None:
    for wrong in (np.float32(-1), Foreign(0.0), np.complex64(1)):
        with pytest.raises(ees_mpi.ConfigError, match=r"bandwidth: expected a (positive )?number or .*, got "):
            ees_mpi.maxent_weights(BEHAVIOR, bandwidth=wrong)


def test_numbers_that_are_not_known_yet_are_refused_by_tell() -> None:
    with ees_mpi.Strategy(**CALLS["Strategy"], size=4, std=0.1) as es:
        es.ask()
        traced: Any = Foreign(BEHAVIOR, traced=True)
        for given in ({"behavior": traced}, {"behavior": BEHAVIOR, "fitness": traced}, {"weights": traced}):
            with pytest.raises(ees_mpi.TaskError, match=r"tell: expected arrays of numbers.*: the array is traced"):
                es.tell(**given)
