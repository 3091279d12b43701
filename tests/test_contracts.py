"""Every registered part has everything that its contract asks for: a Protocol, or a base class with defaults."""

import inspect
from collections.abc import Iterable
from typing import Any

import pytest

from ees_mpi import config, contracts
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.optimizers import OPTIMIZERS
from ees_mpi.populations import POPULATIONS
from ees_mpi.registry import Family
from ees_mpi.tasks import TASKS

METHODS = config.METHODS
FAMILIES = (
    (TASKS, contracts.OwnTask),
    (POPULATIONS, contracts.OwnPopulation),
    (OPTIMIZERS, contracts.Optimizer),
)
PARTS = [
    pytest.param(family, name, protocol, id=f"{family.kind} {name}") for family, protocol in FAMILIES for name in family
]


def members(protocol: type) -> set[str]:
    """Return the names of everything that a Protocol declares, including inherited ones."""
    declared: set[str] = set()
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False) and base.__module__.startswith(contracts.__name__):
            declared |= {name for name in vars(base) if not name.startswith("_")} | set(
                vars(base).get("__annotations__", {})
            )
    return declared


def missing(member: type, protocol: type) -> list[str]:
    """Return what a class lacks; fields of a struct count as attributes."""
    fields = getattr(member, "__struct_fields__", ()) + tuple(getattr(member, "__dataclass_fields__", ()))
    return sorted(name for name in members(protocol) if not hasattr(member, name) and name not in fields)


def unlike(member: type, protocol: type) -> list[str]:
    """Return the methods that take other arguments than those of the Protocol."""
    found = []
    for name in members(protocol):
        asked, given = inspect.getattr_static(protocol, name, None), getattr(member, name, None)
        if inspect.isfunction(asked) and inspect.isfunction(given):
            names = [list(inspect.signature(each).parameters) for each in (asked, given)]
            if names[0] != names[1][: len(names[0])]:
                found.append(f"{name}: expected {names[0]}, got {names[1]}")
    return found


@pytest.mark.parametrize(("family", "name", "protocol"), PARTS)
def test_every_registered_part_satisfies_its_protocol(family: Family, name: str, protocol: type) -> None:
    if not getattr(family[name], "has_individuals", True):
        protocol = object  # the rows of another method
    assert missing(family[name], protocol) == []
    assert unlike(family[name], protocol) == []


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


@pytest.mark.parametrize("name", METHODS)
def test_every_method_satisfies_its_protocol(name: str) -> None:
    assert METHODS[name].name == name and missing(METHODS[name], contracts.Method) == []
