"""NSR-ES: archive and chosen means have the same bits for any number of ranks, through resume and after a kill."""

import json
import signal
from pathlib import Path

import pytest
from support.program import CHECKOUT, done, python, run, sets
from support.run_files import assert_same_bits

from ees_mpi import open_run

pytestmark = pytest.mark.standing_ranks

SMALL = sets("population.size=9", "task.steps=10", "task.hidden=[8]", "noise.size=9000", "task.observation_share=0.5")
SELF_KILL = CHECKOUT / "tools" / "chaos_parts" / "self_kill.py"


@pytest.mark.slow
def test_same_bits_for_any_number_of_ranks_through_resume_and_after_a_kill(tmp_path: Path) -> None:
    alone, path = tmp_path / "alone.h5", tmp_path / "run.h5"
    done("train", "cheetah-nsra", *SMALL, *sets("run.generations=5"), "--out", alone)
    done("train", "cheetah-nsra", *SMALL, *sets("run.generations=2"), "--out", path, ranks=3)
    death = [{"rank": 1, "where": "a rollout", "after": 6}]
    killed = run(python(SELF_KILL, "resume", path, "--generations", 5, ranks=2), EES_CHAOS=json.dumps(death))
    assert killed.returncode == 128 + signal.SIGKILL, killed.stderr
    done("resume", path, "--generations", 5, ranks=2)
    assert_same_bits(path, alone)
    with open_run(path) as parts, open_run(alone) as whole:
        states = parts.state_arrays(), whole.state_arrays()
        assert states[0]["memory/archive"].shape == (9, 1) and (parts["parent"][:, -1] == whole["parent"][:, -1]).all()
        assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[1])
    done("verify", path)
    done("verify", path, "--updates", ranks=2)
    done("sample", path, "--count", 4, "--component", 2, "--out", tmp_path / "sample.h5")
