"""A public function that gets a wrong argument raises an error of the package, which names the argument."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ees_mpi
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
        (lambda: ees_mpi.train("ant-es", "x.h5", parameters=3), "parameters: .*expected task="),
        (lambda: ees_mpi.train("ant-es", "x.h5", max_hours=True), "max_hours: expected a positive number, got True"),
        (lambda: ees_mpi.sample(), "sample: missing a required argument: 'run'"),
        (lambda: ees_mpi.maxent_weights(BEHAVIOR, bandwidth=-1), "bandwidth: expected a positive number, got -1"),
        (lambda: ees_mpi.maxvar_weights(BEHAVIOR, normalization="rank"), "expected 'whiten' or 'ranks', got 'rank'"),
    ],
)
def test_the_error_says_what_was_expected_and_what_came(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ees_mpi.ConfigError, match=message):
        call()
