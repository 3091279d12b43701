"""The page on the file's layout, for readers elsewhere, tells the truth, and its code runs."""

import contextlib
import hashlib
import json
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.program import CHECKOUT
from support.small_runs import walk

from ees_mpi import open_run
from ees_mpi.run.arrays import listed

PAGE = (CHECKOUT / "ees_mpi" / "docs" / "format.md").read_text(encoding="utf-8")
LISTED = listed()
KINDS = {"text": bytes, "JSON": bytes, "integer": int, "number": float}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_list_of_arrays_is_that_of_the_package() -> None:
    made = runpy.run_path(str(CHECKOUT / "tools" / "format_page.py"))
    assert made["page"]() == PAGE, "python tools/format_page.py"
    axes = section("Arrays of a generation").partition("The axes are:")[2]
    expected = {axis for array in LISTED.values() for axis in array.axes} | {"array"}
    assert set(re.findall(r"^- `(\w+)`", axes, re.MULTILINE)) == expected


@pytest.mark.parametrize(
    ("title", "group"), [("Attributes of the file", "/"), ("The last state", "final"), ("Who wrote it", "sessions/0")]
)
def test_every_attribute_is_on_the_page_with_its_type(title: str, group: str, cheetah: Path) -> None:
    told = dict(re.findall(r"`(\w+)` \((\w+)\)", section(title)))
    with h5py.File(cheetah) as file:
        found = {name: value.item() for name, value in file[group].attrs.items()}
        items = {name for name in file["final"] if name not in ("moments", "memory")}
    for name, value in found.items():
        assert isinstance(value, KINDS[told[name]]), name
        assert told[name] != "JSON" or json.loads(value or b"{}") is not None
    assert told.keys() - found.keys() <= items
    assert group != "final" or items <= set(re.findall(r"`(\w+)`", section(title)))


@pytest.fixture(scope="module")
def snippets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the code of the page defines, beside a killed run, whose path is added."""
    path = walk(tmp_path_factory.mktemp("page") / "run.h5", "interference-maxent", stops=(2, 3), closed=False)
    found: dict[str, Any] = {}
    with contextlib.chdir(path.parent):
        for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
            exec(code, found)
    return {**found, "path": path}


def test_the_code_of_the_page_reads_a_file_and_its_journal(snippets: dict[str, Any]) -> None:
    with open_run(snippets["path"]) as run:
        assert run.generations == 3 and run.folded == 2
        assert snippets["last"].tobytes() == run["behavior"][1].tobytes()
        assert snippets["curves"].tolist() == [run["entropy"][:2].tolist()]
        assert snippets["sound"]
        (newest,) = snippets["newest"]
        assert {name: newest[name].tobytes() for name in run} == {name: run[name][2].tobytes() for name in run}


def test_an_individual_is_rebuilt_from_the_page_alone(species: Path, snippets: dict[str, Any]) -> None:
    generation, index = 2, 3
    with h5py.File(species) as file:
        std = np.float32(tomllib.loads(file.attrs["config"].decode())["population"]["std"])
        offset, sign, parent = (file[f"generations/{name}"][generation, index] for name in ("offset", "sign", "parent"))
        mean = file["generations/mean"][generation, parent]
        noise = snippets["noise_table"](file.attrs["noise_seed"], file.attrs["noise_size"])
    perturbation = noise[offset : offset + len(mean)] * std
    rebuilt = (-perturbation if sign < 0 else perturbation) + mean
    with open_run(species) as run:
        assert rebuilt.tobytes() == run.individual(generation, index).tobytes()


def test_the_digest_of_the_state_is_computed_from_the_page_alone(cheetah: Path) -> None:
    with h5py.File(cheetah) as file:
        digest = hashlib.sha256()
        for name, kind, shape, _ in json.loads(file["final"].attrs["arrays"]):
            digest.update(f"{name} {kind} {tuple(shape)}\n".encode() + file["final"][name][()].tobytes())
        assert digest.hexdigest().encode() == file["generations/state_sha256"][-1]
