from typing import Any

import gymnasium
import pytest

from ees_mpi import config, registry
from ees_mpi.errors import ConfigError


def env(name: str = "CartPole-v1", **more: Any) -> dict[str, Any]:
    return {"task": {"name": "gymnasium", "env": name, **more}}


PLAIN = config.read_source("interference-maxvar")
BASE = {"name": "custom", "function": "support.own_tasks:Base"}


def test_the_papers_settings_of_the_interference_task() -> None:
    maxvar, maxent = config.load("interference-maxvar"), config.load("interference-maxent")
    assert (maxvar.method.optimizer.lr, maxent.method.optimizer.lr) == (0.03, 0.1)
    assert maxent.method.objective.bandwidth == 1.0
    for each in (maxvar, maxent):
        assert (each.population.size, each.population.std, each.task.start) == (500, 0.5, 1.0)
        assert each.run.generations == 2000
        assert type(each.method.optimizer).__name__ == "Ascent"


ROBOT = {"name": "cheetah", "engine": "mujoco"}
MIXTURE = {"name": "mixture", "size": 10, "std": 0.1}
MAML = {"method": "maml", "task": ROBOT, "population": {"name": "tasks", "size": 4}, "objective": None}
gymnasium.register("NoSpaces-v0", gymnasium.Env)


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("moves along x only", {"task": {"name": "mujoco", "direction": 90.0}}),
        ("runs on CPUs only", {"task": {"name": "ant", "engine": "bullet", "device": "cuda"}}),
        ("population.components: expected int <= 1000", {"population": {**MIXTURE, "components": 1001}}),
        ("even number", {"population": {**MIXTURE, "size": 11}}),
        ("even number", {"population": {"name": "diagonal", "size": 11, "std": 0.1}}),
        ("no reward at each step", {**MAML, "task": {"name": "interference"}}),
        ('expected "behavior", got "reward"', {**MAML, **env("HalfCheetah-v5", behavior="final_x")}),
        ("adaptation_lr", {**MAML, "maml": {"lr": 0.1}}),
        ('method = "maml" has no such section', {**MAML, "objective": {"name": "maxent"}}),
        ("task.behavior: .*did you mean final_observation", env(behavior="final_observaton")),
        (r"task.enviroment: .*did you mean env\?", env(enviroment="Ant-v5")),
        ("has no MuJoCo body 'tors'", env("HalfCheetah-v5", behavior="final_xy[tors]")),
        ("expected numbers below 4", env(behavior="final_observation[9]")),
        ("'x' is not in the info", env(behavior="mean_info[x]")),
        ("task.behavior: cannot import 'no.such:thing'", env(behavior="no.such:thing")),
        ("cannot be made", env(env_settings={"speed": 3})),
        ("expected box observations", env("Taxi-v4")),
        ("The environment must specify an action space", env("NoSpaces-v0")),
        (r"Base\(\) raised TypeError", {"task": {**BASE, "settings": {"speed": 2}}}),
        ("expected numbers, as in final_observation", env(behavior="final_observation[x]")),
        (r"task\.behavior_steps: unknown name", {"task": {"name": "interference", "behavior_steps": [1]}}),
        (
            "normalization: expected one of whiten, ranks, got 'r'",
            {"objective": {"name": "maxent", "normalization": "r"}},
        ),
        (
            r"objective\.parts\[0\]\.bandwith: .*did you mean bandwidth",
            {"objective": {"name": "blend", "parts": [{"name": "maxent", "share": 1, "bandwith": 1.0}]}},
        ),
        (r"activation\[1\]: expected one of tanh, relu, silu, elu, identity", env(activation=["tanh", "relU"])),
    ],
)
def test_sections_that_do_not_fit_together_are_refused(message: str, changes: dict[str, Any]) -> None:
    fits = {"task": {"name": "interference"}, "objective": {"name": "fitness"}}
    sections = {**fits, "population": {"name": "normal", "size": 10, "std": 0.1}, **changes}
    with pytest.raises(ConfigError, match=message):
        loaded = config.load({name: section for name, section in sections.items() if section})
        config.check(loaded)
        loaded.method.try_out(loaded.task, loaded.population)


def test_a_missing_key_and_a_missing_section_are_named() -> None:
    with pytest.raises(ConfigError, match=r"population.std: is required"):
        config.parse(PLAIN.replace("std = 0.5", ""))
    with pytest.raises(ConfigError, match=r"section \[population\] is missing"):
        config.parse(PLAIN.split("[population]")[0])
    with pytest.raises(ConfigError, match=r"section \[task\] is missing, also \[population\], \[objective\];.*presets"):
        config.parse("[run]")


def test_the_task_of_a_policy_needs_no_section_to_train_with() -> None:
    found = config.read({"task": {"name": "interference"}}, ["population.std=0.5"], task_alone=True)
    assert (found.population_name, found.population.std) == ("normal", 0.5)
    assert config.read({"task": {"name": "interference"}}, task_alone=True).population.std == 0.02
    with pytest.raises(ConfigError, match=r"section \[task\] is missing;"):
        config.read({"run": {}}, task_alone=True)
    assert config.read("cheetah-maml", task_alone=True).method == config.read("cheetah-maml").method


def flat(source: str) -> dict[str, object]:
    """Return the settings of a preset as section.key: value."""
    return dict(registry.flat(config.load(source).sections()))


@pytest.mark.parametrize("robot", ["cheetah", "ant"])
@pytest.mark.parametrize("objective", ["maxent", "maxvar"])
def test_the_authors_presets_differ_from_the_papers_in_the_known_settings_only(robot: str, objective: str) -> None:
    paper, authors = flat(f"{robot}-{objective}"), flat(f"{robot}-{objective}-authors")
    expected: dict[str, object] = {
        "task.terminate": "environment",
        "objective.normalization": "ranks",
        "optimizer.l2": 0.005,
        "noise.size": 10_000_000,
    }
    if objective == "maxent":
        expected["objective.bandwidth"] = 0.5**0.5
    assert {key: value for key, value in authors.items() if paper[key] != value} == expected
    assert paper["objective.normalization"] == "whiten" and paper["optimizer.l2"] == 0.05


def test_a_config_with_a_base_has_only_its_own_keys_and_a_new_part_drops_those_of_the_old() -> None:
    own = 'base = "cheetah-maxent-authors-laptop"\n[objective]\nname = "maxvar"\n[population]\nsize = 8\n'
    found = config.parse(own)
    settings = ("objective.name=maxvar", "population.size=8")
    assert found.sections() == config.load("cheetah-maxent-authors-laptop", settings).sections()
    with pytest.raises(ConfigError, match=r"base: unknown name 'cheetah-maxnt'; did you mean cheetah-maxent"):
        config.parse('base = "cheetah-maxnt"')
    with pytest.raises(ConfigError, match=r"objective.bandwidth: unknown name"):
        config.parse(own.replace('"maxvar"', '"maxvar"\nbandwidth = 2.0'))
