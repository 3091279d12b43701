"""Read named arrays from files of other programs: torch, npz, models of Stable-Baselines3.

A file is data: it is never unpickled except by `torch.load(weights_only=True)`, which makes tensors only.

A model of Stable-Baselines3 is the zip that `model.save` writes. Two of its files are read: `policy.pth`, a state_dict;
and `data`, JSON text that has the limits of the actions and the names of classes as words. The pickles inside of `data`
are not unpickled.
"""

import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats
from ees_mpi.errors import EesError, RunFileError, optional

Named = dict[str, NDArray[Any]]
TORCH = (".pt", ".pth", ".bin", ".ckpt")
NPZ = ".npz"
SB3 = ".zip"
EXPECTED = "expected a model of Stable-Baselines3 (PPO, A2C, SAC or TD3 with MlpPolicy): model.save(FILE)"
# The arrays of hidden layers and of the output, the default activation, and whether tanh limits the actions.
KINDS = (
    (r"mlp_extractor\.policy_net\.\d+", r"action_net", "tanh", False),  # PPO, A2C
    (r"actor\.latent_pi\.\d+", r"actor\.mu", "relu", True),  # SAC
    (r"actor\.mu\.\d+", "", "relu", True),  # TD3, DDPG
)
STATE_DICT = "expected a file of torch.save(model.state_dict(), FILE) by torch 1.6 or later"


def read(path: Path) -> Named:
    """Return the arrays of a torch or npz file, by the suffix of its name."""
    if path.suffix == NPZ:
        return as_arrays(read_npz(path), str(path))
    with readable(path, " is not a torch file of floats:"), open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            why = "it was not read: a pickle can run code"
            raise RunFileError(f"{path} is not a torch file, and {why}; {STATE_DICT}")
        return torch_arrays(file, str(path))


@contextmanager
def readable(path: Path, wrong: str) -> Iterator[None]:
    """Refuse anything but a plain file, because reading a named pipe would wait for ever; report errors of reading.

    wrong: words behind the path if the file is damaged or of another kind
    """
    if path.exists() and not path.is_file():
        raise RunFileError(f"{path} is not a plain file; expected a file of arrays")
    try:
        yield
    except EesError:
        raise
    except OSError as error:
        raise RunFileError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged archive can raise anything
        raise RunFileError(f"{path}{wrong} {str(error)[:200]}") from None


def as_arrays(named: Mapping[Any, Any], source: str) -> Named:
    """Return tensors or arrays by name, as numpy arrays of real numbers."""
    arrays: Named = {}
    for key, value in named.items():
        tensor = hasattr(value, "detach")
        arrays[str(key)] = value.detach().cpu().float().numpy() if tensor else np.asarray(value)
        if arrays[str(key)].dtype.kind not in "fiu":
            inner = f"; if it is the state_dict, save only it: torch.save(checkpoint[{key!r}], FILE)"
            raise RunFileError(
                f"{source}: {key} is not a plain array of real numbers{inner * isinstance(value, Mapping)}"
            )
    return arrays


def torch_arrays(file: BinaryIO, name: str) -> Named:
    """Return the arrays of a state_dict in a zip of torch."""
    torch = optional("torch", f"{name}: a torch file needs torch: pip install 'ees_mpi[torch]'")
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()  # torch does not look at the checksums
        file.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tensors = None if damaged else torch.load(file, map_location="cpu", weights_only=True)
    except Exception:  # a damaged archive or pickle can raise anything
        tensors = None
    if not isinstance(tensors, Mapping):
        raise RunFileError(f"{name} is damaged, or no dict of tensors; {STATE_DICT}")
    return as_arrays(tensors, name)


def read_npz(path: Path) -> Named:
    """Return the arrays of an npz, of any kind except pickled objects."""
    with readable(path, " is not an npz of arrays:"), np.load(path, allow_pickle=False) as file:
        return dict(file)


def has_layers(path: Path) -> bool:
    """Return whether an npz has the layers of a network, NAME.weight, unlike one of `ees-mpi export --policy`."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with readable(path, " is not an npz of arrays:"), zipfile.ZipFile(path) as file:
        return any(name.endswith(".weight.npy") for name in file.namelist())


def read_sb3(path: Path) -> tuple[Named, list[str], dict[str, Any]]:
    """Return the arrays of the layers that act, their names, and the keys of a task that they need."""
    with readable(path, f": {EXPECTED};"), zipfile.ZipFile(path) as file:
        if not {"data", "policy.pth"} <= {*file.namelist()}:
            raise RunFileError(f"{path}: {EXPECTED}")
        data, weights = json.loads(file.read("data")), file.read("policy.pth")
    arrays = torch_arrays(io.BytesIO(weights), f"{path}: policy.pth")
    words = data.get("policy_kwargs") if isinstance(data, dict) else None
    if not isinstance(words, dict):
        raise RunFileError(f"{path}: {EXPECTED}; its data has no policy_kwargs")
    names, default, squashed = _acting(arrays, words, path)
    arrays = {key: array for key, array in arrays.items() if key.rpartition(".")[0] in names}
    # The JSON has the class of the activation as text: <class 'torch.nn.modules.activation.ELU'>.
    activation = str(words.get("activation_fn", default)).rpartition(".")[2].rstrip("'>").lower()[:80]
    if not squashed and words.get("squash_output") is not True:
        return arrays, names, {"activation": activation, "action_scale": [], "action_shift": []}
    low, high = (_limits(data, side, arrays[f"{names[-1]}.bias"].size, path) for side in ("low", "high"))
    scale, shift = (high - low) / 2, (high + low) / 2
    settings = {
        "activation": [*[activation] * (len(names) - 1), "tanh"],
        "action_scale": scale.tolist() if (scale != 1).any() else [],
        "action_shift": shift.tolist() if shift.any() else [],
    }
    return arrays, names, settings


def _acting(arrays: Named, words: dict[str, Any], path: Path) -> tuple[list[str], str, bool]:
    """Return the names of the layers that act, their default activation, and whether tanh limits the actions."""
    names = [key.removesuffix(".weight") for key in arrays if key.endswith(".weight") and key[:-6] + "bias" in arrays]
    extracting = [key for key in arrays if "features_extractor." in key] or words.get("features_extractor_class")
    for hidden, output, activation, squashed in KINDS:
        acting = [name for name in names if re.fullmatch(f"{hidden}|{output}", name)]
        complete = acting and (not output or re.fullmatch(output, acting[-1]))
        if complete and not extracting and (output or not any("actor.log_std" in key for key in arrays)):
            return acting, activation, squashed
    why = "it extracts features" if extracting else f"its layers are {', '.join(names[:8])}"
    raise RunFileError(f"{path}: {EXPECTED}, without use_sde for SAC; {why}")


def _limits(data: dict[str, Any], side: str, count: int, path: Path) -> Floats:
    """Return the lower or upper limits of the actions; the JSON has them as the text of an array: [-2. -2.]."""
    try:
        limits = np.array(re.sub(r"[\[\]]", " ", data["action_space"][side]).split(), np.float64)
        if limits.shape != (count,) or not (np.abs(limits) <= 1e6).all():
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise RunFileError(
            f"{path}: expected the {side}er limits of {count} actions in its data, because tanh limits its actions; "
            f"got {str(data.get('action_space'))[-200:]!a}"
        ) from None
    return limits
