"""`ees-mpi config`: the whole config of a preset, a config file or a run file."""

import tomllib
from pathlib import Path

import pytest
from support.program import TINY, done

from ees_mpi import config, open_run

pytestmark = pytest.mark.usefixtures("inside")


def test_a_preset_is_printed_with_all_defaults_as_toml_that_loads_again() -> None:
    text = done("config", "interference-maxent").stdout
    assert config.parse(text).sections() == config.load("interference-maxent").sections()
    assert tomllib.loads(text)["run"]["stall_minutes"] == 30.0  # not in the preset's own text
    assert "stall_minutes" not in config.read_source("interference-maxent")


def test_a_run_file_is_printed_with_the_config_that_it_was_made_with(finished: Path) -> None:
    with open_run(finished) as run:
        assert tomllib.loads(done("config", finished).stdout) == run.config.sections()
    tables = tomllib.loads(done("config", finished, "--set", "population.size=4").stdout)
    assert tables["population"]["size"] == 4 and tables["noise"]["size"] == int(TINY[2].partition("=")[2])


@pytest.mark.parametrize(
    "task",
    [
        'name = "gymnasium"\nenv = "own_code:E-v0"',
        'name = "function"\nfunction = "own_code:f"\nparameters = 2\nbehavior_dim = 1',
    ],
)
def test_no_environment_is_opened_for_a_config(task: str, tmp_path: Path) -> None:
    (tmp_path / "own_code.py").write_text("open('imported', 'w').close()")
    rest = '[population]\nname = "normal"\nsize = 8\nstd = 0.1\n[objective]\nname = "maxvar"\n'
    (tmp_path / "own.toml").write_text(f"[task]\n{task}\n{rest}")
    said = done("config", "own.toml")
    assert "own_code:" in said.stdout and said.stderr == "" and not Path("imported").exists()
