"""The page on the file's layout, for readers elsewhere, tells the truth: checked without the package's own reader."""

import hashlib
import re
import tomllib
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import CHECKOUT

from ees_mpi import open_run
from ees_mpi.config import METHODS
from ees_mpi.store import layout

PAGE = (CHECKOUT / "ees_mpi" / "docs" / "format.md").read_text(encoding="utf-8")
NAMES = set(re.findall(r"`([a-z_0-9]+)`", PAGE))
BLOCK = 2**18
ARRAYS = {*layout.GENERATIONS, *(name for method in METHODS.values() for name in method.fields)}


def test_every_dataset_attribute_and_group_is_on_the_page(cheetah: Path) -> None:
    assert ARRAYS | set(layout.SESSIONS) <= NAMES
    with h5py.File(cheetah) as file:
        assert set(file.attrs) <= NAMES and set(file) <= NAMES
        assert set(file["final"]) - {"moments", "memory"} <= NAMES and set(file["final/moments"]) <= NAMES


def test_types_and_axes_are_those_of_the_page(cheetah: Path) -> None:
    listed = re.findall(r"`(\w+)` \(([fiuS]\d+)(?:;\s+([\w,\s]+))?\)", PAGE)
    told = {name: (kind, re.findall(r"\w+", axes)) for name, kind, axes in listed}
    assert len(listed) == len(told)
    assert set(told) == ARRAYS
    with h5py.File(cheetah) as file:
        for name, (kind, axes) in told.items():
            if name in file["generations"]:
                dataset = file["generations"][name]
                assert dataset.dtype.str.lstrip("<|") == kind, name
                found = [dimension.keys()[0] for dimension in dataset.dims]
                assert found == ["generation", *axes], name


@pytest.mark.parametrize("robot", ["species", "finished"])
def test_an_individual_is_rebuilt_from_the_page_alone(robot: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(robot)
    with h5py.File(path) as file:
        group, seed, size = file["generations"], file.attrs["noise_seed"], file.attrs["noise_size"]
        std = np.float32(tomllib.loads(file.attrs["config"].decode())["population"]["std"])
        blocks = []
        for number in range(-(-size // BLOCK)):
            digest = hashlib.blake2b(f"{seed}/noise/{number}".encode(), digest_size=16).digest()
            generator = np.random.Generator(np.random.Philox(key=np.frombuffer(digest, "<u8")))
            blocks.append(generator.standard_normal(BLOCK, dtype=np.float32))
        noise = np.concatenate(blocks)[:size]
        generation, index = 2, 3
        start, parent = group["offset"][generation, index], group["parent"][generation, index]
        mean = group["mean"][generation, parent]
        perturbation = noise[start : start + len(mean)] * std
        if group["sign"][generation, index] < 0:
            perturbation = -perturbation
        rebuilt = perturbation + mean
    with open_run(path) as run:
        assert rebuilt.tobytes() == run.individual(generation, index).tobytes()


def test_the_digests_are_computed_from_the_page_alone(cheetah: Path) -> None:
    def digest(arrays: dict[str, np.ndarray]) -> bytes:
        data = [f"{name} {each.dtype.str} {each.shape}\n".encode() + each.tobytes() for name, each in arrays.items()]
        return hashlib.sha256(b"".join(data)).hexdigest().encode()

    with h5py.File(cheetah) as file:
        final = file["final"]
        names = ["generation", "mean", *(f"moments/{name}" for name in sorted(final["moments"])), "observations"]
        assert digest({name: final[name][()] for name in names}) == file["generations/state_sha256"][-1]
        values = {name: np.asarray(value) for name, value in sorted(file.attrs.items())}
        values.pop("attributes_sha256")
        assert digest(values) == file.attrs["attributes_sha256"]


def test_new_files_have_no_text_of_variable_length(cheetah: Path) -> None:
    found: list[str] = []

    def note(name: str, item: h5py.HLObject) -> None:
        types = {f"{name}@{each}": item.attrs.get_id(each).dtype for each in item.attrs}
        if isinstance(item, h5py.Dataset):
            types[name] = item.dtype
        texts = {each: h5py.check_string_dtype(kind) for each, kind in types.items()}
        found.extend(each for each, kind in texts.items() if kind and kind.length is None)

    with h5py.File(cheetah) as file:
        note("/", file)
        file.visititems(note)
    assert found == []
