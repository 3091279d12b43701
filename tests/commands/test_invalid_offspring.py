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
