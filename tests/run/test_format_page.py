"""The page on the file's layout, for readers elsewhere, tells the truth: checked without the package's own reader."""

import hashlib
import json
import re
import struct
import tomllib
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import CHECKOUT
from support.small_runs import walk

from ees_mpi import open_run
from ees_mpi.run.arrays import LISTED

PAGE = (CHECKOUT / "ees_mpi" / "docs" / "format.md").read_text(encoding="utf-8")
NAMES = set(re.findall(r"`([a-z_0-9]+)`", PAGE))
BLOCK = 2**18


def test_every_dataset_attribute_and_group_is_on_the_page(cheetah: Path) -> None:
    assert LISTED.keys() <= NAMES
    with h5py.File(cheetah) as file:
        assert set(file.attrs) | set(file) | set(file["final"].attrs) | set(file["sessions/0"].attrs) <= NAMES
        assert set(file["final"]) - {"moments", "memory"} <= NAMES and set(file["final/moments"]) <= NAMES
        axes = {axis for array in LISTED.values() for axis in array.axes}
        assert set(file["generations"]) - {*LISTED, *axes, "array"} <= NAMES


def test_types_and_axes_are_those_of_the_page() -> None:
    listed = re.findall(r"`(\w+)` \(([fiuS]\d+)(?:;\s+([\w,\s]+))?\)", PAGE)
    told = {name: (kind, re.findall(r"\w+", axes)) for name, kind, axes in listed}
    assert len(listed) == len(told)
    checksums = told.pop("checksums")
    assert checksums == ("u4", ["array"])
    assert told == {name: (array.type.lstrip("<|"), [*array.axes]) for name, array in LISTED.items()}


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


def test_the_checksums_are_computed_from_the_page_alone(cheetah: Path) -> None:
    def plain(item: h5py.Group) -> dict[str, object]:
        values = {name: value.item() for name, value in item.attrs.items()}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    with h5py.File(cheetah) as file:
        for item in (file, file["final"], file["sessions/0"]):
            values = plain(item)
            told = values.pop("checksum")
            assert hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest() == told
        group = file["generations"]
        for column, array in enumerate(json.loads(plain(file)["arrays"])):
            assert [zlib.crc32(row) for row in group[array["name"]]] == group["checksums"][:, column].tolist()
        state = hashlib.sha256()
        for name, kind, shape, checksum in json.loads(plain(file["final"])["arrays"]):
            data = file["final"][name][()].tobytes()
            assert zlib.crc32(data) == checksum
            state.update(f"{name} {kind} {tuple(shape)}\n".encode() + data)
        assert state.hexdigest().encode() == group["state_sha256"][-1]


def test_the_journal_is_read_from_the_page_alone(tmp_path: Path) -> None:
    path = walk(tmp_path / "run.h5", "interference-maxent", closed=False)
    data = Path(f"{path}.journal").read_bytes()
    with h5py.File(path) as file:
        assert data[:8] == b"EESJRNL5" and data[8:40] == file.attrs["run_id"]
        arrays, sizes = (json.loads(file.attrs[name]) for name in ("arrays", "sizes"))
    kind = [(each["name"], each["type"], tuple(sizes[axis] for axis in each["axes"])) for each in arrays]
    row, place, entropy = np.dtype([*kind, ("checksums", "<u4", len(kind))]), 40, []
    while place < len(data):
        length, crc, seal = struct.unpack("<QII", data[place : place + 16])
        assert zlib.crc32(data[place : place + 12]) == seal
        payload = data[place + 16 : place + 16 + length]
        assert zlib.crc32(payload) == crc
        line, _, rest = payload.partition(b"\n")
        words = json.loads(line)
        if words["kind"] == "generation":
            entropy.append(np.frombuffer(rest[: words["row"]], row)["entropy"][0])
        place += 16 + length
    with open_run(path) as run:
        assert entropy == run["entropy"][:].tolist()
