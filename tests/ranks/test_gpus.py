"""The GPUs of a machine, listed by nvidia-ml-py; a stand-in takes its place here."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ees_mpi.ranks import gpus


class Missing(Exception):
    """As NVMLError, if there is no driver."""


def stand_in(count: int | None, divided: int = 0) -> Any:
    """Return a stand-in for pynvml with so many GPUs; each is divided into so many instances, after an empty place."""

    def start() -> None:
        if count is None:
            raise Missing

    def mode(number: int) -> tuple[int, int]:
        if not divided:
            raise Missing
        return 1, 1

    def instance(number: int, place: int) -> str:
        if not place:
            raise Missing
        return f"MIG of {number}: {place}"

    return SimpleNamespace(
        NVMLError=Missing,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetMigMode=mode,
        nvmlDeviceGetMaxMigDeviceCount=lambda number: divided + 1,
        nvmlDeviceGetMigDeviceHandleByIndex=instance,
        nvmlDeviceGetUUID=lambda device: device if isinstance(device, str) else f"GPU-{device}",
        nvmlDeviceGetName=lambda number: "a GPU",
        nvmlDeviceGetMemoryInfo=lambda number: SimpleNamespace(total=1000),
    )


@pytest.mark.parametrize(("count", "expected"), [(None, []), (0, []), (2, ["GPU-0", "GPU-1"])])
def test_gpus_are_listed_by_uuid_and_without_a_driver_there_are_none(
    count: int | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "pynvml", stand_in(count))
    assert [gpu.uuid for gpu in gpus.visible_gpus()] == expected
    assert all((gpu.name, gpu.memory, gpu.driver) == ("a GPU", 1000, "580.1") for gpu in gpus.visible_gpus())


def test_without_the_package_there_is_no_gpu_and_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "find_spec", lambda name: None)
    assert gpus.visible_gpus() == [] and "pip install 'ees_mpi[gpu]'" in gpus.none_seen()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, ["MIG of 0: 1", "MIG of 0: 2", "MIG of 1: 1", "MIG of 1: 2"]),
        ("MIG of 1: 2", ["MIG of 1: 2"]),
        ("1", ["MIG of 1: 1", "MIG of 1: 2"]),
    ],
)
def test_a_gpu_that_is_divided_counts_as_its_instances(
    words: str | None, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "pynvml", stand_in(2, divided=2))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if words:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", words)
    assert [gpu.uuid for gpu in gpus.visible_gpus()] == expected
