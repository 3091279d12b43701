"""Runs with ranked behaviours: the file remembers the normalisation."""

from pathlib import Path

import numpy as np
import pytest
from support.program import done, info, train

from ees_mpi import open_run

RANKS = "objective.normalization=ranks"


@pytest.mark.parametrize("preset", ["interference-maxvar", "interference-maxent"])
def test_a_run_with_ranks_has_the_same_first_generation_and_goes_another_way(preset: str, tmp_path: Path) -> None:
    whiten, ranks = train(tmp_path / "whiten.h5", preset), train(tmp_path / "ranks.h5", preset, RANKS)
    with open_run(whiten) as one, open_run(ranks) as other:
        np.testing.assert_array_equal(one["behavior"][0], other["behavior"][0])
        assert one["entropy"][0] == other["entropy"][0]
        assert one["gradient_norm"][0] != other["gradient_norm"][0]
    done("verify", ranks)
    done("resume", ranks, "--generations", 8)
    assert info(ranks)["generations"] == 8 and 'normalization = "ranks"' in done("config", ranks).stdout
