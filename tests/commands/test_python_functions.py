"""`ees_mpi.train` and the other functions: the same code, the same bits and the same words as the commands."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from support.own_tasks import Interrupting
from support.run_files import assert_same_bits

import ees_mpi
from ees_mpi import machine
from ees_mpi.generation import Record
from ees_mpi.store import lock

SMALL = {"population.size": 20, "run.generations": 6, "noise.size": 5000, "run.fsync": False}
CONFIG: dict[str, Any] = {
    "run": {"generations": 3, "fsync": False},
    "task": {"name": "custom", "function": Interrupting},
    "population": {"name": "normal", "size": 20, "std": np.float32(0.5)},
    "objective": {"name": "maxvar"},
    "optimizer": {"name": "ascent", "lr": 0.03},
    "noise": {"size": 100, "seed": None},
}


def surroundings() -> tuple[Any, ...]:
    """Return everything that a call must leave as it was."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCONT)
    pools = {pool["filepath"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    variables = {name: os.environ.get(name) for name in (*machine.THREAD_VARIABLES, "EES_MPI_TRUST")}
    return [signal.getsignal(number) for number in numbers], sys.excepthook, pools, variables


@pytest.fixture
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check at the end of a test that its calls left everything as it was; before, there are two threads."""
    for name in machine.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with threadpoolctl.threadpool_limits(2):
        before = surroundings()
        yield
        assert surroundings() == before


def small(out: Path, **options: Any) -> ees_mpi.Run:
    """Train the run of the fixture `finished`."""
    return ees_mpi.train("interference-maxvar", out, settings=SMALL, **options)


def test_train_takes_any_kind_of_config_and_has_the_bits_of_the_command(finished: Path, tmp_path: Path) -> None:
    config = ees_mpi.load_config("interference-maxvar", SMALL)
    toml = tmp_path / "own.toml"
    toml.write_text(config.to_toml())
    for number, source in enumerate(["interference-maxvar", toml, str(toml), config.sections(), config, finished]):
        out = tmp_path / f"{number}.h5"
        with ees_mpi.train(source, out, settings=SMALL) as run:
            assert run.complete and run.path == out
        assert_same_bits(out, finished)


def test_train_continues_a_run_file_with_its_own_config(copied: Path) -> None:
    with pytest.raises(ees_mpi.RunFileError, match=r"exists already; use --resume .*in Python: resume=True"):
        ees_mpi.train(copied)
    with ees_mpi.train(copied, resume=True, settings={"run.generations": 7}) as run:
        assert run.path == copied and run.generations == 7 and len(run.sessions()) == 2


@pytest.mark.usefixtures("unchanged")
def test_train_tells_the_callback_each_committed_generation(tmp_path: Path) -> None:
    seen: list[Record] = []
    with small(tmp_path / "run.h5", on_generation=seen.append) as run:
        assert [record.generation for record in seen] == list(range(6))
        assert [record.metrics["entropy"] for record in seen] == run["entropy"][:].tolist()
        assert "behavior" not in seen[0].metrics and "state_sha256" not in seen[0].metrics
        with pytest.raises(ValueError, match="read-only"):
            seen[0]["mean"][:] = 0


@pytest.mark.parametrize("at", [2, 5])  # 5 is the last one
@pytest.mark.usefixtures("unchanged")
def test_a_callback_that_raises_stops_the_run_which_can_be_resumed(at: int, finished: Path, tmp_path: Path) -> None:
    def fails(record: Record) -> None:
        if record.generation == at:
            raise ZeroDivisionError("a mistake in the callback")

    out = tmp_path / "run.h5"
    with pytest.raises(ZeroDivisionError, match="a mistake in the callback") as caught:
        small(out, on_generation=fails)
    assert caught.value.__notes__ == [f"on_generation raised this; {at + 1} generations are saved"]
    assert caught.value.__context__ is None and [path.name for path in tmp_path.iterdir()] == ["run.h5"]
    with ees_mpi.open_run(out) as run:
        assert run.generations == at + 1
    small(out, resume=True).close()
    assert_same_bits(out, finished)


@pytest.mark.parametrize("presses", [1, 2])  # the second one does not wait for anything
@pytest.mark.usefixtures("unchanged")
def test_an_interrupted_notebook_can_resume(presses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, whole = tmp_path / "run.h5", tmp_path / "whole.h5"
    ees_mpi.train(CONFIG, whole).close()
    monkeypatch.setattr(Interrupting, "presses", presses)
    saved = "0 generations are saved" if presses == 1 else "^$"
    with pytest.raises(KeyboardInterrupt, match=saved):
        ees_mpi.train(CONFIG, out)
    said: list[int] = []
    ees_mpi.train(CONFIG, out, resume=True, on_generation=lambda record: said.append(record.generation)).close()
    assert said == [0, 1, 2]
    assert_same_bits(out, whole)


@pytest.mark.usefixtures("unchanged")
def test_a_signal_and_a_time_limit_raise_interrupted(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    with pytest.raises(ees_mpi.Interrupted, match="interrupted by SIGTERM; 1 generations are saved"):
        small(out, on_generation=lambda record: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(ees_mpi.Interrupted, match="interrupted by the time limit"):
        small(out, resume=True, max_hours=1e-12)
    small(out, resume=True).close()
    assert_same_bits(out, finished)


@pytest.mark.usefixtures("unchanged")
def test_an_exit_in_a_task_is_an_error_and_releases_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run.h5"
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.0)
    breaks = {"task.function": "support.breaking:Breaking", "task.settings": {"how": "leave", "at": 7}}
    with pytest.raises(ees_mpi.EesError, match="raised SystemExit: 3"):
        ees_mpi.train(CONFIG, out, settings=breaks)
    ees_mpi.train(CONFIG, out, overwrite=True).close()  # the lock is free


def test_settings_keep_their_types() -> None:
    settings = {"task.settings": {'a "b"': [1, 2.5, True, "x\ty"], "n": np.int64(3), "p": Path("p")}}
    config = ees_mpi.load_config(CONFIG, {**settings, "population.std": np.float64(0.25)})
    assert config.task.settings == {'a "b"': [1, 2.5, True, "x\ty"], "n": 3, "p": "p"}  # type: ignore[attr-defined]
    assert config.population.std == 0.25
    assert config.task.function == "support.own_tasks:Interrupting"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("unchanged")
def test_a_call_inside_a_call_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "inner.h5"
    with pytest.raises(ees_mpi.LaunchError, match="another call of ees_mpi is running in this process"):
        small(tmp_path / "run.h5", on_generation=lambda record: small(inner).close())
    assert not inner.exists()
