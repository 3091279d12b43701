"""The check of the arguments of public functions: by their signature and their annotations. It imports no numpy."""

import inspect
import operator
import os
from collections.abc import Callable
from functools import wraps
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from ees_mpi.errors import ArgumentError, ConfigError
from ees_mpi.registry import unknown

P = ParamSpec("P")
T = TypeVar("T")


def is_single(value: Any) -> bool:
    """Return whether a value can be one number: no truth value, no class, and no array with axes."""
    return not isinstance(value, (bool, type, str, bytes)) and getattr(value, "ndim", 0) == 0


def whole_number(value: Any) -> int | None:
    """Return a single whole number of any library; None for other values, also for those that JAX traces."""
    try:
        return operator.index(value) if is_single(value) else None
    except (TypeError, ValueError, RuntimeError):  # arrays of numpy and JAX have `__index__` also if they hold floats
        return None


def _is_number(value: Any) -> bool:
    """Return whether a value can be one real number; arrays of numpy have `__float__` whatever they hold."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return is_single(value) and hasattr(value, "__float__") and kind not in tuple("bcOSU")


# What an annotation stands for: in words, and whether a value fits. Arguments with other annotations are not checked.
KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    NoneType: ("None", lambda value: value is None),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: whole_number(value) is not None),
    float: ("a number", _is_number),
    str: ("a text", lambda value: isinstance(value, str)),
    os.PathLike: ("the name of a file", lambda value: _is_name(value)),
}


def _is_name(value: Any) -> bool:
    name = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    return isinstance(name, str) and bool(name) and "\0" not in name


def bind(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> inspect.BoundArguments:
    """Return the arguments of a call by name; raise an ArgumentError if the function does not have them."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        known = [parameter for parameter in signature.parameters if parameter not in ("self", "cls")]
        wrong = next((f"{name}: {unknown(word, known)}" for word in kwargs if word not in known), "")
        raise ArgumentError(wrong or f"{name}: {error}; expected {name}({', '.join(known)})") from None


def expects(annotation: Any) -> tuple[str, Callable[[Any], bool]] | None:
    """Return what an annotation stands for, in words, and whether a value fits; None: anything may fit."""
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return " or ".join(map(repr, choices)), lambda value: isinstance(value, str) and value in choices
    if get_origin(annotation) in (Union, UnionType):
        kinds = [get_origin(part) or part for part in get_args(annotation)]
        parts = [expects(kind) for kind in kinds if kind is not str or os.PathLike not in kinds]
        known = [part for part in parts if part]
        if len(known) < len(parts):
            return None
        return " or ".join(word for word, _ in known), lambda value: any(fits(value) for _, fits in known)
    return KINDS.get(get_origin(annotation) or annotation)


def checks_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function raise a ConfigError for arguments that it does not have, or that do not fit their annotations."""
    signature, name = inspect.signature(function), function.__qualname__.removesuffix(".__init__")
    checks = {name: check for name, each in signature.parameters.items() if (check := expects(each.annotation))}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        given = bind(name, signature, args, kwargs).arguments
        for argument, (expected, fits) in checks.items():
            if argument in given and not fits(given[argument]):
                raise ConfigError(f"{argument}: expected {expected}, got {given[argument]!r:.80}")
        return function(*args, **kwargs)

    return call
