"""A custom objective under mpirun: the built-in's run, the same bits for any number of ranks, and errors told once."""

from pathlib import Path

import numpy as np
import pytest
from support.program import train
from support.run_files import assert_same_bits

from ees_mpi import open_run

pytestmark = pytest.mark.standing_ranks

FEW = ("population.size=40", "run.generations=20", "noise.size=100000", "run.evaluate_mean_every=0")
CUSTOM = (
    "objective.name=custom",
    "objective.function=ees_mpi.scg.surrogates:maxent",
    "objective.settings.bandwidth=1.0",
)


def custom(path: Path, ranks: int | None) -> Path:
    return train(path, "interference-maxvar", "optimizer.lr=0.1", *FEW, *CUSTOM, ranks=ranks)


@pytest.fixture(scope="module")
def built_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run to meet; test_same_bits says that the number of ranks does not show in it."""
    return train(tmp_path_factory.mktemp("built-in") / "run.h5", "interference-maxent", *FEW)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return custom(tmp_path_factory.mktemp("custom") / "run.h5", None)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3])
def test_custom_maxent_gives_the_run_of_the_built_in_one(
    ranks: int | None, alone: Path, built_in: Path, tmp_path: Path
) -> None:
    path = alone if ranks is None else custom(tmp_path / "run.h5", ranks)
    with open_run(path) as ours, open_run(built_in) as theirs:
        assert ours.generations == theirs.generations == 20
        np.testing.assert_allclose(ours["mean"][:], theirs["mean"][:], rtol=0, atol=1e-6)
        final = [run.state_arrays()["mean"] for run in (ours, theirs)]
        assert abs(float(final[1][0, 0] - theirs["mean"][0, 0, 0])) > 0.1  # it has gone somewhere
    np.testing.assert_allclose(*final, rtol=0, atol=1e-6)
    assert_same_bits(path, alone)
