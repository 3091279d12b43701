"""Curves for TensorBoard: one point per metric and generation, however often a run is stopped."""

import errno
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from support.program import TINY, done, sets

from ees_mpi import open_run
from ees_mpi.errors import RunFileError
from ees_mpi.generation import Record, State
from ees_mpi.run import tensorboard

TRAIN = ("train", "interference-maxvar", *sets(*TINY, "run.fsync=false"), "--tensorboard", "curves", "-o", "run.h5")


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the points of each curve as TensorBoard shows them: the start of a session hides later steps."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    curves: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + size])
            data = data[16 + size :]
            if event.HasField("session_log"):
                curves = {name: [each for each in curve if each[0] < event.step] for name, curve in curves.items()}
            for value in event.summary.value:
                curves.setdefault(value.tag, []).append((event.step, value.simple_value))
    return curves


def test_a_run_that_is_overwritten_and_resumed_has_one_point_per_metric_and_generation(inside: Path) -> None:
    pytest.importorskip("tensorboardX")
    done(*TRAIN)
    done(*TRAIN, "--overwrite", *sets("run.generations=3", "run.seed=7"))
    done("resume", "run.h5", "--generations", 5, "--tensorboard", "curves")
    curves = points(inside / "curves" / "run")
    with open_run("run.h5") as run:
        for name in ("entropy", "fitness_max", "gradient_norm", "seconds_commit"):
            assert [step for step, _ in curves[name]] == list(range(5))
            assert [value for _, value in curves[name]] == pytest.approx(run[name][:], rel=1e-6)
        assert [step for step, _ in curves["fitness_of_mean"]] == [0]  # it is evaluated every tenth generation


class Full:
    """A writer whose thread has ended, because the disk is full."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.end.wait)
        self.thread.start()

    def close(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_curves_that_cannot_be_written_are_an_error_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Full] = []
    monkeypatch.setattr(tensorboard, "_writer", lambda: lambda *words, **options: made.append(Full()) or made[0])
    full = pytest.raises(RunFileError, match=r"--tensorboard curves: No space left on device")
    with full, tensorboard.curves(Path("curves"), Path("run.h5"), 0) as update:
        made[0].end.set()
        made[0].thread.join()
        with pytest.raises(RunFileError, match="cannot be written any more"):
            update(Record(0, {}), State(1, {}, {}, np.zeros(1)))
