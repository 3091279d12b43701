"""The fourth plan: its commands name each file once, and its verdicts follow its rules."""

import shlex

import fourth_plan
import pytest
from support.program import needs_results

pytestmark = needs_results


def test_each_command_of_the_plan_writes_its_own_file() -> None:
    lines = [shlex.split(line) for block in fourth_plan.blocks().values() for line in block]
    files = [words[words.index("--out") + 1] for words in lines]
    assert len(set(files)) == len(files)
    assert all(words[0] == "ees-mpi" for words in lines)


@pytest.mark.parametrize(
    ("fixed", "own", "verdict"),
    [
        ([1, 2, 3, 4, 5, 6], [6, 7, 8, 9, 10, 11], "holds"),
        ([1, 2, 3, 4, 5, 6], [18, 19, 20, 21, 22, 23], "undecided"),
        ([1, 2, 3, 4, 5, 6], [31, 32, 33, 34, 35, 36], "fails"),
    ],
)
def test_four_starts_must_exceed_both_controls(fixed: list[float], own: list[float], verdict: str) -> None:
    assert fourth_plan.heritable_verdict([20.5, 21.5, 22.5, 19.5, 18.5, 24.5], fixed, own) == verdict


@pytest.mark.parametrize(
    ("sectors", "verdict"),
    [
        ([8, 8, 8, 8, 8, 0], "holds"),
        ([8, 8, 8, 8, 7, 7], "undecided"),
        ([8, 8, 7, 7, 7, 7], "fails"),
        ([8, 8, 8, 8, 8], "no verdict (5 of 6 runs)"),
    ],
)
def test_a_reliable_ring_needs_all_sectors_in_five_of_six_runs(sectors: list[int], verdict: str) -> None:
    assert fourth_plan.ring_verdict(sectors) == verdict
