"""The methods of learning, by name: `ees`, and every folder of the package that has a module `method`.

Nothing else names such a folder: its module registers its own parts when it is imported, and holds the class `METHOD`.
"""

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from ees_mpi.config.evolution import Evolution
from ees_mpi.contracts.methods import Method
from ees_mpi.errors import ConfigError
from ees_mpi.registry import unknown


class _Methods(Mapping[str, type[Method]]):
    """Name of a method -> its class, imported at first use."""

    def __getitem__(self, name: str) -> type[Method]:
        if name == Evolution.name:
            return Evolution
        if not isinstance(name, str) or name not in _folders():
            raise ConfigError(f"method: {unknown(str(name), [*self])}")
        method: type[Method] = importlib.import_module(f"ees_mpi.{name}.method").METHOD
        return method

    def __iter__(self) -> Iterator[str]:
        return iter((Evolution.name, *_folders()))

    def __len__(self) -> int:
        return 1 + len(_folders())


@cache
def _folders() -> tuple[str, ...]:
    folders = resources.files("ees_mpi").iterdir()
    return tuple(sorted(folder.name for folder in folders if (folder / "method.py").is_file()))


METHODS = _Methods()
