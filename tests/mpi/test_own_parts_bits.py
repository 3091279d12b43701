"""The user's own policy, population and optimizer under mpirun: the same bits, and errors told once."""

from pathlib import Path

import pytest
from support.own_parts import write
from support.processes import all_ended
from support.program import command as words
from support.program import done, info, run
from support.run_files import assert_same_bits

from ees_mpi import open_run


@pytest.mark.standing_ranks
@pytest.mark.slow
@pytest.mark.parametrize("heading", ["A population"])
def test_same_bits_for_any_number_of_ranks_and_through_resume(
    heading: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write(tmp_path, heading)
    two, three = tmp_path / "two.h5", tmp_path / "three.h5"
    done("train", config, "--set", "run.generations=4", "--out", two, ranks=2)  # modules are beside the config
    done("train", config, "--set", "run.generations=2", "--out", three, ranks=3)
    monkeypatch.chdir(tmp_path)  # a run file does not know the folder of its config
    done("resume", three, "--generations", 4)
    assert info(two)["ranks"] == 2 and info(three)["sessions"] == 2
    assert_same_bits(two, three)


@pytest.mark.slow
def test_an_error_in_an_update_on_all_ranks_is_told_once_and_hangs_nobody(tmp_path: Path) -> None:
    config, out = write(tmp_path, "An optimizer"), tmp_path / "run.h5"
    code = tmp_path / "momentum.py"
    code.write_text(code.read_text().replace("speed = {", "abs(moments['mean'][0, 0]) > 0.3 and 1 / 0; speed = {"))
    failed = run(words("train", config, "--set", "run.generations=500", "--out", out, ranks=3))
    assert failed.returncode == 1 and failed.stderr.count("ees-mpi: ") == 1, failed.stderr
    where = "ees-mpi: generation 1: optimizer.function momentum:Momentum: step() raised ZeroDivisionError"
    assert where in failed.stderr and f'"{code}", line 15, in step' in failed.stderr
    assert all_ended(out)
    with open_run(out) as opened:
        assert opened.generations == 1
