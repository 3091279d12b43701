"""Check for a GPU that the task can use, without importing torch as far as possible."""

import ctypes
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ees_mpi.errors import ConfigError, MissingExtra

PACKAGES = ("torch", "warp", "mujoco_warp")
TESTED = {"warp": ("1.19",), "mujoco_warp": ("4.0",), "torch": ("2.11", "2.13")}
HINT = "pip install 'ees_mpi[gpu]'"


def usable_gpus() -> int:
    """Return the number of GPUs that can be used: 0 without a driver or without the packages."""
    return 0 if missing_package() else max(0, driver_gpus())


def require_gpu() -> None:
    """Raise an error that names the missing part, if no GPU can be used."""
    gpus = driver_gpus()
    if gpus < 0:
        raise ConfigError('task.device = "cuda": this machine has no NVIDIA driver; use device = "cpu"')
    if gpus == 0:
        raise ConfigError('task.device = "cuda": this machine has no NVIDIA GPU, or hides it; use device = "cpu"')
    missing = missing_package()
    if missing:
        raise MissingExtra(f'task.device = "cuda" needs {missing}: {HINT}')


def driver_gpus() -> int:
    """Ask the NVIDIA driver for the number of GPUs; -1 if there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return -1
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def missing_package() -> str:
    """Name the first package that the GPU needs and that is missing here; empty if there is none."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            return {"torch": "torch with CUDA", "warp": "warp-lang", "mujoco_warp": "mujoco-warp"}[name]
        if name == "torch" and _built_for_cpu(Path(spec.origin).parent / "version.py"):
            return "torch with CUDA (the installed torch is built for the CPU)"
    return ""


def _built_for_cpu(version: Path) -> bool:
    try:
        return re.search(r"^cuda\b.*= *None", version.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except OSError:
        return False


def libraries(device: int, say: Callable[[str], Any]) -> tuple[Any, Any, Any]:
    """Import torch, warp and mujoco_warp for one GPU; warn of versions that were not tested."""
    require_gpu()
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
    if device >= torch.cuda.device_count():
        raise ConfigError(f"GPU {device} was asked for; this machine has {torch.cuda.device_count()}")
    for name, module in (("torch", torch), ("warp", warp), ("mujoco_warp", mujoco_warp)):
        if not module.__version__.startswith(tuple(f"{version}." for version in TESTED[name])):
            say(f"warning: {name} {module.__version__} is not tested with ees_mpi ({', '.join(TESTED[name])} are)")
    torch.set_float32_matmul_precision("highest")
    return torch, warp, mujoco_warp
