"""Progress is a bar on a terminal and in a notebook, and a line every few seconds in a log file and under mpirun."""

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from support.program import done
from support.small_runs import trained

import ees_mpi
from ees_mpi.config import Config
from ees_mpi.run import progress, session
from ees_mpi.run.parts import first_state
from ees_mpi.terminal import clock, pace


class NotebookOutput(io.StringIO):
    """The standard output of a notebook, as far as it can be told."""

    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(("stream", "bar"), [(NotebookOutput, True), (io.StringIO, False)])
def test_notebooks_get_bars_and_logs_lines(stream: type[io.StringIO], bar: bool, tiny: Callable[..., Config]) -> None:
    config, shown = tiny(), stream()
    with redirect_stdout(shown), progress.Progress(config, 0, lambda: None) as shower:
        state = first_state(config)
        trained(config, lambda record: shower(record, replace(state, generation=record.generation + 1)))
    assert "6/6" in shown.getvalue()
    assert shown.getvalue().startswith("generation ") is not bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_mpirun_shows_whole_lines_only_so_its_ranks_show_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress.on_terminal(Terminal())
    monkeypatch.setattr(progress, "launched", lambda: (2, 0, "mpirun"))
    assert not progress.on_terminal(Terminal())


def test_a_run_says_what_it_does_before_the_first_generation_is_done(
    tiny: Callable[..., Config],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []
    monkeypatch.setattr(session, "LARGE_TABLE", 5000)
    config = tiny("interference-maxvar", "run.fsync=false")
    ees_mpi.train(config, tmp_path / "run.h5", on_generation=lambda record: said.append(capsys.readouterr().out))
    table, begin = said[0].splitlines()
    assert "5,000 random numbers" in table
    assert "generations 0 to 6" in begin and "1 rank" in begin and "20 rollouts" in begin


def test_the_speed_is_said_as_people_say_it() -> None:
    assert clock(7214.2) == "2:00:14" and clock(-14) == "-0:00:14"
    assert pace(0.0435) == "23 generations a second" and pace(63.2) == "63.2 s a generation"
    assert pace(1.0) == "1 s a generation" and pace(900.0) == "15 min a generation"


def test_a_short_task_shows_nothing_and_a_long_one_its_share_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    stream = io.StringIO()
    with redirect_stdout(stream), progress.Counter(40, "rollout", "offspring") as counter:
        counter.update()
        assert stream.getvalue() == ""
        now = 110.0
        counter.update(9)
        assert stream.getvalue() == "offspring: 10/40 rollouts, 0:00:30 left\n"
        counter.show(5)  # never goes back
        now = 120.0
        counter.show(99)
    assert stream.getvalue().splitlines()[1] == "offspring: 40/40 rollouts, 0:00:00 left"


def test_sample_and_adapt_show_progress_and_adapt_says_how_to_keep_the_policy(
    cheetah: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    said = done("sample", cheetah, "--count", 3, "-o", tmp_path / "s.h5").stdout
    assert "evaluating: 1/4 individuals" in said and "evaluating: 4/4 individuals" in said  # with the unperturbed mean
    adapting = ["--direction", "180deg", "--mutations", 2, "--evaluations", 2]
    copy = tmp_path / "run.h5"
    copy.write_bytes(cheetah.read_bytes())
    said = done("adapt", copy, *adapting).stdout
    assert "evaluating: 2/2 individuals" in said and "scoring: 2/2 rollouts" in said
    assert (tmp_path / "run-adapt-left.h5").exists()  # one direction has one name
    assert "policy is not kept" in said and "--policy FILE.npz --overwrite" in said
    said = done("adapt", copy, *adapting, "--policy", tmp_path / "left.npz", "--overwrite").stdout
    assert "not kept" not in said and f"{tmp_path / 'left.npz'}: the adapted policy" in said
