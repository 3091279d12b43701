"""Check for a GPU that the task can use, without importing torch as far as possible."""

import ctypes
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.tasks.rollouts import Say

PACKAGES = {"torch": "torch with CUDA", "warp": "warp-lang", "mujoco_warp": "mujoco-warp"}
HINT = "pip install 'ees_mpi[gpu]'"


@dataclass(frozen=True)
class Toolkit:
    """The imported libraries, and the device that they work on."""

    torch: Any
    warp: Any
    mujoco_warp: Any
    device: str  # as both torch and Warp name it: "cuda:0", or "cpu" in tests


def lacking() -> str:
    """Return a sentence fragment that says what this process lacks for a GPU; empty: nothing. Imports no torch.

    CUDA must not start here: it would read CUDA_VISIBLE_DEVICES before a rank has chosen its GPU.
    """
    if not has_driver():
        return "this machine has no NVIDIA driver"
    missing = missing_package()
    return f"{missing} is missing ({HINT})" if missing else ""


def has_driver() -> bool:
    """Return whether the machine has the library of the NVIDIA driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def missing_package() -> str:
    """Name the first package that the GPU needs and that is missing here; empty if there is none."""
    for name, package in PACKAGES.items():
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            return package
        if name == "torch" and _built_for_cpu(Path(spec.origin).parent / "version.py"):
            return "torch with CUDA (the installed torch is built for the CPU)"
    return ""


def _built_for_cpu(version: Path) -> bool:
    try:
        return re.search(r"^cuda\b.*= *None", version.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except OSError:
        return False


def toolkit(say: Say) -> Toolkit:
    """Import torch, warp and mujoco_warp for the first visible GPU."""
    problem = lacking()
    if problem:
        raise ConfigError(f'task.device = "cuda": {problem}')
    try:
        import torch
        import warp

        warp.config.log_level = max(warp.config.log_level, getattr(warp, "LOG_WARNING", 30))
        warp.init()
        import mujoco_warp
    except ImportError as error:
        raise MissingExtra(f'task.device = "cuda": cannot import {error.name} ({error}): {HINT}') from None
    if not torch.cuda.is_available() or not warp.is_cuda_available():
        raise ConfigError(
            'task.device = "cuda": torch or Warp cannot use the GPU; is the NVIDIA driver too old for them?'
        )
    torch.set_float32_matmul_precision("highest")
    say(f"preparing {torch.cuda.get_device_name(0)}; the first time kernels are compiled, for up to a minute")
    return Toolkit(torch, warp, mujoco_warp, "cuda:0")
