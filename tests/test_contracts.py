"""Every registered part has everything that its contract asks for: a Protocol, or a base class with defaults."""

import inspect
from collections.abc import Iterable
from typing import Any

import pytest

from ees_mpi import contracts
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.populations import POPULATIONS
from ees_mpi.tasks import TASKS


def members(protocol: type) -> set[str]:
    """Return the names of everything that a Protocol declares, including inherited ones."""
    declared: set[str] = set()
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False) and base.__module__.startswith(contracts.__name__):
            declared |= {name for name in vars(base) if not name.startswith("_")} | set(
                vars(base).get("__annotations__", {})
            )
    return declared


@pytest.mark.parametrize(
    ("parts", "base", "needed"),
    [
        (TASKS.values(), contracts.Task, members(contracts.OwnTask)),
        (OBJECTIVES.values(), contracts.Objective, {"weights", "value"}),
        (
            [part for part in POPULATIONS.values() if part.has_individuals],
            contracts.Population,
            members(contracts.OwnPopulation),
        ),
        ([part for part in POPULATIONS.values() if not part.has_individuals], contracts.Rows, {"offspring"}),
    ],
)
def test_a_part_defines_what_has_no_default_and_keeps_all_arguments(
    parts: Iterable[Any], base: type, needed: set[str]
) -> None:
    assert needed == {name for name, given in vars(base).items() if "NotImplementedError" in code_names(given)}
    assert OBJECTIVES["custom"].value is not contracts.Objective.value  # it has a label
    for part in parts:
        lacking = [name for name in needed if getattr(part, name) is getattr(base, name)]
        assert issubclass(part, base) and lacking in ([], ["value"]), part
        methods = [name for name, given in vars(base).items() if inspect.isfunction(given) and name[0] != "_"]
        for name in methods:
            asked, given = (list(inspect.signature(getattr(kind, name)).parameters) for kind in (base, part))
            assert asked == given[: len(asked)], (part, name)


def code_names(given: Any) -> tuple[str, ...]:
    function = given.fget if isinstance(given, property) else given
    return function.__code__.co_names if inspect.isfunction(function) else ()
