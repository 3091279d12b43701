"""A command is described once: its options, its Python function and its checks come from the same annotations."""

import inspect
import os
import sys
from pathlib import Path

import pytest
from support.program import done, refusal
from support.run_files import assert_same_bits

import ees_mpi
from ees_mpi.cli.main import cli
from ees_mpi.cli.options import echo

FUNCTIONS = ("train", "sample", "adapt", "measure", "signal")
COMMAND_ONLY = {"as_json", "cell"}  # `cell` of `measure`: of the table that it prints
PYTHON_ONLY = {"on_generation"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_python_function_has_the_parameters_of_its_command(name: str) -> None:
    options = {str(option.name) for option in cli.commands[name].params} - COMMAND_ONLY
    arguments = set(inspect.signature(getattr(ees_mpi, name)).parameters)
    assert options <= arguments and arguments - options <= (PYTHON_ONLY if name == "train" else set())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_docstring_of_a_function_explains_every_argument_in_the_words_of_the_command(name: str) -> None:
    text = " ".join(inspect.getdoc(getattr(ees_mpi, name)).split())  # type: ignore[union-attr]
    for option in cli.commands[name].params:
        said = (getattr(option, "help", None) or "").partition("  [")[0]
        assert option.name in COMMAND_ONLY or (f"{option.name}: " in text and said in text)


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


def test_the_help_fits_on_a_screen_with_one_line_for_each_command() -> None:
    lines = done("--help").stdout.splitlines()
    assert len(lines) <= 50 and max(map(len, lines)) <= 80
    for name, command in cli.commands.items():
        assert any(line.split(maxsplit=1) == [name, command.get_short_help_str(200)] for line in lines), name


def test_a_command_goes_on_after_the_end_of_head(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        for _ in range(2):
            echo("a line of a table, before the figures are drawn")
