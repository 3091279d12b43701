"""Damages of policies and of the settings of an environment, for tools/fuzz.py; its template is a run on CartPole."""

import io
import json
import os
import random
import struct
import zipfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_parts.damages import RUN, put, renewed

CONFIG = """
[run]
generations = 2
[task]
name = "gymnasium"
env = "CartPole-v1"
hidden = [4]
steps = 5
observation_share = 1.0
[population]
name = "normal"
size = 6
std = 0.1
[objective]
name = "maxvar"
[noise]
size = 5000
"""
FEW = ["--std", "0.1", "--count", "4", "-o", "out.h5"]
MEASURE = ["--task", "task.toml", *FEW]
COMMANDS: dict[str, list[str]] = {
    "measure net.pt": ["measure", "net.pt", *MEASURE],
    "measure model.zip": ["measure", "model.zip", *MEASURE],
    "measure net.safetensors": ["measure", "net.safetensors", *MEASURE],
    "measure stats.npz": ["measure", "net.pt", "--normaliser", "stats.npz", *MEASURE],
    "measure policy.npz": ["measure", "policy.npz", *FEW],
    "sample policy.npz": ["sample", "policy.npz", "--count", "4", "--out", "out.h5"],
    "train policy.npz": ["train", "task.toml", "--from", "policy.npz", "--out", "out.h5"],
}
STRANGE = (
    *("env = 'HalfCheetah-v5'\nenv_settings = {xml_file = 'elsewhere/secret.bin'}", "env = 'elsewhere/secret.bin'"),
    *("env_settings = {render_mode = 'human'}", "env_settings = {xml_file = 'pipe'}", "env = 'strange:Env-v0'"),
    *("env = 'HalfCheetah-v5'\nenv_settings = {xml_file = 'pipe'}", "env_settings = {frame_skip = 1000000000}"),
    *("env = 'Ant-v5'\nenv_settings = {frame_skip = 1000000000}", "behavior = 'os:system'", "policy = 'os:system'"),
    *("env = 'HalfCheetah-v5'\nenv_settings = {max_episode_steps = -1}", "env_settings = {g = 1.0}", "hidden = []"),
)
MODELS = ("model = 'elsewhere/secret.bin'", "model = 'pipe'", "model = 'x'\nxml = '<mujoco/>'", "model = '/etc/passwd'")
INCLUDE = "model = 'x'\nxml = '<mujoco><include file=\"elsewhere/secret.bin\"/></mujoco>'"


def make(folder: Path, other: Path) -> None:
    """Make the template: a run, its exported policy, and policies of other programs."""
    import torch

    from ees_mpi.commands.api import train
    from ees_mpi.commands.export_policy import export_policy

    (folder / "elsewhere").mkdir(parents=True)
    (folder / "elsewhere/secret.bin").write_bytes(b"private" * 5000)
    (folder / "elsewhere/other.h5").write_bytes(other.read_bytes())
    (folder / "task.toml").write_text(CONFIG)
    with redirect_stdout(io.StringIO()), train(str(folder / "task.toml"), folder / RUN) as run:
        export_policy(run, folder / "policy.npz", None, None)
    generator = np.random.default_rng(0)
    shapes = {"0.weight": (4, 4), "0.bias": (4,), "2.weight": (2, 4), "2.bias": (2,)}
    named = {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    torch.save({name: torch.from_numpy(array) for name, array in named.items()}, folder / "net.pt")
    _safetensors(folder / "net.safetensors", named)
    _model(folder / "model.zip", [torch.from_numpy(array) for array in named.values()])
    np.savez(folder / "stats.npz", observation_mean=np.zeros(4), observation_std=np.ones(4), observation_clip=3.0)


def _model(path: Path, tensors: list[Any]) -> None:
    """Write a model as Stable-Baselines3 writes SAC."""
    import torch

    names, weights = ("actor.latent_pi.0", "actor.mu"), io.BytesIO()
    torch.save(
        dict(zip((f"{name}.{kind}" for name in names for kind in ("weight", "bias")), tensors, strict=True)), weights
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(
            "data", json.dumps({"policy_kwargs": {}, "action_space": {"low": "[-1. -1.]", "high": "[1. 1.]"}})
        )
        file.writestr("policy.pth", weights.getvalue())


def _safetensors(path: Path, named: dict[str, Any], **changes: Any) -> None:
    header, body = {}, b""
    for name, array in named.items():
        data = array.tobytes()
        entry = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(body), len(body) + len(data)]}
        header[name], body = {**entry, **changes}, body + data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def damage(folder: Path, chance: random.Random) -> tuple[str, list[str], str]:
    """Damage one file of a policy; return the name and the words of a command that reads it, and the damage."""
    command = chance.choice(list(COMMANDS))
    path = folder / command.split()[1]
    kind = chance.choice(["flip", "flip", "cut", "zeros", "fifo", "folder", "other kind", "crafted", "crafted"])
    raw = bytearray(path.read_bytes())
    place = chance.randrange(len(raw))
    if kind == "flip":
        raw[place] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        raw = raw[:place]
    elif kind == "zeros":
        raw[place : place + 64] = bytes(64)
    if kind in ("fifo", "folder"):
        path.unlink()
        (os.mkfifo if kind == "fifo" else os.mkdir)(path)
        return command, COMMANDS[command], f"{kind} at {path.name}"
    if kind == "other kind":
        raw = bytearray(
            (folder / chance.choice(["stats.npz", "net.pt", "net.safetensors", RUN, "task.toml"])).read_bytes()
        )
    path.write_bytes(raw)
    if kind == "crafted":
        kind = _craft(path, chance)
    return command, COMMANDS[command], f"{kind} at {place} of {path.name}"


