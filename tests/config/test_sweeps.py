"""The runs that a command line stands for, and the names of their files."""

import json

import pytest

from ees_mpi import config
from ees_mpi.config.sweeps import choice, file_name


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("population.std=0.01,0.02,0.05", ["0.01", "0.02", "0.05"]),
        ("population.std=0.01, 0.02", ["0.01", "0.02"]),
        ("task.hidden=[4,4],[8, 8]", ["[4,4]", "[8, 8]"]),
        ("objective.name=maxvar,maxent", ["maxvar", "maxent"]),
        ("task.env='a,b',\"c\"", ["'a,b'", '"c"']),
        ("task.settings={a=1,b=2},{a=3}", ["{a=1,b=2}", "{a=3}"]),
        ("objective.parts=[{name='fitness',share=1.0},{name='maxent',share=0.5}]", None),
        ("task.hidden=[4,4", ["[4,4"]),
        ("run.seed", ["run.seed"]),
    ],
)
def test_commas_separate_values_except_inside_brackets_and_quotes(setting: str, values: list[str] | None) -> None:
    path = setting.partition("=")[0]
    whole = values is None or "=" not in setting
    assert choice(setting) == ([setting] if whole else [f"{path}={value}" for value in values or ()])


@pytest.mark.parametrize(
    ("preset", "settings", "name"),
    [
        ("cheetah-maxent", [], "cheetah-maxent-seed0.h5"),
        ("cheetah-maxent", ["population.std=0.01", "run.seed=3"], "cheetah-maxent-std0.01-seed3.h5"),
        ("cheetah-es", ["task.hidden=[4,4]", "noise.size=5000"], "cheetah-es-noise.size5000-hidden4x4-seed0.h5"),
        ("cheetah-maxent", ["objective.name=maxvar"], "cheetah-maxent-objective-maxvar-seed0.h5"),
        ("cheetah-maxent", ["optimizer.beta1=0.8", "optimizer.l2=0.0"], "cheetah-maxent-beta1-0.8-l2-0.0-seed0.h5"),
        ("interference-maxent", ["task.start=-1.5"], "interference-maxent-start--1.5-seed0.h5"),
        ("gymnasium-ant-es", ["task.device=cpu"], "gymnasium-ant-es-seed0.h5"),
        ("interference-maxent", ["noise.seed=5"], "interference-maxent-noise.seed5-seed0.h5"),
    ],
)
def test_a_file_name_has_the_keys_that_were_set(preset: str, settings: list[str], name: str) -> None:
    assert file_name(preset, settings) == name
    assert file_name(preset, settings[::-1]) == name


def test_different_configs_have_different_names() -> None:
    changes = [
        *(["population.std=0.1"], ["population.std=0.11"], ["population.std=1e-30"], ["optimizer.lr=0.1"]),
        *(["noise.size=90000"], ["population.size=90000"], ["task.hidden=[4,4]"], ["task.hidden=[44]"]),
        *(["task.behavior_steps=[4,4_4]"], ["task.behavior_steps=[4,4]"[:-1] + "5]"], ["population.name=mixture"]),
        *(["population.name=mixture", "population.components=3"], ["objective.name=novelty"]),
        *(["objective.name=blend", f"objective.parts=[{{name='fitness',share={share}}}]"] for share in (0.5, 0.25)),
        *(["task.name=custom", f"task.function={name}"] for name in ("a.b:C", "a.b:D", "a_b:C", "a" * 60 + ":C")),
        *(["task.name=custom", "task.function=a:B", f"task.settings={{x={x}}}"] for x in ("1", "'1'", "'one'", "[1]")),
        *(["task.name=custom", "task.function=a:B", "task.settings.x=1", f"task.settings.y={y}"] for y in (1, 2)),
    ]
    names = [file_name("cheetah-maxent", settings) for settings in changes]
    unlike = {json.dumps(config.load("cheetah-maxent", settings).sections()) for settings in changes}
    assert len(set(names)) >= len(unlike) == len(changes)
    assert all(len(name) < 200 and "/" not in name and ":" not in name for name in names)


def test_a_long_name_is_shortened_and_still_differs() -> None:
    long = [f"task.settings.{letter * 30}=1" for letter in "abcdefgh"]
    own = ["task.name=custom", "task.function=a:B"]
    one, other = (file_name("cheetah-maxent", [*own, *long, f"task.settings.z={z}"]) for z in (1, 2))
    assert one != other and len(one) < 60
