"""Every key of a config is described, and the description is printed and on the page."""

import re
import runpy
import textwrap
from pathlib import Path

import msgspec
import pytest
from support.program import CHECKOUT, done
from support.small_runs import trained

from ees_mpi import config
from ees_mpi.config import NoiseSettings, RunSettings, keys
from ees_mpi.config.changes import FAMILIES
from ees_mpi.config.maml import MamlSettings

STRUCTS = {"run": RunSettings, "noise": NoiseSettings, "maml": MamlSettings}


def fields(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_every_key_of_every_struct_is_listed_for_its_parts() -> None:
    listed = [key for section in keys.sections() for key in section.keys]
    found = {(key.key, part) for key in listed for part in (key.parts or [""])}
    expected = {(f"{section}.{name}", "") for section, struct in STRUCTS.items() for name in fields(struct)}
    for kind, family in FAMILIES.items():
        written = [part for part in family if part != "own_loop"]  # a loop of Python names it
        expected |= {(f"{kind}.{name}", part) for part in written for name in fields(family[part])}
        expected.add((f"{kind}.name", ""))
    assert found == expected | {("method", "")}
    text = done("config", "--keys").stdout
    assert all(f"  {key.key} = " in text for key in listed)


def test_the_page_is_the_list_of_keys() -> None:
    made = runpy.run_path(str(CHECKOUT / "tools" / "config_page.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "python tools/config_page.py"


TEN_LINES = """\
[task]
name = "interference"

[population]
name = "normal"
size = 4
std = 0.5

[objective]
name = "maxvar"
"""


@pytest.mark.slow
@pytest.mark.usefixtures("quick_noise")
def test_a_config_of_ten_lines_trains(inside: Path) -> None:
    Path("own.toml").write_text(TEN_LINES)
    assert "100 generations, complete" in done("train", "own.toml").stdout
    sections = config.load("own.toml").sections()
    assert sections["optimizer"]["name"] == "adam" and sections["noise"]["size"] == 2**25
    for line in ("[optimizer]\nlr = 0.5", "[optimizer]\nname = 'ascent'", "[run]\nseed = 3", "[noise]\nsize = 4000"):
        Path("own.toml").write_text(f"{TEN_LINES}{line}\n")
        assert config.load("own.toml").sections() != sections


def test_the_configs_on_the_page_load() -> None:
    page = (CHECKOUT / "ees_mpi" / "docs" / "config.md").read_text(encoding="utf-8")
    texts = re.findall(r"^(?:    .*\n|\n)+", page.partition("\n## ")[0], re.MULTILINE)
    whole, blend = (config.parse(textwrap.dedent(text)) for text in texts if text.strip())
    assert (whole.task_name, whole.population.size, whole.method.algorithm) == ("cheetah", 600, "maxent")
    assert (blend.task_name, blend.population.size, blend.method.algorithm) == ("cheetah", 10_000, "blend")


@pytest.mark.parametrize(
    ("preset", "settings", "note"),
    [
        ("cheetah-maxent", ["objective.name=maxvar"], "objective.name=maxvar drops objective.bandwidth, which maxvar"),
        ("cheetah-maxent", ["task.name=ant"], None),
        ("ant-maxent-mixture", ["population.name=normal"], "population.name=normal drops population.components"),
        ("cheetah-maxent", ["method=maml", "population.name=tasks"], "method=maml drops [objective], [optimizer]"),
        ("cheetah-maml", ["method=ees", "population.name=normal", "objective.name=maxent"], "method=ees drops [maml]"),
    ],
)
def test_a_new_part_drops_the_keys_of_the_old_one_and_says_so(preset: str, settings: list[str], note: str) -> None:
    loaded = config.load(preset, settings)
    config.check(loaded)
    assert [note in said for said in loaded.notes] == ([True] if note else [])
    assert config.load(preset, settings[::-1]).sections() == loaded.sections()


@pytest.mark.parametrize("preset", config.preset_names())
def test_every_preset_is_read_back_from_toml_and_trains_a_generation(preset: str) -> None:
    loaded = config.load(preset)
    assert config.parse(loaded.to_toml()).sections() == loaded.sections()
    assert config.read_source(preset).startswith("# ")
    walks = ["task.steps=3", "task.hidden=[4,4]"] if hasattr(loaded.task, "hidden") else []
    device = ["task.device=cpu"] if preset.startswith("mujoco") else []
    rollouts = ["maml.rollouts=2"] if "maml" in preset else []
    small = ["population.size=4", "noise.size=5000", "run.generations=1"]
    assert trained(config.load(preset, [*small, *walks, *device, *rollouts])).generation == 1
