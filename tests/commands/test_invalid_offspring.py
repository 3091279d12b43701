"""Offspring that are invalid are neither selected nor scored, even if their numbers look good."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ees_mpi
from ees_mpi.commands import adapt, offspring
from ees_mpi.errors import TaskError
from ees_mpi.outcomes import Outcomes
from ees_mpi.store.reader import starting_note


def test_parents_of_a_second_generation_are_valid_even_if_fewer_than_a_tenth_are(
    cheetah: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = offspring.outcomes_of

    def mostly_invalid(*words: Any, **more: Any) -> Outcomes:
        found = evaluate(*words, **more)
        return replace(found, valid=found.valid & (np.arange(len(found.valid)) < 3), _cache={})

    monkeypatch.setattr(offspring, "outcomes_of", mostly_invalid)
    out = tmp_path / "measured.h5"
    with ees_mpi.measure(cheetah, starts=2, count=40, std=0.02, out=out) as run:
        (second,) = starting_note(run)["second_generation"]
    assert np.isfinite(second["selection"]).all()


def test_parents_are_the_best_from_all_starts_in_turn() -> None:
    along = np.random.default_rng(0).normal(size=(200, 5, 4))  # [individual, start, direction]
    selected, start = offspring.selection_of(along, 20)
    assert selected.shape == start.shape == (4, 20)
    for direction in range(4):
        assert np.bincount(start[direction]).tolist() == [4] * 5  # no start selects more than another
        ahead = [
            int((along[:, by, direction] > along[one, by, direction]).sum())
            for one, by in zip(selected[direction], start[direction], strict=True)
        ]
        assert ahead == list(range(20))  # of the start that selects it: its best, the second best, ...
    assert not np.array_equal(start[0], start[1])


@pytest.mark.parametrize("axes", [1, 2])
def test_what_a_start_adds_to_all_places_does_not_change_the_selection(axes: int) -> None:
    directions = np.vstack([np.eye(axes), -np.eye(axes)])
    places, added = (np.random.default_rng(0).normal(size=(count, 3, axes)) for count in (20, 1))
    found = []
    for size in (0, 100):
        along = (places + size * added) @ directions.T
        selected, start = offspring.selection_of(along, 2)
        found.append(along[selected, start, np.arange(2 * axes)[:, None]].mean())
    assert found[1] == pytest.approx(found[0]) and found[0] > 1


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
