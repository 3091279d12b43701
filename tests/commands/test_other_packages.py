"""The examples with other packages; a test is skipped without its package."""

import sys
from pathlib import Path

import pytest
from support.program import CHECKOUT, info

EXAMPLES = CHECKOUT / "jobs" / "examples"


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
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ribs")
    monkeypatch.setattr(sys, "argv", ["qd_archive.py"])
    text = (EXAMPLES / "qd_archive.py").read_text().replace('generations": 20', 'generations": 10')
    exec(text.replace('size": 100', 'size": 10, "noise.size": 5000'), {})
    assert "generation 9: coverage 0.0" in capsys.readouterr().out


def test_the_example_with_an_emitter_starts_at_the_learned_mean(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ribs")
    exec((EXAMPLES / "qd_emitter.py").read_text().replace("range(50)", "range(2)"), {})
    assert "from the learned mean: coverage 0." in capsys.readouterr().out
