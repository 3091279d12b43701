"""Files of arrays that nobody should believe: each is refused with one sentence."""

import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ees_mpi.errors import RunFileError
from ees_mpi.foreign import array_files, policy_files
from ees_mpi.run import starting_point

GOOD = {"0.weight": np.zeros((2, 3), np.float32), "0.bias": np.zeros(2, np.float32)}


def refused(read: Callable[[], object], words: str) -> None:
    """Check that reading fails with one printable sentence."""
    with warnings.catch_warnings(), pytest.raises(RunFileError, match=words) as caught:
        warnings.simplefilter("error")
        read()
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600


def test_what_is_not_an_npz_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "array.npz", "wb") as file:
        np.save(file, np.zeros(3))
    (tmp_path / "text.npz").write_bytes(b"PK and some text")
    np.savez(tmp_path / "pickled.npz", observation_mean=np.array([{}], object))
    os.mkfifo(tmp_path / "pipe.npz")
    reasons = {"array": "not an npz", "text": "not an npz", "pickled": "pickle", "pipe": "plain"}
    for name, words in {**reasons, "absent": "No such file"}.items():
        refused(lambda name=name: policy_files.read(GOOD, normaliser=tmp_path / f"{name}.npz"), words)
        refused(lambda name=name: starting_point.read_policy(tmp_path / f"{name}.npz"), words)


def test_a_checkpoint_that_has_a_state_dict_inside_says_how_to_save_it_alone() -> None:
    refused(lambda: array_files.as_arrays({"policy": GOOD}, "net.pt"), r"torch.save\(checkpoint\['policy'\], FILE\)")


@pytest.mark.parametrize("data", [b"", pickle.dumps([1, 2], 2)])
def test_broken_pickles_are_refused(tmp_path: Path, data: bytes) -> None:
    pytest.importorskip("torch")
    with zipfile.ZipFile(tmp_path / "net.pt", "w") as file:  # as torch writes it
        for name, content in {"data.pkl": data, "version": b"3\n", "byteorder": b"little"}.items():
            file.writestr(f"net/{name}", content)
    refused(lambda: policy_files.read(tmp_path / "net.pt"), "state_dict")


def test_a_flipped_bit_in_a_torch_file_is_found(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "net.pt"
    torch.save({name: torch.full(array.shape, 0.125) for name, array in GOOD.items()}, path)
    raw = bytearray(path.read_bytes())
    raw[raw.index(np.float32(0.125).tobytes())] ^= 1
    path.write_bytes(raw)
    refused(lambda: policy_files.read(path), "damaged")
