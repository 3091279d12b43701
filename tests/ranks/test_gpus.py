"""The GPUs of a machine, listed by nvidia-ml-py; a stand-in takes its place here."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ees_mpi.ranks import gpus


class Missing(Exception):
    """As NVMLError, if there is no driver."""


def stand_in(count: int | None) -> Any:
    def start() -> None:
        if count is None:
            raise Missing

    return SimpleNamespace(
        NVMLError=Missing,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetUUID=lambda number: f"GPU-{number}",
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
