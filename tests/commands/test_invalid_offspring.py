"""Offspring that are invalid are neither selected nor scored, even if their numbers look good."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ees_mpi
from ees_mpi.errors import TaskError
from ees_mpi.generation import Found, Outcomes, Work
from ees_mpi.run.evaluators import CpuEvaluator


def spoilt(found: Outcomes, *invalid: int) -> Outcomes:
    """Return outcomes of which some are invalid, and go farthest."""
    fitness, valid = found.fitness.copy(), found.valid.copy()
    fitness[list(invalid)], valid[list(invalid)] = 1e9, False
    return replace(found, fitness=fitness, valid=valid, _cache={})


def test_adapt_neither_chooses_nor_scores_what_is_invalid(
    cheetah: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, wrong = CpuEvaluator.evaluate, [1]

    def evaluated(self: CpuEvaluator, work: Work) -> Found:
        found = evaluate(self, work)
        if work.size:
            return replace(found, outcomes=spoilt(found.outcomes, 3))
        return replace(found, means=spoilt(found.means, *wrong))

    monkeypatch.setattr(CpuEvaluator, "evaluate", evaluated)
    words = {"direction": "left", "mutations": 6, "evaluations": 4}
    found = ees_mpi.adapt(cheetah, out=tmp_path / "adapted.h5", **words)
    tried = found.arrays["mutations/fitness"]
    assert found.attributes["best"] == np.argmax(np.delete(tried, 3)) + (np.argmax(np.delete(tried, 3)) >= 3)
    assert np.isnan(found.fitness).tolist() == [False, True, False, False]
    wrong += [0, 2, 3]
    with pytest.raises(TaskError, match="none of 4 evaluations"):
        ees_mpi.adapt(cheetah, out=tmp_path / "other.h5", **words)
    assert not (tmp_path / "other.h5").exists()
