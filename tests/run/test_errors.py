"""`task.on_error`: an exception in the user's code ends the run, or the individual counts as invalid."""

from pathlib import Path

import numpy as np
import pytest
from support.program import done
from support.run_files import assert_same_bits

import ees_mpi

CONFIG = """
task = {{ name = "function", function = "support.own_functions:{name}", parameters = 2, behavior_dim = 2{more} }}
population = {{ name = "normal", size = 70, std = 0.1, antithetic = false }}
objective = {{ name = "maxvar" }}
noise = {{ size = 5000 }}
run = {{ generations = 2, fsync = false }}
"""


def config(folder: Path, name: str, more: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(CONFIG.format(name=name, more=more))
    return path


@pytest.mark.standing_ranks
@pytest.mark.parametrize(("name", "more"), [("raises", ""), ("raises_in_a_call", ", batch = true")])
def test_an_exception_makes_its_individuals_invalid_and_is_told_once(name: str, more: str, tmp_path: Path) -> None:
    asked, out = config(tmp_path, name, f'{more}, on_error = "invalid"'), [tmp_path / "one.h5", tmp_path / "three.h5"]
    for path, ranks in zip(out, (None, 3), strict=True):
        said = done("train", asked, "-o", path, ranks=ranks)
        assert said.stderr.count("ValueError: too far") == 1 and "own_functions.py" in said.stderr
    assert_same_bits(*out)
    with ees_mpi.open_run(out[0]) as run:
        far = np.array([[run.individual(g, index)[0] > 0.15 for index in range(70)] for g in (0, 1)])
        expected = far if not more else np.array([[False] * 64 + [row[64:].any()] * 6 for row in far])
        np.testing.assert_array_equal(run["valid"][:] == 0, expected)
        assert run["errors"][:].tolist() == expected.sum(axis=1).tolist() and expected.any() and not expected.all()
    assert "the same bits" in done("verify", out[0], "--individuals", 70).stdout
