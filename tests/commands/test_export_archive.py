"""Offspring in an archive of pyribs, and the examples with other packages; a test is skipped without its package."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.program import CHECKOUT, done, ees, info, refusal

from ees_mpi import open_run

EXAMPLES = CHECKOUT / "jobs" / "examples"


def test_an_exported_archive_fills_the_grid_archive_of_all_offspring(finished: Path, tmp_path: Path) -> None:
    archives = pytest.importorskip("ribs.archives")
    out = tmp_path / "archive.npz"
    line = done("export", finished, "--to", "archive", "--cells", 10, "--offset", -9, "-o", out).stdout.splitlines()[0]
    with np.load(out) as elites, open_run(finished) as run:
        grid = {name: elites[name].tolist() for name in ("dims", "ranges", "qd_score_offset")}
        every, again = (archives.GridArchive(solution_dim=1, **grid) for _ in range(2))
        for generation in range(run.generations):
            solutions = [run.individual(generation, index) for index in range(20)]
            every.add(solutions, run["fitness"][generation], run["behavior"][generation])
        again.add(elites["solution"], elites["objective"], elites["measures"])
        assert np.array_equal(elites["solution"][0], run.individual(*elites["place"][0].tolist()))
        largest = np.abs(run["behavior"][:]).max()
        assert elites["qd_score"] == pytest.approx(every.stats.qd_score) == pytest.approx(again.stats.qd_score)
    assert len(every) == len(again) and grid["ranges"] == [[-largest, largest]]
    assert f"coverage {every.stats.coverage:.4g}" in line


def test_options_of_an_archive_that_cannot_work_are_refused(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ("export", finished, "--to", "archive", "-o", tmp_path / "archive.npz")
    monkeypatch.setitem(sys.modules, "ribs.archives", None)
    for words, problem in (
        (("--generation", 6), "--generation 6: "),
        (("--range", 2, 1), "the lower number first"),
        ((), "pip install 'ees_mpi[archive]'"),
    ):
        code, line = refusal(*archive, *words)
        assert code == 2 and problem in line
    for words in (("--to", "csv", "--cells", 3), ("--policy", "--range", 0, 1), ("--to", "archive", "--individual", 1)):
        assert ees("export", finished, *words).returncode == 2
    assert "None" not in ees("export", "--help").stdout  # the range of a number without limits


def test_the_example_with_optuna_prunes_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna").logging.disable_default_handler()
    monkeypatch.setattr(sys, "argv", ["optuna_search.py", str(tmp_path)])
    text = (EXAMPLES / "optuna_search.py").read_text().replace("n_warmup_steps=10", "n_warmup_steps=1")
    exec(text.replace("TRIALS, GENERATIONS = 12, 60", "TRIALS, GENERATIONS = 8, 12"), {})
    complete = [info(path)["complete"] for path in tmp_path.glob("trial-*.h5")]
    assert len(complete) == 8 and {*complete} == {True, False}  # a pruned run is saved up to its last generation
    assert "8 trials, " in capsys.readouterr().out


def test_the_example_with_pyribs_prints_the_qd_score_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ribs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["qd_archive.py"])
    text = (EXAMPLES / "qd_archive.py").read_text().replace('generations": 20', 'generations": 10')
    exec(text.replace('size": 100', 'size": 10, "noise.size": 5000'), {})
    assert "generation 9: coverage 0.0" in capsys.readouterr().out
