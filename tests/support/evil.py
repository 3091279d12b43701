"""A pickle that runs code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any


class Evil:
    """A pickle of this object creates a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.mark), "w")
