"""Read the network that acts from a model of Stable-Baselines3: the zip that `model.save` writes.

Two of its files are read: `policy.pth`, a state_dict, with `torch.load(weights_only=True)`; and `data`, JSON text that
has the limits of the actions and the names of classes as words. The pickles inside of `data` are not unpickled.
"""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Floats
from ees_mpi.runs import array_files
from ees_mpi.runs.array_files import Named

SB3 = ".zip"
EXPECTED = "expected a model of Stable-Baselines3 (PPO, A2C, SAC or TD3 with MlpPolicy): model.save(FILE)"
# The arrays of hidden layers and of the output, the default activation, and whether tanh limits the actions.
KINDS = (
    (r"mlp_extractor\.policy_net\.\d+", r"action_net", "tanh", False),  # PPO, A2C
    (r"actor\.latent_pi\.\d+", r"actor\.mu", "relu", True),  # SAC
    (r"actor\.mu\.\d+", "", "relu", True),  # TD3, DDPG
)


def read(path: Path) -> tuple[Named, list[str], dict[str, Any]]:
    """Return the arrays of the layers that act, their names, and the keys of a task that they need."""
    with array_files.readable(path):
        try:
            array_files.check_zip(path, 0)
            with zipfile.ZipFile(path) as file:
                data, weights = json.loads(file.read("data")), file.read("policy.pth")
        except OSError:
            raise
        except Exception as error:  # a damaged archive can raise anything
            raise RunFileError(f"{path}: {EXPECTED}; {str(error)[:200]}") from None
    arrays = array_files.torch_arrays(io.BytesIO(weights), f"{path}: policy.pth")
    words = data.get("policy_kwargs") if isinstance(data, dict) else None
    if not isinstance(words, dict):
        raise RunFileError(f"{path}: {EXPECTED}; its data has no policy_kwargs")
    names, default, squashed = _acting(arrays, words, path)
    arrays = {key: array for key, array in arrays.items() if key.rpartition(".")[0] in names}
    activation = _activation(words, default)
    if not squashed and words.get("squash_output") is not True:
        return arrays, names, {"activation": activation, "action_scale": [], "action_shift": []}
    low, high = (_limits(data, side, arrays[f"{names[-1]}.bias"].size, path) for side in ("low", "high"))
    scale, shift = (high - low) / 2, (high + low) / 2
    return (
        arrays,
        names,
        {
            "activation": [*[activation] * (len(names) - 1), "tanh"],
            "action_scale": scale.tolist() if (scale != 1).any() else [],
            "action_shift": shift.tolist() if shift.any() else [],
        },
    )


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


def _activation(words: dict[str, Any], default: str) -> str:
    """Return the name of the activation; the JSON has its class as text: <class 'torch.nn.modules.activation.ELU'>."""
    return str(words.get("activation_fn", default)).rpartition(".")[2].rstrip("'>").lower()[:80]


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
