"""The GPUs of a job: which GPUs each rank sees, and which rank drives which GPU.

NVML, the management library of the NVIDIA driver, lists the GPUs. So a rank that drives no GPU makes no CUDA context
and imports no torch.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ees_mpi.ranks.serial import Ranks

NAME_BYTES = 96
LIST_BYTES = 4096  # of the UUIDs that one rank sees


@dataclass(frozen=True)
class Gpu:
    """One GPU, told apart from others by its UUID."""

    uuid: str
    name: str
    memory: int  # bytes
    driver: str  # its version


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that this process may use, in order; empty without a driver or a GPU."""
    return chosen(_all_gpus())


def chosen(all_gpus: list[Gpu]) -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names, by number or UUID; all if it is not set."""
    words = os.environ.get("CUDA_VISIBLE_DEVICES")
    if words is None:
        return all_gpus
    gpus = []
    for word in (name.strip() for name in words.split(",")):
        named = [
            gpu for number, gpu in enumerate(all_gpus) if word == str(number) or (word and gpu.uuid.startswith(word))
        ]
        if not named:  # CUDA, too, ignores everything after an unknown name
            break
        gpus.append(named[0])
    return gpus


def _all_gpus() -> list[Gpu]:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    if nvml.nvmlInit_v2() != 0:
        return []
    try:
        count = ctypes.c_uint(0)
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        driver = ctypes.create_string_buffer(NAME_BYTES)
        nvml.nvmlSystemGetDriverVersion(driver, NAME_BYTES)
        return [_describe(nvml, number, driver.value.decode()) for number in range(count.value)]
    finally:
        nvml.nvmlShutdown()


def _describe(nvml: ctypes.CDLL, number: int, driver: str) -> Gpu:
    device, memory = ctypes.c_void_p(), _Memory()
    uuid, name = ctypes.create_string_buffer(NAME_BYTES), ctypes.create_string_buffer(NAME_BYTES)
    nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(device))
    nvml.nvmlDeviceGetUUID(device, uuid, NAME_BYTES)
    nvml.nvmlDeviceGetName(device, name, NAME_BYTES)
    nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
    return Gpu(uuid.value.decode(), name.value.decode(), int(memory.total), driver)


def drivers(seen: Sequence[Sequence[str]]) -> dict[int, str]:
    """Return which rank drives which GPU: the lowest rank that sees it and drives no other one.

    seen: for each rank, the UUIDs that it sees
    """
    driven: dict[int, str] = {}
    for uuid in dict.fromkeys(uuid for uuids in seen for uuid in uuids):
        able = [rank for rank, uuids in enumerate(seen) if uuid in uuids and rank not in driven]
        if able:
            driven[able[0]] = uuid
    return driven


def assign(ranks: Ranks) -> dict[int, str]:
    """Return on every rank which rank drives which GPU; called on all ranks together."""
    mine = ",".join(gpu.uuid for gpu in visible_gpus())
    rows = ranks.allgather(np.array([mine], f"S{LIST_BYTES}"), counts=[1] * ranks.size)
    return drivers([[uuid for uuid in row.decode().split(",") if uuid] for row in rows])


def describe(ranks: Ranks, driven: Mapping[int, str]) -> dict[str, str]:
    """Return the model and the driver version of all GPUs of the job; called on all ranks together."""
    mine = [gpu for gpu in visible_gpus() if gpu.uuid == driven.get(ranks.rank)]
    row = np.array([[mine[0].name.encode(), mine[0].driver.encode()] if mine else [b"", b""]], f"S{NAME_BYTES}")
    rows = ranks.allgather(row, counts=[1] * ranks.size)
    kinds = (" + ".join(sorted({text.decode() for text in column if text})) for column in rows.T)
    return dict(zip(("gpu", "gpu_driver"), kinds, strict=True))
