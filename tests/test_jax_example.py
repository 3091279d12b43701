"""The examples in JAX: jobs/examples/jax_simulator.py and evosax_problem.py. Skipped without their packages."""

from pathlib import Path

import pytest
from support.program import CHECKOUT, python, run

EXAMPLES = {
    "jax_simulator.py": (("jax", "mujoco.mjx"), (1, 2)),
    "evosax_problem.py": (("evosax", "gymnax"), (2,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_simulator_in_jax_gives_the_same_bits_on_one_two_and_three_ranks(name: str, tmp_path: Path) -> None:
    packages, words = EXAMPLES[name]
    for package in packages:
        pytest.importorskip(package)
    example, digests = CHECKOUT / "jobs" / "examples" / name, []
    for ranks in (0, 2, 3):
        finished = run(
            python(example, *words, ranks=ranks), JAX_COMPILATION_CACHE_DIR=str(tmp_path), JAX_PLATFORMS="cpu"
        )
        assert finished.returncode == 0, finished.stderr
        digests.append([line for line in finished.stdout.splitlines() if len(line) == 64])
    assert len(digests[0]) == 1 and set(digests[1]) == set(digests[2]) == set(digests[0])
