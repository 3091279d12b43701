import numpy as np
import pytest
from support.outcomes import in_parts, outcomes

from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.novelty import Novelty


def test_novelty_is_the_mean_distance_to_the_nearest_neighbors() -> None:
    generator = np.random.default_rng(0)
    behavior, archive = generator.normal(size=(100, 2)), generator.normal(size=(30, 2))
    ours = Novelty(neighbors=4).novelty(behavior, archive, Ranks())
    distances = np.sort(np.linalg.norm(behavior[:, None] - archive[None], axis=2), axis=1)
    np.testing.assert_allclose(ours, distances[:, :4].mean(axis=1))
    np.testing.assert_array_equal(in_parts(lambda part: Novelty(neighbors=4).novelty(behavior, archive, part)), ours)


def blend(*parts: dict[str, object]) -> object:
    return OBJECTIVES.build({"name": "blend", "parts": list(parts)})


@pytest.mark.parametrize("name", ["fitness", "maxvar", "maxent"])
def test_a_blend_of_shares_1_and_0_has_the_bits_of_its_first_part(name: str) -> None:
    mixed = blend({"name": name, "share": 1.0}, {"name": "novelty", "share": 0}).weights(outcomes(), {}, Ranks())
    alone = OBJECTIVES.build({"name": name}).weights(outcomes(), {}, Ranks())
    np.testing.assert_array_equal(mixed, alone)


def test_every_part_keeps_its_own_memory() -> None:
    objective = blend({"name": "novelty", "share": 1, "added": 3}, {"name": "novelty", "share": 1, "added": 5})
    memory = objective.remember(outcomes(), {})
    assert {name: len(array) for name, array in memory.items()} == {"0/archive": 3, "1/archive": 5}
    memory = objective.remember(outcomes(), memory)
    assert {name: len(array) for name, array in memory.items()} == {"0/archive": 6, "1/archive": 10}


def test_the_stored_parts_of_a_blend_have_all_keys_so_that_a_later_default_changes_no_bits() -> None:
    objective = blend({"share": 1, "name": "fitness"}, {"name": "maxent", "share": 0.5})
    fitness, maxent = OBJECTIVES.section(objective)["parts"]
    assert fitness == {"share": 1, "name": "fitness"}
    assert maxent == {"share": 0.5, "name": "maxent", "normalization": "whiten", "bandwidth": "scott"}
    assert OBJECTIVES.build(OBJECTIVES.section(objective)) == objective
