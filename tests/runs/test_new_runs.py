"""What a new run checks before it makes its file: the noise table, and that the user's own code is deterministic."""

from pathlib import Path
from typing import Any

import pytest

import ees_mpi

SMALL = {"population.size": 8, "run.generations": 2, "noise.size": 5000, "run.fsync": False}


def train(out: Path, task: Any, **settings: Any) -> ees_mpi.Run:
    """Train a function with two parameters and one behaviour."""
    return ees_mpi.train(out=out, task=task, parameters=2, behavior_dim=1, settings={**SMALL, **settings})


def test_a_noise_table_with_few_noise_vectors_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(tmp_path / "run.h5", lambda z: z[0], **{"noise.size": 101, "population.size": 102}).close()
    assert "warning: the noise table has 100 noise vectors for 102 individuals" in capfd.readouterr().out
    with pytest.raises(ees_mpi.ConfigError, match=r"noise\.size: expected at least 101, for 100 noise vectors"):
        train(tmp_path / "none.h5", lambda z: z[0], **{"noise.size": 100})
    assert not (tmp_path / "none.h5").exists()
