"""Keys that are gone: ignored in files of earlier versions, an error in a config of the user."""

import gzip
from pathlib import Path

import pytest
from support.program import TESTS, info
from support.run_files import edited

from ees_mpi import config, open_run
from ees_mpi.errors import ConfigError

TEXT = config.read_source("interference-maxvar")


def test_a_stored_config_is_read_without_the_key_and_that_of_a_user_is_refused() -> None:
    old = TEXT.replace("[run]", "[run]\nportable = true")
    assert old != TEXT and config.parse(old, stored=True) == config.parse(TEXT)
    with pytest.raises(ConfigError, match=r"run\.portable = True: it is gone: leave it out"):
        config.load(config.parse(TEXT).sections() | {"run": {"portable": True}})
    with pytest.raises(ConfigError, match=r"run\.portable"):
        config.parse(old, ["run.portable=false"], stored=True)  # the user's own setting


def test_a_run_file_with_the_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.write_bytes(gzip.decompress((TESTS / "data" / "format4" / "interference.h5.gz").read_bytes()))
    with edited(path) as file:
        file.attrs["config"] = file.attrs["config"].decode().replace("[run]", "[run]\nportable = false", 1)
    with open_run(path) as run:
        assert "portable" in str(run.attributes["config"]) and "portable" not in run.config.to_toml()
    assert info(path)["complete"]
