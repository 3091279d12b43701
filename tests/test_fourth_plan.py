"""The fourth plan: its commands name each file once, and its verdicts follow its rules."""

import shlex

import fourth_plan
import page_tables as tables
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


def measured(name: str, seed: int, **numbers: float) -> dict[str, str]:
    """Return a row of heritability.csv."""
    return {"mean": name.format(seed), "engine": "mujoco"} | {key: f"{value}" for key, value in numbers.items()}


def test_the_table_of_the_plan_waits_for_its_runs_and_then_has_verdicts() -> None:
    ant = "ant-maxent-authors-{}-mujoco-seed{{}}"
    rows = [measured(ant.format("whiten"), seed, heritable=seed, share=0.01 * seed) for seed in range(6, 12)]
    rows += [measured(ant.format("own"), seed, heritable=3 * seed, share=0.02 * seed) for seed in fourth_plan.ANTS]
    assert tables.fourth(rows).count("not run yet") == 4
    for seed in (7, *fourth_plan.ANTS):  # seed 7 was known before the plan and does not count
        rows.append(
            measured(ant.format("four"), seed, heritable=300 + seed, share=0.5 + seed / 1000, reliable_sectors=8)
        )
    for arm, share in (("-four", 0.8), ("", 0.4)):
        for seed in fourth_plan.CHEETAHS:
            name = f"cheetah-maxent-authors{arm}-mujoco-seed{{}}"
            rows.append(measured(name, seed, heritable=500 + seed, share=share + seed / 1000))
    rows.append(measured("cheetah-maxent-authors-four-mujoco-seed{}-after30", 6, heritable=1, share=0.1))
    table = tables.fourth(rows).splitlines()[2:]
    assert [line.split(" | ")[2] for line in table] == ["holds |"] * 4
    assert "8, 8, 8, 8, 8, 8 |" in table[2] and "p = 0.0022" in table[3]


@pytest.mark.parametrize(
    ("share", "least", "verdict"),
    [((0.8, 0.4), 0.7, "holds"), ((0.8, 0.4), 0.6, "undecided"), ((0.4, 0.8), 0.9, "fails")],
)
def test_the_cheetahs_share_must_rise_and_its_variance_must_not_fall(
    share: tuple[float, float], least: float, verdict: str
) -> None:
    groups = [[value + 0.001 * place for place in range(6)] for value in share]
    assert fourth_plan.share_verdict(groups, least) == verdict
