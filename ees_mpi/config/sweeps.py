"""The runs of `ees-mpi sweep`, and the default name of a run file.

`population.std=0.01,0.02` has two values. What stands in brackets, braces or quotes is one value:
`task.hidden=[4,4],[8,8]` has two, too. The name of a file has the values that differ between the runs, and the seed:
cheetah-maxent-std-0.01-seed3.h5.
"""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from ees_mpi.config import check, load
from ees_mpi.errors import ConfigError
from ees_mpi.registry.toml import key_of, value_of

VALUE = re.compile(r"""(?:\[[^]]*\]|\{[^}]*\}|"[^"]*"|'[^']*'|[^,])+""")


def file_name(source: str, seed: int, words: Sequence[str] = ()) -> str:
    """Return the name of the run file of a preset or a config file, perhaps with words that tell it from others."""
    return f"{'-'.join([Path(source).stem, *words])}-seed{seed}.h5"


def values(setting: str) -> list[str]:
    """Return the settings that a setting stands for: one for each of its values."""
    key, _, text = setting.partition("=")
    if not isinstance(value_of(text), str):  # a number, or a list or table as a whole
        return [setting]
    return [f"{key}={value.strip()}" for value in VALUE.findall(text)] or [setting]


def word(setting: str) -> str:
    """Return a value with its key, in letters that every file system takes: std-0.01, objective-maxvar."""
    key, _, value = setting.partition("=")
    short = key.removesuffix(".name").rpartition(".")[2]
    plain = re.sub(r"[^\w.+-]+", "_", value).strip("_")
    return f"{short}-{plain}"


def runs(source: str, settings: Sequence[str], seeds: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Return the settings of each run by the name of its file; the last setting changes fastest, then the seed.

    Raises a ConfigError if a config is wrong, a key is set twice, or two runs would have the same name.
    """
    choices = [values(setting) for setting in settings]
    choices += [[f"run.seed={seed}" for seed in seeds]] if seeds else []
    keys = [key_of(every[0]) for every in choices]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"{key} is set twice (--seeds sets run.seed); expected one option with all of its values")
    found: dict[str, tuple[str, ...]] = {}
    for chosen in itertools.product(*choices):
        config = load(source, chosen)
        check(config, here=False)
        differing = [each for each, all_values in zip(chosen, choices, strict=True) if len(all_values) > 1]
        words = [word(each) for each in differing if not each.startswith("run.seed=")]
        file = file_name(source, config.run.seed, words)
        if file in found:
            one, other = " ".join(found[file]), " ".join(chosen)
            raise ConfigError(f"two runs of the sweep would be the same file {file}: {one:.200}; {other:.200}")
        found[file] = chosen
    return found
