"""The Protocols for plugins declare what a class needs: everything that has no default in the base of our own parts."""

import inspect
from typing import Any

import pytest

from ees_mpi.strategy.populations.base import Population, PopulationPlugin
from ees_mpi.tasks.base import Task, TaskPlugin


def code_names(given: Any) -> tuple[str, ...]:
    function = given.fget if isinstance(given, property) else given
    return function.__code__.co_names if inspect.isfunction(function) else ()


@pytest.mark.parametrize(("protocol", "base"), [(TaskPlugin, Task), (PopulationPlugin, Population)])
def test_a_protocol_declares_what_has_no_default(protocol: type, base: type) -> None:
    kinds = [kind for kind in protocol.__mro__ if kind.__module__.startswith("ees_mpi.")]
    declared = {name for kind in kinds for name in {*vars(kind), *vars(kind).get("__annotations__", {})}}
    needed = {name for name, given in vars(base).items() if "NotImplementedError" in code_names(given)}
    assert {name for name in declared if name[0] != "_"} == needed != set()
