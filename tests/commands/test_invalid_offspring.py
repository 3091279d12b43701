"""Offspring that are invalid are neither selected nor scored, even if their numbers look good."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ees_mpi
from ees_mpi.commands import adapt
from ees_mpi.errors import TaskError
from ees_mpi.outcomes import Outcomes


def spoilt(found: Outcomes, *invalid: int) -> Outcomes:
    """Return outcomes of which some are invalid, and go farthest."""
    fitness, valid = found.fitness.copy(), found.valid.copy()
    fitness[list(invalid)], valid[list(invalid)] = 1e9, False
    return replace(found, fitness=fitness, valid=valid, _cache={})


def test_adapt_neither_chooses_nor_scores_what_is_invalid(
    cheetah: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutations, scores = adapt.offspring_of, adapt.gather
    monkeypatch.setattr(adapt, "offspring_of", lambda *words, **more: spoilt(mutations(*words, **more), 3))
    monkeypatch.setattr(adapt, "gather", lambda *words: spoilt(scores(*words), 1))
    words = {"direction": "left", "mutations": 6, "evaluations": 4}
    found = ees_mpi.adapt(cheetah, out=tmp_path / "adapted.h5", **words)
    tried = found.arrays["mutations/fitness"]
    assert found.attributes["best"] == np.argmax(np.delete(tried, 3)) + (np.argmax(np.delete(tried, 3)) >= 3)
    assert np.isnan(found.fitness).tolist() == [False, True, False, False]
    monkeypatch.setattr(adapt, "gather", lambda *words: spoilt(scores(*words), 0, 1, 2, 3))
    with pytest.raises(TaskError, match="none of 4 evaluations"):
        ees_mpi.adapt(cheetah, out=tmp_path / "other.h5", **words)
    assert not (tmp_path / "other.h5").exists()


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (
            [-3.0, 1.0, -4.0],
            "-2.000 on average\nnote: on average it does not go towards left from other starts (1 of 3 do)",
        ),
        ([2.0], ""),
    ],
)
def test_adapt_says_if_its_choice_goes_another_way_from_other_starts(
    cheetah: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scores: list[float],
    said: str,
) -> None:
    plain = adapt.gather
    monkeypatch.setattr(adapt, "gather", lambda *words: replace(plain(*words), fitness=np.array(scores), _cache={}))
    ees_mpi.adapt(cheetah, "left", tmp_path / "adapted.h5", mutations=2, evaluations=len(scores))
    told = "".join(capsys.readouterr())
    assert said in told if said else "note:" not in told and "from 1 other start it went 2.000" in told
