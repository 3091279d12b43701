"""A command is described once: its options, its Python function and its checks come from the same annotations."""

import inspect
from pathlib import Path

import pytest
from support.program import done, refusal
from support.run_files import assert_same_bits

import ees_mpi
from ees_mpi.cli import running

FUNCTIONS = ("train", "sample", "adapt", "measure", "signal")
COMMAND_ONLY = {"as_json", "cell"}  # `cell` of `measure`: of the table that it prints
PYTHON_ONLY = {"on_generation"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_python_function_has_the_parameters_of_its_command(name: str) -> None:
    options = {str(option.name) for option in getattr(running, name).params} - COMMAND_ONLY
    arguments = set(inspect.signature(getattr(ees_mpi, name)).parameters)
    assert options <= arguments and arguments - options <= (PYTHON_ONLY if name == "train" else set())


def test_wrong_values_say_the_same(finished: Path) -> None:
    message = "count: expected a whole number of at least 2, got 1"
    assert refusal("sample", finished, "--count", "1") == (2, f"ees-mpi: --{message}")
    with pytest.raises(ees_mpi.ConfigError, match=f"^{message}"):
        ees_mpi.sample(finished, 1)


def test_a_negative_generation_counts_from_the_end_also_on_the_command_line(tmp_path: Path, copied: Path) -> None:
    for number, out in ((-2, tmp_path / "a.h5"), (4, tmp_path / "b.h5")):
        done("sample", copied, "--count", 4, "--generation", number, "--out", out)
    assert_same_bits(tmp_path / "a.h5", tmp_path / "b.h5")
    assert "generations 5:" in done("verify", copied, "--generation", -1).stdout
