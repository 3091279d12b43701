"""The fingerprint of a machine."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from support.program import done
from support.run_files import edited, note_machine

from ees_mpi import machine
from ees_mpi.version import __version__

ALONE = """
import json, sys
from ees_mpi import machine
machine.pin_threads()
print(json.dumps(machine.fingerprint()))
assert not {"scipy", "torch"} & set(sys.modules)
"""


def test_the_fingerprint_does_not_depend_on_the_libraries_that_happen_to_be_loaded() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("scipy.linalg")
    assert (torch.ones(2) @ torch.ones(2)).item() == 2.0
    alone = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert alone.returncode == 0, alone.stderr
    machine._pools.cache_clear()
    assert machine.differences(json.loads(alone.stdout), machine.fingerprint()) == []


def test_versions_are_those_of_the_metadata() -> None:
    found = {each.name: each.version for each in metadata.distributions() if each.files}
    assert found and {name: machine.version(name) for name in found} == found
    assert machine.version("no-such-package") == "none"


def test_differences_name_the_keys_on_which_bits_depend_and_no_others() -> None:
    mine = machine.fingerprint()
    other = {**mine, "blas": "another BLAS", "h5py": "0", "cpu": "another CPU"}
    (difference,) = machine.differences(mine, other)
    assert "blas is" in difference and "'another BLAS' there" in difference
    # A key that only one machine has is no difference.
    cpu, first, second = {}, {"gpu": "A", "gpu_kernels": "1"}, {"gpu": "A", "gpu_kernels": "2"}
    assert machine.differences(second, first) == ["gpu_kernels is '2' here and '1' there"]
    assert [machine.differences(*pair) for pair in ((second, cpu), (cpu, first), (second, second))] == [[]] * 3


def test_only_files_of_the_user_that_both_sides_have_are_compared() -> None:
    """A command imports only the modules that it needs."""
    logged = {"own_code objective": "2", "own_code task": "1"}
    assert machine.differences({"own_code task": "1"}, logged) == machine.differences({}, logged) == []
    assert machine.differences({"own_code task": "3"}, logged) == ["own_code task is '3' here and '1' there"]
    assert machine.code_change({"task": "1"}, machine.own_code(logged), "then") == ""
    said = machine.code_change({"task": "3", "objective": "3", "other": "3"}, machine.own_code(logged), "then")
    assert said == "your code has changed since then: task (1, now 3), objective (2, now 3)"


def test_the_commit_is_what_git_says_of_the_checkout_and_else_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "ees_mpi" / "machine.py"))
    asked = machine.commit.__wrapped__
    assert asked() == __version__  # installed
    subprocess.run([*git, "init", "-q"], check=True)
    assert asked() == __version__  # without a commit
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    assert re.fullmatch("[0-9a-f]{40}", asked())
    monkeypatch.setenv("PATH", str(tmp_path))  # without git
    assert asked() == __version__


@pytest.mark.parametrize("changed", ["blas", "commit"])
def test_a_resume_on_another_machine_or_with_another_commit_is_told_in_one_line(copied: Path, changed: str) -> None:
    here = {**machine.fingerprint(), "commit": machine.commit()}
    with edited(copied) as file:
        note_machine(file, **{**here, changed: "another"})
    said = done("resume", copied, "--generations", "7").stdout
    (line,) = [line for line in said.splitlines() if "warning" in line]
    assert "something has changed since the last session" in line
    assert f"{changed} is {here[changed]!r} here and 'another' there" in line
