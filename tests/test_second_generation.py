"""The program in jobs/paper that selects mutations and mutates them again."""

from pathlib import Path

import numpy as np
import pytest
import second_generation as program
from second_generation import error_of_ratio, realised, selection_of
from support.program import done, needs_results

import ees_mpi

pytestmark = needs_results


@pytest.mark.usefixtures("quick_figures", "quick_noise")
def test_the_whole_lead_is_passed_on_where_neither_starts_nor_further_mutations_change_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "call", lambda words: done(*words[len(program.EES) :]))  # in this process
    words = {"task.env": "support.own_place:PlacePoint-v0", "task.env_settings": {"same": True}, "task.steps": 3}
    words |= {"task.name": "gymnasium", "task.behavior": "final_observation", "task.hidden": [2], "population.size": 4}
    words |= {"noise.size": 1000, "run.generations": 1}
    ees_mpi.train("gymnasium-ant-maxent", tmp_path / "run.h5", settings=words).close()
    ees_mpi.measure(tmp_path / "run.h5", std=0.5, count=12, starts=2, out=tmp_path / "m.h5").close()
    found = realised(program.second_generation(tmp_path / "m.h5", 1e-7, 1, 2, []))
    assert found["selection"] > 0.1 and found["realised"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("parents", [4, 20])
def test_the_interval_of_what_is_passed_on_covers_it_in_90_to_99_of_100_tries(parents: int) -> None:
    def second(seed: int) -> dict[str, list[float]]:
        generator = np.random.default_rng(seed)
        selection = generator.normal(4.0, 0.8, (4, parents))
        start = np.array([[4.0], [2.0], [-4.0], [-2.0]])  # what the starts add: opposite along opposite directions
        response = 0.3 * selection + start + generator.normal(0.0, 2.0, selection.shape)
        means = {"selection": selection.mean(axis=1).tolist(), "response": response.mean(axis=1).tolist()}
        return {**means, "error": [error_of_ratio(selection, response)], "freedom": [4.0 * (parents - 1)]}

    found = [realised(second(seed)) for seed in range(100)]
    assert 90 <= sum(one["realised_low"] <= 0.3 <= one["realised_high"] for one in found) <= 99
    old = {name: second(0)[name] for name in ("selection", "response")}
    assert realised(old) == {name: found[0][name] for name in ("selection", "response", "realised")}


def test_parents_are_the_best_from_all_starts_in_turn() -> None:
    along = np.random.default_rng(0).normal(size=(200, 5, 4))  # [individual, start, direction]
    selected, start = selection_of(along, 20)
    assert selected.shape == start.shape == (4, 20)
    for direction in range(4):
        assert np.bincount(start[direction]).tolist() == [4] * 5  # no start selects more than another
        ahead = [
            int((along[:, by, direction] > along[one, by, direction]).sum())
            for one, by in zip(selected[direction], start[direction], strict=True)
        ]
        assert ahead == list(range(20))  # of the start that selects it: its best, the second best, ...
    assert not np.array_equal(start[0], start[1])
