"""The typed config: its sections and keys, how a file is read and changed, and the names of the runs of a sweep.

A config is TOML: a preset or a file. Sections `task` and `population` name a member of their family and hold its keys;
`run` and `noise` are those of `settings`. The other sections belong to the method: `objective` and `optimizer` for
evolution strategies (`method = "ees"`, the default).
"""

from ees_mpi.config.evolution import Evolution
from ees_mpi.config.methods import METHODS
from ees_mpi.config.parsing import (
    OBSERVED,
    Config,
    changed_keys,
    check,
    enough,
    is_set,
    load,
    parse,
    preset_names,
    read_source,
    resolved,
    wants_portable,
    with_base,
)
from ees_mpi.config.settings import FREE_ON_RESUME, INERT, LARGEST, NoiseSettings, RunSettings

__all__ = [
    "FREE_ON_RESUME",
    "INERT",
    "LARGEST",
    "METHODS",
    "OBSERVED",
    "Config",
    "Evolution",
    "NoiseSettings",
    "RunSettings",
    "changed_keys",
    "check",
    "enough",
    "is_set",
    "load",
    "parse",
    "preset_names",
    "read_source",
    "resolved",
    "wants_portable",
    "with_base",
]
