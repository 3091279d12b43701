"""`jobs/paper/fidelity.py`, and runs with ranked behaviours: the file remembers the normalisation."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.program import CHECKOUT, done, info, sets, train

from ees_mpi import open_run

RANKS = "objective.normalization=ranks"


@pytest.fixture
def fidelity(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("fidelity", CHECKOUT / "jobs" / "paper" / "fidelity.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fidelity", module)
    spec.loader.exec_module(module)
    return module


def test_a_table_compares_each_variant_with_the_papers_settings(fidelity: ModuleType, tmp_path: Path) -> None:
    task = fidelity.TASKS[1]
    assert task.preset == "interference-maxent"
    files = {
        (variant, 0): train(tmp_path / f"{fidelity.slug(variant)}.h5", task.preset, *settings)
        for variant, settings in task.variants.items()
    }
    head, *rows = fidelity.rows(task, files)
    assert all(len(row) == len(head) for row in rows) and [row[0] for row in rows] == list(task.variants)
    paper, ranks = (dict(zip(head, row, strict=True)) for row in rows[:2])
    assert (
        paper["weights: correlation with the paper's"] == "1 (1 to 1)" != ranks["weights: correlation with the paper's"]
    )


def test_every_variant_is_a_config_that_can_run(fidelity: ModuleType) -> None:
    for task in fidelity.TASKS:
        assert next(iter(task.variants)) == fidelity.PAPER
        for settings in task.variants.values():
            done("config", task.preset, *sets(*fidelity.SMALL, *task.settings, *settings))


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
