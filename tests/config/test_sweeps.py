"""The runs that a sweep stands for, and the names of their files."""

import pytest

from ees_mpi.config.sweeps import runs, values


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("population.std=0.01,0.02,0.05", ["0.01", "0.02", "0.05"]),
        ("population.std=0.01, 0.02", ["0.01", "0.02"]),
        ("population.std=0.01", ["0.01"]),
        ("task.hidden=[4,4]", ["[4,4]"]),
        ("task.hidden=[4,4],[8, 8]", ["[4,4]", "[8, 8]"]),
        ("objective.name=maxvar,maxent", ["maxvar", "maxent"]),
        ("task.env='a,b',\"c\"", ["'a,b'", '"c"']),
        ("task.settings={a=1,b=2},{a=3}", ["{a=1,b=2}", "{a=3}"]),
        ("task.settings={a=[1,2],b={c=1}}", ["{a=[1,2],b={c=1}}"]),
    ],
)
def test_commas_separate_values_except_inside_brackets_and_quotes(setting: str, expected: list[str]) -> None:
    key = setting.partition("=")[0]
    assert values(setting) == [f"{key}={value}" for value in expected]


def test_the_name_of_a_file_has_what_differs_and_the_seed_which_changes_fastest() -> None:
    found = runs("interference-maxent", ["noise.size=5000", "population.std=0.1,0.2"], (3, 1))
    assert [name.removeprefix("interference-maxent-std-") for name in found] == [
        *("0.1-seed3.h5", "0.1-seed1.h5"),
        *("0.2-seed3.h5", "0.2-seed1.h5"),
    ]
    assert [*found.values()][1] == ("noise.size=5000", "population.std=0.1", "run.seed=1")
    assert [*runs("interference-maxent", ["run.seed=4,5"], ())] == [f"interference-maxent-seed{k}.h5" for k in (4, 5)]
