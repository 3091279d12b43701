"""`ees_mpi.train` under mpirun: all ranks call it together; if some do not, there is an error and no hang."""

from collections import Counter
from pathlib import Path

import pytest
from support.processes import all_ended
from support.program import TESTS, ees, info, python, run

PROGRAM = TESTS / "support" / "python_calls.py"


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_all_ranks_get_the_run_or_the_error_in_several_calls(finished: Path, tmp_path: Path) -> None:
    done = ees(PROGRAM, "several_calls", tmp_path / "run.h5", ranks=3)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    lines = Counter(line.partition(" ")[2].partition("; 3 gen")[0] for line in done.stdout.splitlines())
    assert lines == {
        "ZeroDivisionError a mistake in the callback": 1,
        "Interrupted on_generation raised ZeroDivisionError on rank 0: a mistake in the callback": 2,
        "ConfigError population.stdd: unknown name 'stdd'; did you mean std or std_decay?": 3,
        "LockStepError the function of ees_mpi that is called is not the same on all ranks": 3,
        "LockStepError the argument seed is not the same on all ranks": 3,
        "LockStepError the argument settings is not the same on all ranks": 3,
        "LockStepError the argument out is not the same on all ranks": 3,
        "LockStepError the argument config is not the same on all ranks": 3,
        "LockStepError the argument run is not the same on all ranks": 3,
        "LockStepError the argument direction is not the same on all ranks": 3,
        "LockStepError the argument std is not the same on all ranks": 3,
        f"{info(finished)['state_sha256']}": 3,
        "6": 3,
        "(1, 4, 1)": 3,
        "True": 3,
    }


@pytest.mark.slow
def test_a_call_on_some_ranks_only_is_an_error(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    ended = run(python(PROGRAM, "one_rank_waits_for_something_else", out, ranks=2), EES_MPI_START_MINUTES="0.03")
    message = "LaunchError: not all ranks called this function within 0.03 min"
    assert ended.returncode != 0 and ended.stderr.count(message) == 1, ended.stderr
    assert all_ended(out)
