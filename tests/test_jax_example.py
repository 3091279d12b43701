"""The simulator in JAX: jobs/examples/jax_simulator.py. Skipped where jax or MJX is not installed."""

from pathlib import Path

import pytest
from support.program import CHECKOUT, python, run

EXAMPLE = CHECKOUT / "jobs" / "examples" / "jax_simulator.py"


@pytest.mark.slow
def test_a_simulator_in_jax_gives_the_same_bits_on_one_and_two_ranks(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("mujoco.mjx")
    digests = []
    for ranks in (0, 2):
        finished = run(python(EXAMPLE, 1, 2, ranks=ranks), JAX_COMPILATION_CACHE_DIR=str(tmp_path), JAX_PLATFORMS="cpu")
        assert finished.returncode == 0, finished.stderr
        digests.append([line for line in finished.stdout.splitlines() if len(line) == 64])
    assert len(digests[0]) == 1 and set(digests[1]) == set(digests[0])
