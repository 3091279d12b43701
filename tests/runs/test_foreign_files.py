"""Files of arrays that nobody should believe: each is refused with one sentence."""

import io
import json
import os
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ees_mpi.errors import RunFileError
from ees_mpi.runs import array_files, policy_files, starting_point

GOOD = {"0.weight": np.zeros((2, 3), np.float32), "0.bias": np.zeros(2, np.float32)}


def refused(read: Callable[[], object], words: str) -> None:
    """Check that reading fails with one printable sentence."""
    with warnings.catch_warnings(), pytest.raises(RunFileError, match=words) as caught:
        warnings.simplefilter("error")
        read()
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"mean": np.zeros(3), "std": np.ones(3)}, "expected observation_mean, .*got mean, std"),
        ({"observation_mean": np.full(3, 1e300), "observation_std": np.ones(3)}, "up to 1e.15"),
        ({"observation_mean": np.zeros(3), "observation_std": np.array(["a"] * 3)}, "real numbers"),
    ],
)
def test_a_normaliser_with_other_arrays_is_refused(tmp_path: Path, stated: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "stats.npz", **stated)
    refused(lambda: policy_files.read(GOOD, normaliser=tmp_path / "stats.npz"), words)


def test_what_is_not_an_npz_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "UNPACKED", 2**20)
    with open(tmp_path / "array.npz", "wb") as file:
        np.save(file, np.zeros(3))
    (tmp_path / "text.npz").write_bytes(b"PK and some text")
    np.savez_compressed(tmp_path / "bomb.npz", observation_mean=np.zeros(2**18), observation_std=np.zeros(2**10))
    np.savez(tmp_path / "pickled.npz", observation_mean=np.array([{}], object))
    os.mkfifo(tmp_path / "pipe.npz")
    reasons = {"array": "not an npz", "text": "not an npz", "bomb": "too large", "pickled": "pickle", "pipe": "plain"}
    for name, words in {**reasons, "absent": "No such file"}.items():
        refused(lambda name=name: policy_files.read(GOOD, normaliser=tmp_path / f"{name}.npz"), words)
        refused(lambda name=name: starting_point.read_policy(tmp_path / f"{name}.npz"), words)


@pytest.mark.parametrize("kind", ["sparse", "complex", "expanded"])
def test_tensors_that_are_not_plain_are_refused(tmp_path: Path, kind: str) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = {
            "sparse": lambda: torch.eye(3).to_sparse(),
            "complex": lambda: torch.zeros(3, 3, dtype=torch.complex64),
            "expanded": lambda: torch.zeros(1).expand(10**6, 10**6),
        }[kind]()
        torch.save({"0.weight": weight, "0.bias": torch.zeros(3)}, tmp_path / "net.pt")
    refused(lambda: policy_files.read(tmp_path / "net.pt"), "real numbers|more than|expected a file")


def torch_archive(path: Path, data: bytes) -> Path:
    """Write a torch file with a pickle of our choice."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("net/data.pkl", data)
        file.writestr("net/version", "3\n")
        file.writestr("net/byteorder", "little")
    return path


@pytest.mark.parametrize("data", [b"", b"\x80\x02h\x05.", pickle.dumps([1, 2], 2)])
def test_broken_pickles_are_refused(tmp_path: Path, data: bytes) -> None:
    pytest.importorskip("torch")
    refused(lambda: policy_files.read(torch_archive(tmp_path / "net.pt", data)), "state_dict")


def test_a_flipped_bit_in_a_torch_file_is_found(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "net.pt"
    torch.save({name: torch.full(array.shape, 0.125) for name, array in GOOD.items()}, path)
    raw = bytearray(path.read_bytes())
    raw[raw.index(np.float32(0.125).tobytes())] ^= 1
    path.write_bytes(raw)
    refused(lambda: policy_files.read(path), "damaged")


def safetensors(path: Path, header: Any, body: bytes = bytes(32)) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


@pytest.mark.parametrize(
    "header",
    [
        {"\x1b[31m": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [24, 40]}},
        {name: {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]} for name in "abc"},
        b"[" * 100_000,
        [],
    ],
)
def test_a_wrong_header_of_safetensors_is_refused(tmp_path: Path, header: Any) -> None:
    refused(
        lambda: policy_files.read(safetensors(tmp_path / "net.safetensors", header)),
        "not a safetensors file|printed|NAME",
    )


def test_numbers_beyond_single_precision_are_refused() -> None:
    refused(lambda: policy_files.read({**GOOD, "0.bias": np.array([1e300, 0])}), "finite")
    refused(lambda: policy_files.read(lambda: np.array([1e300])), "finite")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"generation": -(10**30)}, "no usable generation"),
        ({"std": -1}, "its std is -1"),
        ({"std": "wide"}, "not a policy"),
        ({"path": "\ud800"}, "surrogates not allowed"),
    ],
)
def test_a_note_in_a_policy_that_we_do_not_write_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    about = {"path": "/home/somebody/a.h5", "generation": 3, "std": 0.1, "objective": "maxent", "training_steps": 0}
    about |= {"run_id": "0", "state_sha256": "0"}
    arrays = {
        "layers": np.array(["layer0"]),
        "layer0": np.zeros((4, 2), np.float32),
        "observation_mean": np.zeros(3),
        "observation_sums": np.zeros(7),
        "config": np.array(""),
    }
    with io.BytesIO() as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)
        (tmp_path / "good.npz").write_bytes(file.getvalue())
    good = starting_point.read_policy(tmp_path / "good.npz")
    assert good.generation == 3 and good.about["path"] == "a.h5"
    np.savez(tmp_path / "policy.npz", about=np.array(json.dumps({**about, **changes})), **arrays)
    refused(lambda: starting_point.read_policy(tmp_path / "policy.npz"), words)
    for sums in (np.full(7, 1e300), np.full(7, -1.0), np.full(7, 1e-9)):
        np.savez(tmp_path / "sums.npz", about=np.array(json.dumps(about)), **{**arrays, "observation_sums": sums})
        refused(lambda: starting_point.read_policy(tmp_path / "sums.npz"), "no observations")
    np.savez(tmp_path / "learned.npz", about=np.array(json.dumps(about)), learned_std=np.array(["x"]), **arrays)
    refused(lambda: starting_point.read_policy(tmp_path / "learned.npz"), "learned_std")
