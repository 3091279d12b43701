"""The GPUs of a job: which GPUs each rank sees, and which rank drives which GPU.

The package nvidia-ml-py asks the driver. So a rank that drives no GPU makes no CUDA context and imports no torch.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from ees_mpi import machine
from ees_mpi.errors import ConfigError
from ees_mpi.ranks.serial import Ranks
from ees_mpi.terminal import say

Robots = TypeVar("Robots")

UUID_BYTES = 48
NAME_BYTES = 96  # of a model, or of the version of a driver


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one instance of a GPU that is divided (MIG), told apart from others by its UUID."""

    uuid: str
    name: str
    memory: int  # bytes
    driver: str  # its version
    number: int = 0  # of the GPU; its instances have the same one


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that this process may use, in order; empty without a driver, a GPU or nvidia-ml-py."""
    return chosen(_all_gpus())


def chosen(all_gpus: list[Gpu]) -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, by number or UUID; all if it is not set."""
    words = os.environ.get("CUDA_VISIBLE_DEVICES")
    if words is None:
        return all_gpus
    gpus = []
    for word in (name.strip() for name in words.split(",")):
        named = [gpu for gpu in all_gpus if word == str(gpu.number) or (word and gpu.uuid.startswith(word))]
        if not named:  # CUDA, too, ignores everything after an unknown name
            break
        gpus += named
    return gpus


def none_seen() -> str:
    """Return a sentence that no rank sees a GPU, and the likely reason."""
    if find_spec("pynvml") is None:
        return "no rank sees an NVIDIA GPU: the package nvidia-ml-py is missing (pip install 'ees_mpi[gpu]')"
    return "no rank sees an NVIDIA GPU"


def _all_gpus() -> list[Gpu]:
    if find_spec("pynvml") is None:
        return []
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            devices = [
                (number, device)
                for number in range(pynvml.nvmlDeviceGetCount())
                for device in _instances(pynvml, pynvml.nvmlDeviceGetHandleByIndex(number))
            ]
            return [_describe(pynvml, number, device, driver) for number, device in devices]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:  # there is no driver
        return []


def _instances(nvml: Any, device: Any) -> list[Any]:
    """Return the instances of a GPU that is divided into some (MIG); else the GPU itself."""
    try:
        divided, _ = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError:  # it cannot be divided
        divided = 0
    if not divided:
        return [device]
    instances = []
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        with suppress(nvml.NVMLError):  # a place without an instance
            instances.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, place))
    return instances


def _describe(nvml: Any, number: int, device: Any, driver: str) -> Gpu:
    memory = int(nvml.nvmlDeviceGetMemoryInfo(device).total)
    return Gpu(str(nvml.nvmlDeviceGetUUID(device)), str(nvml.nvmlDeviceGetName(device)), memory, driver, number)


def drivers(seen: Sequence[Sequence[str]]) -> dict[int, str]:
    """Return which rank drives which GPU: the lowest rank that sees it and drives no other one.

    seen: for each rank, the UUIDs that it sees
    """
    seers: dict[str, list[int]] = {}
    for rank, uuids in enumerate(seen):
        for uuid in uuids:
            seers.setdefault(uuid, []).append(rank)
    driven: dict[int, str] = {}
    for uuid, ranks in seers.items():
        able = next((rank for rank in ranks if rank not in driven), None)
        if able is not None:
            driven[able] = uuid
    return driven


def assign(ranks: Ranks) -> dict[int, str]:
    """Return on every rank which rank drives which GPU; called on all ranks together."""
    mine = np.array([gpu.uuid for gpu in visible_gpus()], f"S{UUID_BYTES}")
    counts = ranks.each(len(mine))
    uuids = iter(ranks.allgather(mine, counts).astype(str).tolist())
    return drivers([list(islice(uuids, count)) for count in counts.tolist()])


def describe(ranks: Ranks, driven: Mapping[int, str]) -> dict[str, str]:
    """Return what a session of a run file records of its device: of GPUs also their models, driver and packages.

    It is called on all ranks together; `driven`: empty on CPUs.
    """
    if not driven:
        return {"device": "cpu"}
    mine = [(gpu.name, gpu.driver) for gpu in visible_gpus() if gpu.uuid == driven.get(ranks.rank)]
    rows = ranks.allgather(np.array(mine, f"S{NAME_BYTES}").reshape(len(mine), 2))
    kinds = (" + ".join(sorted(set(column))) for column in rows.astype(str).T.tolist())
    return {"device": "cuda", **dict(zip(("gpu", "gpu_driver"), kinds, strict=True)), **machine.gpu_packages()}


def choose(ranks: Ranks, wanted: str, cannot: str, lacks: Callable[[], str]) -> tuple[str, dict[int, str]]:
    """Return "cpu" or "cuda", the same on every rank, and which rank drives which GPU.

    wanted: "cpu", "cuda" or "auto": "cuda" if a rank sees a GPU and every rank that drives one has the packages for it
    cannot: why the config cannot be evaluated on GPUs, or ""; lacks: says what this process lacks for it, or ""
    """
    if wanted == "cpu":
        return "cpu", {}
    driven = assign(ranks)
    problem = cannot or ("" if driven else none_seen())
    if not problem and ranks.rank in driven:
        problem = lacks()
    if wanted == "auto":
        return ("cpu", {}) if ranks.any(bool(problem)) else ("cuda", driven)
    with ranks.together():
        if problem:
            raise ConfigError(f'task.device = "cuda": {problem}; use task.device = "cpu"')
    return "cuda", driven


def opened(ranks: Ranks, driven: Mapping[int, str], opens: Callable[[Callable[[str], None]], Robots]) -> Robots | None:
    """Return the robots of the GPU that this rank drives, seen as number 0 from now on; None: it drives none."""
    if ranks.rank not in driven:
        return None
    os.environ["CUDA_VISIBLE_DEVICES"] = driven[ranks.rank]  # before CUDA starts
    return opens(say)