ARRAYS: tuple[Any, ...] = (
    *(np.zeros(0), np.zeros((2, 2)), np.array("text"), np.full(4, np.nan), np.full(4, 1j), np.array(-1), np.inf),
    *(np.full(4, 1e300), np.zeros(4, bool), np.array([b"x"] * 4), np.array(json.dumps({"generation": -(10**30)}))),
)


def _craft(path: Path, chance: random.Random) -> str:
    """Change the contents of a policy as a stranger would, with the right checksums."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            arrays = dict(file)
        name = chance.choice([*arrays, "new"])
        arrays[name] = np.asarray(chance.choice(ARRAYS))
        if chance.random() < 0.2:
            arrays[f"{name}x"] = arrays.pop(name)
        if "about" in arrays and chance.random() < 0.4:
            arrays["about"] = np.array(_note(str(arrays["about"]), chance))
        (np.savez_compressed if chance.random() < 0.5 else np.savez)(path, **arrays)
        return f"another {name}"
    if path.suffix == ".safetensors":
        change = chance.choice(
            [
                {"dtype": "I64"},
                {"dtype": 3},
                {"shape": [-1]},
                {"shape": 4},
                {"data_offsets": [-8, 8]},
                {"shape": [10**30]},
            ]
        )
        _safetensors(path, {chance.choice(["\ud800.weight", "0.weight", "\x1b"]): np.zeros(4, np.float32)}, **change)
        return f"header with {change}"
    return _craft_torch(path, chance)


def _note(text: str, chance: random.Random) -> str:
    try:
        about = json.loads(text)
        about[chance.choice(sorted(about))] = chance.choice([-(10**30), 10**30, "\ud800", None, [], 1.5, "x" * 100_000])
        return json.dumps(about)
    except (ValueError, TypeError, AttributeError, IndexError):
        return "{"


def _craft_torch(path: Path, chance: random.Random) -> str:
    """Write an archive with another pickle, or tensors that are not plain."""
    import torch

    kinds = {
        "sparse": lambda: torch.eye(4).to_sparse(),
        "meta": lambda: torch.zeros(4, 4, device="meta"),
        "complex": lambda: torch.zeros(4, 4, dtype=torch.complex64),
        "expanded": lambda: torch.zeros(1).expand(10**6, 10**6),
        "text": lambda: "x",
        "pickle": lambda: None,
    }
    kind = chance.choice(list(kinds))
    if kind != "pickle":
        torch.save({"0.weight": kinds[kind](), "0.bias": torch.zeros(4)}, path)
        return f"a {kind} tensor"
    with zipfile.ZipFile(path) as file:
        entries = {entry.filename: bytearray(file.read(entry)) for entry in file.infolist()}
    name = chance.choice(list(entries))
    for _ in range(chance.randint(1, 4)):
        if entries[name]:
            entries[name][chance.randrange(len(entries[name]))] = chance.randrange(256)
    with io.BytesIO() as made:
        with zipfile.ZipFile(made, "w") as file:
            for each, data in entries.items():
                file.writestr(each, bytes(data))
        path.write_bytes(made.getvalue())
    return f"other bytes in {name}, with the right checksums"


def settings(folder: Path, chance: random.Random) -> str:
    """Put settings into the config that would open other files, windows or code."""
    os.mkfifo(folder / "pipe")
    mujoco = chance.random() < 0.3
    lines = chance.choice((*MODELS, INCLUDE) if mujoco else STRANGE)
    keys = [line.partition(" = ")[0] for line in lines.splitlines()]
    with renewed(folder / RUN) as file:
        text = file.attrs["config"]
        text = text.decode() if isinstance(text, bytes) else str(text)
        text = text.replace("[task.env_settings]\n", "")
        kept = [line for line in text.splitlines() if line.partition(" = ")[0] not in keys]
        if mujoco:
            start, end = kept.index("[task]"), kept.index("[population]")
            kept[start + 1 : end] = ['name = "mujoco"', "hidden = [4]", "steps = 5", ""]
        kept.insert(kept.index("[task]") + 1, lines)
        put(file, "config", "\n".join(kept))
    return f"settings {lines!r}"
