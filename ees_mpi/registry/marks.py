"""Consent: code that a file of ees_mpi names runs only if the user says so for this call.

A run file or an exported policy may be a stranger's. Unless the user trusts it, all texts of its config are marked when
`config.parse` reads it, and whatever would run the code that a marked text names calls `require` first. What the user
writes has no marks.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ees_mpi.errors import TrustError

VARIABLE = "EES_MPI_TRUST"  # of the environment; 1: as --trust


class FromFile(str):
    """A text that came from a file which the user has not said to trust."""


def trusted(trust: bool) -> bool:
    """Return whether the user trusts a file; `trust`: the option, whose texts, such as "no", are no consent."""
    return trust is True or os.environ.get(VARIABLE) == "1"


def require(value: Any, key: str) -> None:
    """Raise a TrustError if a text came from a file that is not trusted."""
    if isinstance(value, FromFile):
        raise refusal({key: value})


def refusal(code: Mapping[str, str]) -> TrustError:
    """Return the error that a file would run code; `code`: its names, by key."""
    # The file may have named the key, so it is escaped: a message is one line.
    named = ", ".join(f"{repr(key)[1:-1]:.200} = {str(text)!r:.80}" for key, text in code.items())
    return TrustError(
        f"the file would run or load {named}. If you trust it, use --trust (in Python: trust=True), or set {VARIABLE}=1"
    )


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of nested tables and lists with all texts changed."""
    if isinstance(value, Mapping):
        return {key: mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, change) for item in value)
    return change(value) if isinstance(value, str) else value


def builtins(part: Any) -> Any:
    """Return what msgspec makes of a struct, with the marks of its texts."""
    return msgspec.to_builtins(part, builtin_types=(FromFile,))
